"""
Pilot: real blocks of a run are played and scored, to forecast what is left of it.

The blocks are few, but every system speaks in one of them, so that its seconds and its
money for a reply are known for batches as the run has them. Nothing else is kept, since
settings may still change afterwards.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from parlai_ext.collect.block_player import BlockPlayer, load_on
from parlai_ext.collect.dry_run import bytes_on_disk, judged_utterances
from parlai_ext.collect.plan import Plan
from parlai_ext.collect.resolved import systems_of
from parlai_ext.collect.timing import (
    Clock,
    Forecast,
    SystemForecast,
    peak_bytes,
    settings_of,
    total_cost,
)
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Dialogue, System
from parlai_ext.core.progress import bar_of
from parlai_ext.core.schedule import Block
from parlai_ext.scoring.score_run import build_scorer, score_dialogues
from parlai_ext.store import RunFolder
from parlai_ext.systems.players import Participant, Player, Reply
from parlai_ext.systems.spending import (
    Spending,
    add_spendings,
    spending_of,
    spending_since,
)


@dataclass
class Measured:
    """
    What a system took in the pilot. The first batch is apart: much is set up in it.
    """

    load_seconds: float = 0.0
    n_bytes: int = 0
    first: tuple[int, float] = (0, 0.0)
    replies: int = 0
    seconds: float = 0.0
    spent: Spending | None = None

    def add(self, replies: int, seconds: float, spent: Spending | None) -> None:
        """
        Add a batch.
        """
        if not self.first[0]:
            self.first = replies, seconds
        else:
            self.replies += replies
            self.seconds += seconds
        if spent is not None:
            self.spent = add_spendings(self.spent or {}, spent)

    @property
    def all_replies(self) -> int:
        """
        The replies of all batches.
        """
        return self.replies + self.first[0]

    def forecast(self, replies: int) -> SystemForecast:
        """
        Return what so many replies take, after loading the system once.
        """
        timed, seconds = (self.replies, self.seconds) if self.replies else self.first
        each = seconds / timed
        setup = max(0.0, self.first[1] - each * self.first[0])
        return SystemForecast(
            replies=replies,
            reply_seconds=each * replies,
            load_seconds=self.load_seconds + setup,
            weights_bytes=self.n_bytes,
            spent=self._spent_by(replies),
            from_cache=(self.spent or {}).get('cached') or 0,
        )

    def _spent_by(self, replies: int) -> Spending | None:
        """
        Return what so many replies use when none is in a cache; a cost of `None` when
        the pilot's were all in one, or have no price.
        """
        if self.spent is None:
            return None
        paid = self.all_replies - (self.spent['cached'] or 0)
        if paid <= 0:
            return {**dict.fromkeys(self.spent, 0), 'cost': None}
        cost = self.spent['cost']
        scaled = {key: (n or 0) * replies / paid for key, n in self.spent.items()}
        return {**scaled, 'cached': 0, 'cost': None if cost is None else scaled['cost']}


class TimedPlayer(Player):
    """
    A player whose batches are measured.
    """

    def __init__(self, player: Player, measured: Measured, clock: Clock):
        super().__init__(player.name, player.agent)
        self.player, self.measured, self.clock = player, measured, clock

    def respond(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Let every participant speak next.
        """
        before, start = spending_of(self.agent), self.clock()
        replies = self.player.respond(participants)
        seconds, now = self.clock() - start, spending_of(self.agent)
        spent = None if now is None or before is None else spending_since(now, before)
        self.measured.add(len(participants), seconds, spent)
        return replies


def pilot(
    plan: Plan,
    machine: Machine,
    run: RunFolder | None,
    *,
    judge: bool = True,
    named_by_user: bool = False,
    clock: Clock = time.perf_counter,
    progress: bool = True,
) -> Forecast:
    """
    Play blocks in which every system speaks, score them, and forecast what is left.

    :param judge: build the protocol's scorer too, and score the dialogues.
    :param named_by_user: a scorer from outside the package may be imported.
    :raises UserError: when nothing is left to do, or nothing could be measured.
    """
    start, measured = clock(), dict[str, Measured]()
    load = timed_loader(machine, measured, clock)
    player = BlockPlayer.from_plan(plan, machine, load=load)
    work = player.missing_blocks(run)
    if not work:
        raise UserError('--pilot: all dialogues of the run are there already')
    begun = clock()
    dialogues = play_blocks(player, covering_blocks(player, work), progress)
    play_seconds = clock() - begun
    player.cache.clear()
    speaking = {name: m for name, m in measured.items() if m.all_replies}
    if not dialogues or not speaking:
        why = next(iter(player.cache.problems.values()), 'no dialogue could be played')
        raise UserError(f'--pilot: nothing could be measured: {why}')
    scoring = None
    if judge:
        scoring = score_seconds(plan, machine, dialogues, clock, named_by_user)
    replies = replies_left(plan, work)
    systems = {
        system.name: speaking[system.name].forecast(replies[system.name])
        for system in systems_of(plan.protocol)
        if system.name in speaking
    }
    n_dialogues = sum(s.n_dialogues for missing in work.values() for s in missing)
    judged = n_judged(plan, n_dialogues)
    return Forecast(
        plan.protocol.name,
        settings_of(plan.protocol),
        n_dialogues,
        judged,
        collect_seconds(speaking.values(), play_seconds, systems.values()),
        scoring and scoring[0] + scoring[1] * n_dialogues,
        *peak_bytes(),
        bytes_on_disk(n_dialogues * plan.protocol.num_turns, judged),
        systems,
        len(dialogues),
        clock() - start,
        total_cost(measurement.spent for measurement in measured.values()),
        tuple(cautions(player, systems)),
    )


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


