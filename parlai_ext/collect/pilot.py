"""
Pilot: real blocks of a run are played and scored, to forecast what is left of it.

The blocks are few, but every system speaks in one of them, so that its seconds and its
money for a reply are known for batches as the run has them. Nothing else is kept, since
settings may still change afterwards.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from parlai_ext.collect.forecast import (
    Clock,
    Forecast,
    SystemForecast,
    forecast_settings,
    peak_bytes,
)
from parlai_ext.collect.plan import Plan
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, System
from parlai_ext.engines.machine import Machine
from parlai_ext.scoring.score_run import ChosenScorer, score_dialogues
from parlai_ext.store import RunFolder
from parlai_ext.systems.player_process import load_on
from parlai_ext.systems.players import Participant, Player, Reply
from parlai_ext.systems.spending import (
    Spending,
    add_spendings,
    spending_of,
    spending_since,
)
from parlai_ext.view.progress import bar_of
from parlai_ext.worlds.block_player import BlockPlayer
from parlai_ext.worlds.schedule import Block, ShardKey


@dataclass
class Measured:
    """
    What a system took in the pilot; `batches` are pairs of replies and seconds.
    """

    load_seconds: float = 0.0
    n_bytes: int = 0
    batches: list[tuple[int, float]] = field(default_factory=list)
    spent: Spending | None = None

    @property
    def replies(self) -> int:
        """
        The replies of all batches.
        """
        return sum(n for n, _ in self.batches)

    @property
    def seconds(self) -> float:
        """
        The seconds of loading and of all batches.
        """
        return self.load_seconds + sum(seconds for _, seconds in self.batches)

    def forecast(self, replies: int, between: float) -> SystemForecast:
        """
        Return what so many replies take. A first batch that is slower than the others
        counts as a part of loading, since much is set up in it.

        :param between: seconds for each reply that pass between the batches.
        """
        (n_first, first_seconds), *_ = self.batches
        timed = self.batches[1:] or self.batches
        each = sum(seconds for _, seconds in timed) / sum(n for n, _ in timed)
        return SystemForecast(
            replies,
            replies * (each + between),
            self.load_seconds + max(0.0, first_seconds - n_first * each),
            self.n_bytes,
            self._spent_by(replies),
            (self.spent or {}).get('cached') or 0,
        )

    def _spent_by(self, replies: int) -> Spending | None:
        """
        Return what so many replies use when none is in a cache; a cost of `None` when
        the pilot's were all in one, or have no price.
        """
        if self.spent is None:
            return None
        paid = self.replies - (self.spent['cached'] or 0)
        factor = replies / paid if paid > 0 else 0
        used: Spending = {key: (n or 0) * factor for key, n in self.spent.items()}
        priced = paid > 0 and self.spent['cost'] is not None
        return {**used, 'cached': 0, 'cost': used['cost'] if priced else None}


class TimedPlayer(Player):
    """
    A player whose batches are measured.
    """

    def __init__(self, player: Player, measured: Measured, clock: Clock):
        super().__init__(player.name, player.agent)
        self.player, self.measured, self.clock = player, measured, clock
        self.join = player.join  # type: ignore[method-assign]
        self.n_bytes = player.n_bytes

    def respond(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Let every participant speak next.
        """
        before, start = spending_of(self.agent), self.clock()
        replies = self.player.respond(participants)
        self.measured.batches.append((len(participants), self.clock() - start))
        now = spending_of(self.agent)
        if now is not None and before is not None:
            used = spending_since(now, before)
            self.measured.spent = add_spendings(self.measured.spent or {}, used)
        return replies


def pilot(
    plan: Plan,
    machine: Machine,
    run: RunFolder | None,
    scorer: ChosenScorer | None = None,
    *,
    clock: Clock = time.perf_counter,
) -> Forecast:
    """
    Play blocks in which every system speaks, score them, and forecast what is left.

    :param scorer: the protocol's, by which the dialogues are scored, too.
    :raises UserError: when nothing is left to do, or nothing could be measured.
    """
    start, measured = clock(), dict[str, Measured]()
    load = timed_loader(machine, measured, clock)
    player = BlockPlayer.from_plan(plan, machine, load=load)
    missing = player.missing_blocks(run)
    if not missing:
        raise UserError('--pilot: all dialogues of the run are there already')
    begun = clock()
    dialogues = play_blocks(player, covering_blocks(player, missing))
    play_seconds = clock() - begun
    player.cache.clear()
    spoke = {name: one for name, one in measured.items() if one.batches}
    if not dialogues or not spoke:
        why = next(iter(player.cache.problems.values()), 'no dialogue could be played')
        raise UserError(f'--pilot: nothing could be measured: {why}')
    shards = [shard for block in missing.values() for shard in block]
    n_dialogues = sum(shard.n_dialogues for shard in shards)
    replies, judged = replies_left(plan, shards)
    everybody = plan.roster.systems
    names = [system.name for system in everybody if system.name in spoke]
    systems = system_forecasts(names, spoke, replies, play_seconds)
    score_seconds = None
    if scorer is not None:
        once, each = time_scoring(plan, machine, dialogues, clock, scorer)
        score_seconds = once + each * n_dialogues
    spent = (measurement.spent or {} for measurement in measured.values())
    return Forecast(
        plan.protocol.name,
        forecast_settings(plan.protocol),
        n_dialogues,
        n_dialogues * plan.protocol.num_turns,
        judged,
        score_seconds,
        *peak_bytes(),
        systems,
        len(dialogues),
        clock() - start,
        reduce(add_spendings, spent, add_spendings({}, {}))['cost'],
        tuple(uncounted(player, systems)),
    )


