"""
The blocks of a schedule, played: which systems are loaded together, what they play at
once.

A run, its pilot and its preflight all play with a `BlockPlayer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from parlai_ext.core import Dialogue, Pairing, System, content_id
from parlai_ext.engines.machine import Machine
from parlai_ext.store import RunFolder
from parlai_ext.systems.model_cache import (
    ModelCache,
    fit_threads,
    memory_for_weights,
)
from parlai_ext.systems.parlai_agents import samples
from parlai_ext.systems.player_process import load_on
from parlai_ext.systems.players import Player
from parlai_ext.systems.random_numbers import seed_all
from parlai_ext.worlds.kept_replies import KeptReplies
from parlai_ext.worlds.lockstep import BatchRow, Respond, let_speak, play_on
from parlai_ext.worlds.schedule import Block, Schedule, ShardKey

ShardPairs = Mapping[ShardKey, Pairing]


@dataclass(frozen=True)
class BlockPlayer:
    """
    Plays any block of a schedule.

    `cache` holds the loaded systems, `batchsize` is how many dialogues go through a
    model together, `sampling` names the systems that draw their replies at random, and
    `on_replies` is called as `play_on` says. `kept_in` is the run folder in which the
    replies of a block are kept until the block is written; `None`: nowhere.
    """

    plan: Schedule
    cache: ModelCache
    batchsize: int
    sampling: frozenset[str]
    on_replies: Callable[[int, int], object] | None = None
    kept_in: RunFolder | None = None

    @classmethod
    def from_plan(
        cls,
        plan: Schedule,
        machine: Machine,
        *,
        load: Callable[[System], Player] | None = None,
    ) -> BlockPlayer:
        """
        Return the player of a schedule's blocks; nothing is loaded yet.

        :param load: builds a system, if it is not `load_on` that does.
        """
        systems = plan.roster.systems
        fit_threads(systems)
        budget = memory_for_weights(machine.no_cuda, machine.max_gpu_memory)
        load = load or (lambda system: load_on(machine, system))
        cache = ModelCache(load, budget)
        sampling = frozenset(s.name for s in systems if samples(s))
        return cls(plan, cache, machine.batchsize, sampling)

    def missing_blocks(self, run: RunFolder | None) -> dict[Block, frozenset[ShardKey]]:
        """
        Return the blocks that lack shards in a run folder, with those that they lack.

        :param run: `None` lacks them all; it need not know all of the plan's pairings.
        """
        written = set(run.dialogue_shards() if run else ())
        missing = {
            block: frozenset(block.shards) - written
            for block in self.plan.blocks(self.is_sampling)
        }
        return {block: shards for block, shards in missing.items() if shards}

    def is_sampling(self, pairing: Pairing) -> bool:
        """
        True if one of the pair draws its replies at random.
        """
        return not self.sampling.isdisjoint(pairing.speakers)

    def speakers(self, block: Block) -> list[str]:
        """
        Return the names of the systems that a block needs.
        """
        pairs = (self.plan.by_id[shard.pairing_id] for shard in block.shards)
        return list(dict.fromkeys(name for p in pairs for name in p.speakers))

    def play_block(self, block: Block) -> dict[ShardKey, list[Dialogue]]:
        """
        Return the dialogues of each shard, without pairs of which a system fails.

        Each block has random numbers of its own, whatever was played before.
        """
        shards = [[shard.pairing_id, shard.index] for shard in block.shards]
        seed = content_id('block', self.plan.protocol.seed, shards)
        played: dict[ShardKey, list[Dialogue]] = {}
        for pairs in self._groups(block):
            played |= self._play_group(pairs, seed)
        return played

    def load_players(self, pairs: Iterable[Pairing]) -> Mapping[str, Player]:
        """
        Load the systems of these pairs. A system that fails to load is left out and its
        error recorded in the cache.
        """
        names = dict.fromkeys(n for p in pairs for n in p.speakers)
        return self.cache.load_all([self.plan.roster.system(name) for name in names])

    def play_rows(
        self,
        rows: Sequence[BatchRow],
        players: Mapping[str, Player],
        num_turns: int,
        seed: str,
        batchsize: int | None = None,
        respond: Respond = let_speak,
    ) -> list[Dialogue | None]:
        """
        Return a dialogue for each row, `None` where a system could not go on. Such a
        system is dropped and its error recorded in the cache.

        :param seed: hex digits; what was played before does not matter.
        """
        seed_all(seed)  # after loading, which draws too
        dialogues, failed = play_on(
            rows, players, num_turns, batchsize, self.on_replies, respond
        )
        for error in failed.values():
            self.cache.drop_failed(error)
        return dialogues

    def _groups(self, block: Block) -> list[dict[ShardKey, Pairing]]:
        """
        Return a block's shards in groups whose systems fit into memory together.
        """
        groups: list[dict[ShardKey, Pairing]] = []
        systems: dict[str, System] = {}
        for shard in block.shards:
            pair = self.plan.by_id[shard.pairing_id]
            both = {n: self.plan.roster.system(n) for n in pair.speakers}
            if not groups or not self.cache.can_hold({**systems, **both}.values()):
                groups.append({})
                systems = {}
            groups[-1][shard] = pair
            systems |= both
        return groups

    def _play_group(
        self, pairs: ShardPairs, seed: str
    ) -> dict[ShardKey, list[Dialogue]]:
        players = self.load_players(pairs.values())
        ready = {s: p for s, p in pairs.items() if {*p.speakers} <= {*players}}
        rows = [
            BatchRow(pairing, opener)
            for shard, pairing in ready.items()
            for opener in self.plan.openers[shard.start : shard.stop]
        ]
        # dialogues of a system that samples are never cut into smaller batches, which
        # would change what is drawn
        whole = any(map(self.is_sampling, ready.values()))
        batchsize = None if whole else self.batchsize
        num_turns = self.plan.protocol.num_turns
        with self._keeping(rows, seed, batchsize) as respond:
            played_rows = self.play_rows(
                rows, players, num_turns, seed, batchsize, respond
            )
        dialogues = iter(played_rows)
        shards = {shard: list(islice(dialogues, shard.n_dialogues)) for shard in ready}
        return {
            shard: [dialogue for dialogue in played if dialogue]
            for shard, played in shards.items()
            if None not in played
        }

    @contextmanager
    def _keeping(
        self, rows: Sequence[BatchRow], seed: str, batchsize: int | None
    ) -> Iterator[Respond]:
        """
        Return what asks for the replies of these rows, and keeps them.
        """
        if self.kept_in is None:
            yield let_speak
            return
        manifest = self.kept_in.manifest
        known = manifest.everybody
        speakers = {n for row in rows for n in row.pairing.speakers}
        key = content_id(
            'replies',
            manifest.settings(),
            {name: known[name].identity for name in speakers},
            [(row.pairing.id, row.opener.id) for row in rows],
            seed,
            batchsize,
        )
        kept = self.kept_in.partial_replies(key)
        with kept.saved_at_exit():
            yield KeptReplies(kept).respond