def collect_seconds(
    measured: Collection[Measured],
    play_seconds: float,
    forecasts: Iterable[SystemForecast],
) -> float:
    """
    Return the seconds that collecting the missing dialogues takes.

    To the seconds of the systems themselves every reply adds its share of the time that
    the pilot spent between loading and replying.

    :param measured: the systems that spoke in the pilot.
    :param play_seconds: how long the pilot's dialogues took, with loading.
    """
    busy = sum(m.load_seconds + m.first[1] + m.seconds for m in measured)
    between = (play_seconds - busy) / sum(m.all_replies for m in measured)
    return sum(
        forecast.load_seconds
        + forecast.reply_seconds
        + forecast.replies * max(0.0, between)
        for forecast in forecasts
    )


def play_blocks(
    player: BlockPlayer, blocks: Sequence[Block], progress: bool
) -> list[Dialogue]:
    """
    Return the dialogues of these blocks.
    """
    dialogues: list[Dialogue] = []
    with bar_of('pilot', sum(map(block_size, blocks)), progress) as bar:
        for block in blocks:
            for played in player.play_block(block).values():
                dialogues += played
            bar.update(block_size(block))
    return dialogues


def covering_blocks(player: BlockPlayer, work: Iterable[Block]) -> list[Block]:
    """
    Return few of these blocks, rather the larger ones, in which every system speaks.
    """
    speakers = {block: set(player.speakers(block)) for block in work}
    silent = set().union(*speakers.values())
    blocks: list[Block] = []
    while silent:
        best = max(speakers, key=lambda b: (len(speakers[b] & silent), block_size(b)))
        blocks.append(best)
        silent -= speakers[best]
    return blocks


def block_size(block: Block) -> int:
    """
    Return how many dialogues a block has.
    """
    return sum(shard.n_dialogues for shard in block.shards)


def replies_left(plan: Plan, work: Iterable[Block]) -> Counter[str]:
    """
    Return how many replies each system gives in these blocks.
    """
    pairings = {pairing.id: pairing for pairing in plan.pairings}
    replies: Counter[str] = Counter()
    for shard in (shard for block in work for shard in block.shards):
        pair = pairings[shard.pairing_id]
        for opener in plan.openers[shard.start : shard.stop]:
            for i in range(len(opener.utterances), plan.protocol.num_turns):
                replies[pair.second if i % 2 else pair.first] += 1
    return replies


def n_judged(plan: Plan, n_dialogues: int) -> int:
    """
    Return how many utterances of so many full dialogues are judged.
    """
    lengths = [len(opener.utterances) for opener in plan.openers]
    judged = sum(judged_utterances(plan.protocol, given) for given in lengths)
    return round(n_dialogues * judged / len(lengths))


def score_seconds(
    plan: Plan,
    machine: Machine,
    dialogues: Sequence[Dialogue],
    clock: Clock,
    named_by_user: bool,
) -> tuple[float, float]:
    """
    Return the seconds that it takes to load the scorer, and to score a dialogue.
    """
    start = clock()
    scorer = build_scorer(plan.protocol.scorer, machine, named_by_user=named_by_user)
    loaded = clock()
    first_only = plan.protocol.score != 'both'
    for i in range(0, len(dialogues), plan.shard_size):
        score_dialogues(dialogues[i : i + plan.shard_size], scorer, first_only)
    return loaded - start, (clock() - loaded) / len(dialogues)


def cautions(
    player: BlockPlayer, systems: Mapping[str, SystemForecast]
) -> Iterable[str]:
    """
    Yield what the forecast does not count.
    """
    for problem in player.cache.problems.values():
        yield f'not measured: {problem}'
    if (
        sum(forecast.weights_bytes for forecast in systems.values())
        > player.cache.budget
    ):
        yield (
            'not counted: the systems do not fit into memory together, so that the '
            'run loads some of them several times'
        )
