"""
Preflight: two dialogues a system before a long run, to see whether it is fit to talk.

Nothing of it is kept; the run folder is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from parlai_ext.collect.block_player import BlockPlayer
from parlai_ext.collect.lockstep import BatchRow
from parlai_ext.collect.plan import Plan
from parlai_ext.collect.replies import SystemCheck, check_system, replies_in
from parlai_ext.core.errors import UserError
from parlai_ext.core.floors import is_floor
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Dialogue, Opener, Pairing, content_id
from parlai_ext.core.progress import bar_of
from parlai_ext.core.protocol import Protocol
from parlai_ext.store import RunFolder
from parlai_ext.systems.players import Player
from parlai_ext.systems.spending import meter_of, spending_of

DIALOGUES = 2
# generated utterances in a dialogue, each speaker's three replies
GENERATED = 6
CANNOT = 'cannot be loaded: '


def preflight(
    plan: Plan, machine: Machine, run: RunFolder | None, *, progress: bool = True
) -> list[SystemCheck]:
    """
    Let every system that the run needs open two dialogues with its neighbour in the
    roster, and check its replies.

    :param run: the run folder as it is, `None` when it is not there yet.
    """
    trial = Trial(BlockPlayer.from_plan(plan, machine))
    blocks = trial.player.missing_blocks(run)
    needed = {name for block in blocks for name in trial.player.speakers(block)}
    systems = plan.roster.targets + plan.roster.partners
    names = [system.name for system in systems if system.name in needed]
    dialogues: dict[str, list[Dialogue]] = {name: [] for name in names}
    with bar_of('preflight', len(names), progress, unit='system') as bar:
        for i, first in enumerate(names):
            second = names[(i + 1) % len(names)]
            for dialogue in trial.play(first, second, i):
                for name in {first, second}:
                    dialogues[name].append(dialogue)
            bar.update()
    for i, name in enumerate(names):
        if trial.is_untested(name, dialogues[name]):
            dialogues[name] += trial.play(name, name, i)
    checks = [trial.check(name, dialogues[name]) for name in names]
    trial.player.cache.clear()
    return checks


class Trial:
    """
    Short dialogues of a plan's systems, played as the run plays them.
    """

    def __init__(self, player: BlockPlayer):
        self.player, self.plan = player, player.plan
        self.problems = player.cache.problems
        self.loaded: set[str] = set()
        self.cut: dict[str, str] = {}

    def play(self, first: str, second: str, index: int) -> list[Dialogue]:
        """
        Return two dialogues of a pair, fewer when there are fewer openers, none when a
        system cannot go on.
        """
        openers = chosen_openers(self.plan.openers, index)
        pair = Pairing('preflight', first, second, 'preflight')
        players = self.player.load_players([pair])
        self.loaded |= players.keys()
        if not {first, second} <= players.keys():
            return []
        given = max(len(opener.utterances) for opener in openers)
        length = min(self.plan.protocol.num_turns, given + GENERATED)
        seed = content_id('preflight', self.plan.protocol.seed, first, second)
        before = {name: tokens_written(player) for name, player in players.items()}
        rows = [BatchRow(pair, opener) for opener in openers]
        played = self.player.play_rows(rows, players, length, seed)
        dialogues = [dialogue for dialogue in played if dialogue]
        meters = {id(meter_of(player.agent)) for player in players.values()}
        if len(meters) == len(players):  # a shared one does not tell who wrote what
            for name, player in players.items():
                texts = [r.text for d in dialogues for r in replies_in(d, name)]
                if warning := cut_warning(player, texts, before[name]):
                    self.cut[name] = warning
        return dialogues

    def is_untested(self, name: str, dialogues: Sequence[Dialogue]) -> bool:
        """
        True if other systems kept this one from replying in enough dialogues.
        """
        if name in self.problems or any(d.ended_by == name for d in dialogues):
            return False
        return sum(len(replies_in(d, name)) > 1 for d in dialogues) < DIALOGUES

    def check(self, name: str, dialogues: Sequence[Dialogue]) -> SystemCheck:
        """
        Return what is wrong with a system's replies, or why it could not be loaded.
        """
        if name in self.problems:
            reason = self.problems[name].removeprefix(f'system {name!r}: ')
            return SystemCheck(name, reason if name in self.loaded else CANNOT + reason)
        bad_on_purpose = is_bad_on_purpose(name, self.plan.protocol)
        check = check_system(name, dialogues, bad_on_purpose=bad_on_purpose)
        more = (self.cut[name],) if name in self.cut else ()
        return replace(check, warnings=check.warnings + more)


def is_bad_on_purpose(name: str, protocol: Protocol) -> bool:
    """
    True for a floor, and for a system whose place in the ranking is planted.
    """
    planted = protocol.reference if protocol.reference_kind == 'planted' else {}
    return is_floor(name) or any(name in values for values in planted.values())


def chosen_openers(openers: Sequence[Opener], index: int) -> list[Opener]:
    """
    Return two openers, others for each index as far as there are.
    """
    start = DIALOGUES * index
    places = range(start, start + min(DIALOGUES, len(openers)))
    return [openers[place % len(openers)] for place in places]


def cut_warning(player: Player, texts: Sequence[str], before: float) -> str | None:
    """
    Return a warning when all replies are as long as the agent's options allow.

    :param before: the tokens that the system had written before these replies.
    """
    agent: Any = player.agent
    cap = getattr(agent, 'opt', {}).get('reply_max_tokens')
    cap = cap or getattr(agent, 'label_truncate', None)
    if not isinstance(cap, int) or cap <= 0 or not texts:
        return None
    if written := tokens_written(player) - before:
        is_cut = written >= cap * len(texts)
    elif hasattr(agent, 'dict'):  # the end token is one
        is_cut = min(len(agent.dict.txt2vec(text)) for text in texts) >= cap - 1
    else:
        is_cut = False
    return f'all replies are cut at the longest, {cap} tokens' if is_cut else None


def tokens_written(player: Player) -> float:
    """
    Return how many tokens a system has written, 0 when it does not count them.
    """
    return (spending_of(player.agent) or {}).get('completion_tokens') or 0


def report_lines(checks: Sequence[SystemCheck]) -> list[str]:
    """
    Return one line for each system, with what is wrong with it below.
    """
    width = max((len(check.system) for check in checks), default=0)
    lines = []
    for check in checks:
        word = 'STOP' if check.stop else 'warn' if check.warnings else 'ok'
        lines.append(
            f'preflight  {check.system:{width}}  {word:4}  '
            f'{check.n_dialogues} dialogues, {check.n_replies} replies'
        )
        reasons = [check.stop] if check.stop else []
        lines += [f'           {"":{width}}  {r}' for r in (*reasons, *check.warnings)]
    return lines


def stop_unless_fit(
    checks: Sequence[SystemCheck], *, skip_missing: bool = False
) -> None:
    """
    End a command whose systems are not fit to talk.

    :param skip_missing: the run does without systems that cannot be loaded.
    :raises UserError: one line that names them all, with reasons.
    """
    stops = [check for check in checks if check.stop]
    if skip_missing and len(stops) < len(checks):
        stops = [check for check in stops if not (check.stop or '').startswith(CANNOT)]
    if stops:
        reasons = '; '.join(f'system {check.system!r}: {check.stop}' for check in stops)
        raise UserError(
            f'preflight: {len(stops)} of {len(checks)} systems are not fit to talk, so '
            f'nothing was collected: {reasons}'
        )
