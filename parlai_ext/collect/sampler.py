"""
A run's systems, measured as the run would use them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from parlai_ext.collect.lockstep import BatchRow
from parlai_ext.collect.plan import Plan
from parlai_ext.collect.playing import Stage
from parlai_ext.collect.rates import (
    Measured,
    Workload,
    batches,
    pace,
    typical_width,
)
from parlai_ext.core.nouns import Dialogue, Opener, Pairing, System
from parlai_ext.core.options import machine_options
from parlai_ext.core.schedule import Block
from parlai_ext.systems.model_cache import ModelCache
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.players import Participant, Player, Reply
from parlai_ext.systems.spending import Spending, added, since, spending_of

Clock = Callable[[], float]

# the sample's share of the dialogues, and the fewest of a pair
SHARE = 0.05
FEWEST = 4
# utterances of each wide dialogue
WIDE_STEPS = 2


class TimedPlayer(Player):
    """
    A player that notes how long its batches took, and what they used.
    """

    def __init__(self, player: Player, clock: Clock):
        super().__init__(player.name, player.agent)
        self.clock = clock
        self.fresh = True
        self.setup_seconds = 0.0
        self.batches_seen: list[tuple[int, float]] = []
        self.spent: Spending | None = None

    def respond(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Let every participant speak next.
        """
        before, start = spending_of(self.agent), self.clock()
        replies = super().respond(participants)
        self.batches_seen.append((len(participants), self.clock() - start))
        now = spending_of(self.agent)
        if now is not None and before is not None:
            self.spent = added(self.spent or {}, since(now, before))
        return replies

    def noted(self) -> list[tuple[int, float]]:
        """
        Return batches (replies, seconds) since the last call, but for the very first,
        in which much is set up.
        """
        seen, self.batches_seen = self.batches_seen, []
        if self.fresh and len(seen) > 1:
            self.fresh = False
            rest = seen[1:]
            usual = sum(took for _, took in rest) / len(rest)
            self.setup_seconds = max(0.0, seen[0][1] - usual)
            return rest
        return seen


class Unloaded(Player):
    """
    A player in size only.
    """

    def __init__(self, name: str, n_bytes: int):
        self.name, self.agent, self._n_bytes = name, None, n_bytes

    @property
    def n_bytes(self) -> int:
        """
        The memory that its weights would take.
        """
        return self._n_bytes