def system_forecasts(
    names: Iterable[str],
    measured: Mapping[str, Measured],
    replies: Mapping[str, int],
    play_seconds: float,
) -> dict[str, SystemForecast]:
    """
    Return what each system's replies will take.

    :param replies: how many each system will give.
    :param play_seconds: what playing took; the part of it that no system used is shared
        out over the replies.
    """
    n_replies = sum(one.replies for one in measured.values())
    used = sum(one.seconds for one in measured.values())
    between = max(0.0, (play_seconds - used) / n_replies)
    return {name: measured[name].forecast(replies[name], between) for name in names}


def timed_loader(
    machine: Machine, measured: dict[str, Measured], clock: Clock
) -> Callable[[System], Player]:
    """
    Return a function that loads a system and measures it.

    :param measured: takes up the measurement of each system, by its name.
    """

    def load(system: System) -> Player:
        begun, player = clock(), load_on(machine, system)
        measurement = measured.setdefault(system.name, Measured())
        measurement.load_seconds, measurement.n_bytes = clock() - begun, player.n_bytes
        return TimedPlayer(player, measurement, clock)

    return load


def play_blocks(player: BlockPlayer, blocks: Sequence[Block]) -> list[Dialogue]:
    """
    Return the dialogues of these blocks.
    """
    dialogues: list[Dialogue] = []
    n_dialogues = sum(block.n_dialogues for block in blocks)
    with bar_of('pilot', n_dialogues) as bar:
        for block in blocks:
            for played in player.play_block(block).values():
                dialogues += played
            bar.update(block.n_dialogues)
    return dialogues


def covering_blocks(player: BlockPlayer, work: Iterable[Block]) -> list[Block]:
    """
    Return few of these blocks, rather the larger ones, in which every system speaks.
    """
    speakers = {block: set(player.speakers(block)) for block in work}
    silent = set().union(*speakers.values())
    blocks: list[Block] = []
    while silent:
        best = max(speakers, key=lambda b: (len(speakers[b] & silent), b.n_dialogues))
        blocks.append(best)
        silent -= speakers[best]
    return blocks


def replies_left(plan: Plan, shards: Iterable[ShardKey]) -> tuple[Counter[str], int]:
    """
    Return how many replies each system gives in these shards, and how many of all
    replies are judged: both speakers', or the first one's.
    """
    replies: Counter[str] = Counter()
    judged = 0
    for shard in shards:
        pair = plan.by_id[shard.pairing_id]
        for opener in plan.openers[shard.start : shard.stop]:
            turns = range(len(opener.utterances), plan.protocol.num_turns)
            by_first = sum(i % 2 == 0 for i in turns)
            replies[pair.first] += by_first
            replies[pair.second] += len(turns) - by_first
            judged += len(turns) if plan.protocol.score == 'both' else by_first
    return replies, judged


def time_scoring(
    plan: Plan,
    machine: Machine,
    dialogues: Sequence[Dialogue],
    clock: Clock,
    chosen: ChosenScorer,
) -> tuple[float, float]:
    """
    Return the seconds that it takes to load the scorer, and to score a dialogue.
    """
    start = clock()
    scorer = chosen.build(machine)
    loaded = clock()
    first_only = plan.protocol.score != 'both'
    for i in range(0, len(dialogues), plan.shard_size):
        score_dialogues(dialogues[i : i + plan.shard_size], scorer, first_only)
    return loaded - start, (clock() - loaded) / len(dialogues)


def uncounted(
    player: BlockPlayer, systems: Mapping[str, SystemForecast]
) -> Iterable[str]:
    """
    Yield what the forecast does not count.
    """
    for problem in player.cache.problems.values():
        yield f'not measured: {problem}'
    if sum(system.weights_bytes for system in systems.values()) > player.cache.budget:
        yield (
            'not counted: the systems do not fit into memory together, so that the '
            'run loads some of them several times'
        )
