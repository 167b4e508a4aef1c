"""
Preflight: two dialogues a system before a long run, to see whether it is fit to talk.

Nothing of it is kept; the run folder is not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from parlai_ext.collect.lockstep import BatchRow
from parlai_ext.collect.plan import Plan, make_plan
from parlai_ext.collect.playing import Stage
from parlai_ext.collect.replies import Verdict, replies_of, verdict
from parlai_ext.core.errors import UserError
from parlai_ext.core.floors import is_floor
from parlai_ext.core.nouns import Dialogue, Opener, Pairing, content_id
from parlai_ext.core.schedule import Block, ShardKey
from parlai_ext.store import RunFolder
from parlai_ext.store import manifest as manifests
from parlai_ext.systems.players import Player
from parlai_ext.systems.spending import meter_of, spending_of

DIALOGUES = 2
# generated utterances in a dialogue, each speaker's three replies
MADE = 6
CANNOT = 'cannot be loaded: '


def planned(opt: Mapping[str, Any]) -> Plan:
    """
    Return the plan of these options as the run would accept it, and write nothing.

    :raises UserError: when the run folder holds a run with other settings.
    """
    plan = make_plan(opt)
    if run := RunFolder.existing_or_none(opt.get('run_dir')):
        manifests.merge_manifests(
            run.manifest, manifests.manifest_data(plan.manifest), run.root
        )
    return plan


def to_play(stage: Stage, root: str | None) -> dict[Block, frozenset[ShardKey]]:
    """
    Return the blocks that the run would play (most often all), with the shards that it
    lacks.

    :param root: the run folder, which need not be there yet.
    """
    return stage.todo(RunFolder.existing_or_none(root))


def speakers(plan: Plan, work: Iterable[Block]) -> list[str]:
    """
    Return the systems that these blocks need, in the roster's order.
    """
    ids = {shard.pairing_id for block in work for shard in block.shards}
    pairs = [pairing for pairing in plan.pairings if pairing.id in ids]
    needed = {name for pair in pairs for name in (pair.first, pair.second)}
    systems = plan.roster.targets + plan.roster.partners
    return [system.name for system in systems if system.name in needed]


def preflight(
    plan: Plan, opt: Mapping[str, Any], *, progress: bool = True
) -> list[Verdict]:
    """
    Let every system that the run needs open two dialogues with its neighbour in the
    roster, and judge what each of them says.
    """
    trial = Trial(Stage.of(plan, opt))
    names = speakers(plan, to_play(trial.stage, opt.get('run_dir')))
    dialogues: dict[str, list[Dialogue]] = {name: [] for name in names}
    ring = list(zip(names, [*names[1:], *names[:1]], strict=True))
    for index, (first, second) in enumerate(
        tqdm(ring, desc='preflight', unit='system', disable=not progress)
    ):
        for dialogue in trial.play(first, second, index):
            for name in dict.fromkeys((first, second)):
                dialogues[name].append(dialogue)
    for index, name in enumerate(names):
        if trial.untested(name, dialogues[name]):
            dialogues[name] += trial.play(name, name, index)
    found = [trial.verdict(name, dialogues[name]) for name in names]
    trial.cast.clear()
    return found


class Trial:
    """
    Short dialogues of a plan's systems, played as the run plays them.
    """

    def __init__(self, stage: Stage):
        self.stage, self.plan, self.cast = stage, stage.plan, stage.cast
        self.seated: set[str] = set()
        self.capped: dict[str, str] = {}

    def play(self, first: str, second: str, index: int) -> list[Dialogue]:
        """
        Return two dialogues of a pair, fewer when there are fewer openers, none when a
        system cannot go on.
        """
        openers = chosen(self.plan.openers, index)
        pair = Pairing('preflight', first, second, 'preflight')
        names = dict.fromkeys((first, second))
        players = self.stage.seated([pair])
        self.seated |= players.keys()
        if len(players) < len(names):
            return []
        given = max(len(opener.utterances) for opener in openers)
        length = min(self.plan.protocol.num_turns, given + MADE)
        seed = content_id('preflight', self.plan.protocol.seed, first, second)
        meters = {id(meter_of(player.agent)) for player in players.values()}
        before = {name: _written(player) for name, player in players.items()}
        rows = [BatchRow(pair, one) for one in openers]
        found = [d for d in self.stage.play(rows, players, length, seed) if d]
        for name, player in players.items() if len(meters) == len(players) else ():
            self._watch_cap(name, player, before[name], found)
        return found

    def untested(self, name: str, dialogues: Sequence[Dialogue]) -> bool:
        """
        Tell whether others kept a system from being heard.
        """
        if name in self.cast.problems or any(d.ended_by == name for d in dialogues):
            return False
        return sum(len(replies_of(name, d)) > 1 for d in dialogues) < DIALOGUES

    def verdict(self, name: str, dialogues: Sequence[Dialogue]) -> Verdict:
        """
        Return what the dialogues say of a system, and whether it could be had at all.
        """
        if name in self.cast.problems:
            reason = self.cast.problems[name].removeprefix(f'system {name!r}: ')
            return Verdict(name, reason if name in self.seated else CANNOT + reason)
        found = verdict(name, dialogues, dull=self.is_dull(name))
        more = (self.capped[name],) if name in self.capped else ()
        return replace(found, warnings=found.warnings + more)

    def is_dull(self, name: str) -> bool:
        """
        Tell whether a system is bad on purpose: a floor, or one whose place is planted.
        """
        protocol = self.plan.protocol
        planted = protocol.reference if protocol.reference_kind == 'planted' else {}
        return is_floor(name) or any(name in v for v in planted.values())

    def _watch_cap(
        self, name: str, player: Player, before: float, dialogues: Sequence[Dialogue]
    ) -> None:
        """
        Note when all replies are as long as they may be.
        """
        texts = [r.text for d in dialogues for r in replies_of(name, d)]
        cap, used = length_cap(player.agent), _written(player) - before
        if not cap or not texts:
            return
        if not used and hasattr(player.agent, 'dict'):
            lengths = [len(player.agent.dict.txt2vec(text)) for text in texts]
            full = min(lengths) >= cap - 1  # the end token is one
        else:
            full = used >= cap * len(texts)
        if full:
            self.capped[name] = f'all replies are cut at the longest, {cap} tokens'


def chosen(openers: Sequence[Opener], index: int) -> list[Opener]:
    """
    Return two openers, others for each index as far as there are.
    """
    start = DIALOGUES * index
    turns = range(start, start + min(DIALOGUES, len(openers)))
    return [openers[turn % len(openers)] for turn in turns]


def length_cap(agent: Any) -> int | None:
    """
    Return the most tokens of a reply, as far as the agent's options tell.
    """
    opt = getattr(agent, 'opt', {})
    cap = opt.get('reply_max_tokens') or getattr(agent, 'label_truncate', None)
    return cap if isinstance(cap, int) and cap > 0 else None


def _written(player: Player) -> float:
    """
    Return how many tokens a system says it has written, 0 when it does not count.
    """
    return (spending_of(player.agent) or {}).get('completion_tokens') or 0


def in_words(found: Sequence[Verdict]) -> str:
    """
    Return one line for each system, what is wrong with it below.
    """
    width = max((len(one.system) for one in found), default=0)
    lines = []
    for one in found:
        word = 'STOP' if one.stop else 'warn' if one.warnings else 'ok'
        lines.append(
            f'preflight  {one.system:{width}}  {word:4}  '
            f'{one.n_dialogues} dialogues, {one.n_replies} replies'
        )
        about = [one.stop] if one.stop else []
        lines += [f'           {"":{width}}  {w}' for w in (*about, *one.warnings)]
    return '\n'.join(lines)


def stop_unless_fit(found: Sequence[Verdict], *, skip_missing: bool = False) -> None:
    """
    End a command whose systems are not fit to talk.

    :param skip_missing: the run does without systems that cannot be loaded.
    :raises UserError: one line that names them all, with reasons.
    """
    stops = [one for one in found if one.stop]
    if skip_missing:
        there = [one for one in stops if not (one.stop or '').startswith(CANNOT)]
        stops = there if len(stops) < len(found) else stops
    if stops:
        reasons = '; '.join(f'system {one.system!r}: {one.stop}' for one in stops)
        raise UserError(
            f'preflight: {len(stops)} of {len(found)} systems are not fit to talk, so '
            f'nothing was collected: {reasons}'
        )