class Sampler:
    """
    The systems of a plan, measured as the run would use them.
    """

    def __init__(self, plan: Plan, opt: Mapping[str, Any], clock: Clock):
        self.plan, self.opt, self.clock = plan, opt, clock
        self.stage = Stage.of(plan, opt, load=self._load)
        self.cast = self.stage.cast
        self.load_seconds: dict[str, float] = {}
        self.setup_seconds: dict[str, float] = {}
        self.n_bytes: dict[str, int] = {}
        self.narrow: dict[str, list[tuple[int, float]]] = {}
        self.wide: dict[str, tuple[float, float]] = {}
        self.spent: dict[str, Spending] = {}
        self.paid: Spending | None = None
        self.replies: Counter[str] = Counter()
        self.overhead = 0.0

    @property
    def step_seconds(self) -> float:
        """
        What an utterance took besides the reply itself.
        """
        return self.overhead / max(1, self.replies.total())

    def sample(
        self, pairs: Sequence[Pairing], workload: Workload, n: int, progress: bool
    ) -> list[Dialogue]:
        """
        Play a few dialogues of each pair, and wide batches of each system.

        :param n: dialogues of the whole run.
        """
        share = max(FEWEST, math.ceil(n * SHARE / len(pairs)))
        openers = self.plan.openers[: min(share, self.stage.width)]
        dialogues: list[Dialogue] = []
        for pair in tqdm(pairs, desc='pilot', unit='pair', disable=not progress):
            played = self.play(pair, openers)
            dialogues += played
            for name in dict.fromkeys((pair.first, pair.second)):
                if name in self.narrow and name not in self.wide and played:
                    self.widen(name, typical_width(workload, name), played)
        return dialogues

    def play(self, pair: Pairing, openers: Sequence[Opener]) -> list[Dialogue]:
        """
        Play full dialogues of a pair and note how long their batches took.
        """
        players = self._seated(pair)
        if not {pair.first, pair.second} <= players.keys():
            return []
        start = self.clock()
        dialogues = self._play(
            [BatchRow(pair, one) for one in openers],
            players,
            self.plan.protocol.num_turns,
        )
        seconds = self.clock() - start
        for name, player in players.items():
            replies = sum(n for n, _ in player.batches_seen)
            seconds -= sum(took for _, took in player.batches_seen)
            self.replies[name] += replies
            self.narrow.setdefault(name, []).extend(player.noted())
            self.setup_seconds.setdefault(name, player.setup_seconds)
            used = self._paid(player)
            if used is not None:
                self.spent[name] = added(self.spent.get(name, {}), used)
        self.overhead += max(0.0, seconds)
        return dialogues

    def widen(self, name: str, width: int, dialogues: Sequence[Dialogue]) -> None:
        """
        Note how long a system takes for batches of ``width``, amid dialogues.
        """
        if width <= max((n for n, _ in self.narrow[name]), default=width):
            return
        pair = Pairing('pilot', name, name, 'pilot')
        players = self._seated(pair)
        if name not in players:
            return
        begun = [
            halfway(
                self.plan.openers[i % len(self.plan.openers)],
                dialogues[i % len(dialogues)],
                self.plan.protocol.num_turns,
            )
            for i in range(width)
        ]
        rows = [BatchRow(pair, opener) for opener in begun]
        length = max(len(o.utterances) for o in begun) + WIDE_STEPS
        self._play(rows, players, length)
        self._paid(players[name])  # a reply in the middle is not the usual one
        seen = [(n, took) for n, took in players[name].noted() if n == width]
        if seen:
            self.wide[name] = (width, sum(took for _, took in seen) / len(seen))

    def measured(self) -> dict[str, Measured]:
        """
        Return what was measured of each system that replied.
        """
        found = {}
        systems = self.plan.roster.targets + self.plan.roster.partners
        for name in (system.name for system in systems):
            seen = self.narrow.get(name, [])
            replies, seconds = sum(n for n, _ in seen), sum(s for _, s in seen)
            if not replies:
                continue
            mean = (replies / len(seen), seconds / len(seen))
            found[name] = Measured(
                self.load_seconds[name] + self.setup_seconds[name],
                pace(mean, self.wide.get(name)),
                self.n_bytes[name],
                self.replies[name],
                self.spent.get(name),
            )
        return found

    def simulated(
        self, work: Iterable[Block], sizes: Mapping[str, int]
    ) -> tuple[Workload, Counter[str]]:
        """
        Return the batches of these blocks, and how often each system is loaded.

        :param sizes: bytes of the systems' weights; others are as large as their file.
        """
        loads: Counter[str] = Counter()

        def load(system: System) -> Player:
            loads[system.name] += 1
            return Unloaded(system.name, sizes.get(system.name, 0))

        cast = ModelCache(load, self.cast.budget, datapath=self.opt.get('datapath'))
        stage = replace(self.stage, cast=cast)
        length = self.plan.protocol.num_turns
        workload: Workload = Counter()
        for block in work:
            for pairs in stage.groups(block):
                stage.seated(pairs.values())
                rows = [(row.pairing, row.opener) for row in stage.rows(pairs)]
                workload += batches(rows, length, stage.width_of(pairs.values()))
        return workload, loads

    def _load(self, system: System) -> Player:
        start = self.clock()
        timed = TimedPlayer(
            load_system(system, **machine_options(self.opt)), self.clock
        )
        self.load_seconds[system.name] = self.clock() - start
        self.n_bytes[system.name] = timed.n_bytes
        return timed

    def _paid(self, player: TimedPlayer) -> Spending | None:
        """
        Return what a player has used since the last call.
        """
        used, player.spent = player.spent, None
        if used is not None:
            self.paid = added(self.paid or {}, used)
        return used

    def _seated(self, pair: Pairing) -> dict[str, TimedPlayer]:
        players = self.stage.seated([pair])
        return {n: p for n, p in players.items() if isinstance(p, TimedPlayer)}

    def _play(
        self, rows: Sequence[BatchRow], players: Mapping[str, TimedPlayer], length: int
    ) -> list[Dialogue]:
        return [d for d in self.stage.play(rows, players, length, '0') if d]


def halfway(opener: Opener, dialogue: Dialogue, num_turns: int) -> Opener:
    """
    Return an opener that goes on as a dialogue did, up to half its length.

    With openers of their own, rows differ, as a real batch's do: its longest reply
    says how long a batch takes.
    """
    said = [one.text for one in dialogue.utterances if not one.given]
    more = max(0, num_turns // 2 - len(opener.utterances))
    return Opener.of([*opener.utterances, *said[:more]], 'pilot')
