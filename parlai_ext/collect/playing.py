"""
The systems of a plan at play: which are loaded together, and what they play at once.

A run, its pilot and its preflight all play on a `Stage`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from parlai_ext.collect.lockstep import BatchRow, play_on
from parlai_ext.collect.plan import Plan
from parlai_ext.collect.seats import drawing_systems
from parlai_ext.core.nouns import Dialogue, Pairing, System
from parlai_ext.core.options import machine_options
from parlai_ext.core.schedule import Block, ShardKey, blocks
from parlai_ext.models.threads import fit_threads
from parlai_ext.store import RunFolder
from parlai_ext.systems.model_cache import ModelCache, memory_for_weights
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.players import Player
from parlai_ext.systems.spending import Spending
from parlai_ext.systems.system_options import model_path

Pairs = Mapping[ShardKey, Pairing]


@dataclass(frozen=True)
class Stage:
    """
    What it takes to play any block of a plan.

    :param width: rows that go through a model together.
    :param drawing: the systems that draw their replies at random.
    """

    plan: Plan
    cast: ModelCache
    width: int
    drawing: frozenset[str]

    @classmethod
    def of(
        cls,
        plan: Plan,
        opt: Mapping[str, Any],
        *,
        load: Callable[[System], Player] | None = None,
        spent: dict[str, Spending] | None = None,
    ) -> Stage:
        """
        Return the stage of a plan; nothing is loaded yet.

        :param opt: a command's options: batchsize, datapath, no_cuda, fp16,
            max_gpu_memory.
        :param load: builds a system, if it is not `load_system` that does.
        :param spent: is filled with what each system has used, however this ends.
        """
        where, datapath = machine_options(opt), opt.get('datapath')
        systems = plan.roster.targets + plan.roster.partners
        fit_threads(model_path(system, datapath) for system in systems)
        budget = memory_for_weights(where['no_cuda'], opt.get('max_gpu_memory'))
        load = load or partial(load_system, **where)
        return cls(
            plan,
            ModelCache(load, budget, datapath=datapath, spent=spent),
            opt.get('batchsize') or plan.manifest['batchsize'],
            drawing_systems(plan.roster, datapath),
        )

    def todo(self, run: RunFolder | None) -> dict[Block, frozenset[ShardKey]]:
        """
        Return the blocks that lack shards in a run folder, with those that they lack.

        :param run: `None` lacks them all; it need not know all of the plan's pairings.
        """
        found = run.dialogue_shards() if run else ()
        there = {(shard.pairing_id, shard.index) for shard in found}
        plan = self.plan
        size = plan.manifest['batchsize'], self.draws, plan.shard_size
        missing = {
            block: frozenset(
                shard
                for shard in block.shards
                if (shard.pairing_id, shard.index) not in there
            )
            for block in blocks(plan.pairings, len(plan.openers), *size)
        }
        return {block: shards for block, shards in missing.items() if shards}

    def draws(self, pairing: Pairing) -> bool:
        """
        Tell whether one of the pair draws its replies at random.
        """
        return not self.drawing.isdisjoint((pairing.first, pairing.second))

    def groups(self, block: Block) -> list[dict[ShardKey, Pairing]]:
        """
        Return a block's shards in groups whose systems fit into memory together.
        """
        by_id = {pairing.id: pairing for pairing in self.plan.pairings}
        found: list[dict[ShardKey, Pairing]] = []
        cast: dict[str, System] = {}
        for shard in block.shards:
            pair = by_id[shard.pairing_id]
            both = {n: self.plan.roster.system(n) for n in (pair.first, pair.second)}
            if not found or not self.cast.fits({**cast, **both}.values()):
                found.append({})
                cast = {}
            found[-1][shard] = pair
            cast |= both
        return found

    def seated(self, pairs: Iterable[Pairing]) -> Mapping[str, Player]:
        """
        Return the systems of these pairs loaded, without those that cannot be.
        """
        names = dict.fromkeys(n for p in pairs for n in (p.first, p.second))
        return self.cast.load_all([self.plan.roster.system(name) for name in names])

    def rows(self, pairs: Pairs) -> list[BatchRow]:
        """
        Return the dialogues of these shards.
        """
        return [
            BatchRow(pairing, opener)
            for shard, pairing in pairs.items()
            for opener in self.plan.openers[shard.start : shard.stop]
        ]

    def width_of(self, pairs: Iterable[Pairing]) -> int | None:
        """
        Return how many dialogues of these pairs go together, `None` for all at once.

        One that draws is never cut into smaller batches, which would change what is
        drawn.
        """
        return None if any(map(self.draws, pairs)) else self.width

    def play(
        self,
        rows: Sequence[BatchRow],
        players: Mapping[str, Player],
        num_turns: int,
        seed: str,
        width: int | None = None,
    ) -> list[Dialogue | None]:
        """
        Return a dialogue for each row, `None` where a system could not go on, which is
        given up.

        :param seed: hex digits; what was played before does not matter.
        """
        seed_all(seed)  # after loading, which draws too
        dialogues, failed = play_on(rows, players, num_turns, width)
        for error in failed.values():
            self.cast.drop_failed(error)
        return dialogues


def seed_all(digits: str) -> None:
    """
    Seed every source of random numbers that an agent may use.
    """
    seed = int(digits, 16)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed % 2**63)
