"""
Collect: every dialogue of the plan that is not there yet.

A block is played as a whole, so that what a batch holds never depends on what was done
before; only its missing shards are written.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from parlai_ext.bridge.agents import load_system, model_path
from parlai_ext.bridge.residents import Residents, memory_for_weights
from parlai_ext.bridge.spending import Spending
from parlai_ext.bridge.threads import fit_threads
from parlai_ext.records import Dialogue, Opener, Pairing, Roster, System, content_id
from parlai_ext.schedule import Block, ShardKey, blocks
from parlai_ext.stages.not_run import write_problems
from parlai_ext.stages.plan import plan_of_run
from parlai_ext.stages.seats import drawing_systems
from parlai_ext.store import RunFolder
from parlai_ext.worlds.lockstep import Lane, play_on


@dataclass(frozen=True)
class CollectReport:
    """
    How many dialogues were played and written, how many were there already or had to
    be left out, and which systems could not be loaded.
    """

    n_played: int
    n_skipped: int
    problems: tuple[str, ...] = ()


def collect(
    run: RunFolder,
    opt: Mapping[str, Any],
    *,
    progress: bool = True,
    spent: dict[str, Spending] | None = None,
) -> CollectReport:
    """
    Collect what the run's manifest plans.

    :param opt: a command's options: batchsize, datapath, no_cuda, fp16.
    :param spent: is filled with what each system has used, however this ends.
    """
    plan = plan_of_run(run)
    return collect_shards(
        run,
        pairings=plan.pairings,
        openers=plan.openers,
        roster=plan.roster,
        num_turns=plan.protocol.num_turns,
        shard_size=plan.shard_size,
        seed=plan.protocol.seed,
        batchsize=run.manifest['batchsize'],
        width=opt.get('batchsize'),
        datapath=opt.get('datapath'),
        no_cuda=bool(opt.get('no_cuda')),
        fp16=opt.get('fp16'),
        max_memory=opt.get('max_gpu_memory'),
        progress=progress,
        spent=spent,
    )


def collect_shards(
    run: RunFolder,
    *,
    pairings: Sequence[Pairing],
    openers: Sequence[Opener],
    roster: Roster,
    num_turns: int,
    shard_size: int,
    seed: int,
    batchsize: int,
    datapath: str | None = None,
    no_cuda: bool = False,
    fp16: bool | None = None,
    progress: bool = True,
    max_memory: float | None = None,
    max_resident: int | None = None,
    width: int | None = None,
    spent: dict[str, Spending] | None = None,
) -> CollectReport:
    """
    Play every block with a missing shard and write the missing shards.

    :param batchsize: lanes that a block is packed to; the run folder keeps it.
    :param width: lanes that go through a model together (`None`: as many).
    :param max_memory: gigabytes that the weights of loaded systems may take.

    Ctrl-C and SIGTERM raise `KeyboardInterrupt`: what was written stays, and the block
    in flight is played again by the next call.
    """
    fit_threads(model_path(s, datapath) for s in roster.targets + roster.partners)
    load = partial(load_system, datapath=datapath, no_cuda=no_cuda, fp16=fp16)
    budget = memory_for_weights(no_cuda, max_memory)
    cast = Residents(
        load, budget, max_resident=max_resident, datapath=datapath, spent=spent
    )
    drawing = drawing_systems(roster, datapath)
    lanes = width or batchsize
    stage = Stage(pairings, openers, roster, cast, num_turns, seed, lanes, drawing)
    work = blocks(pairings, len(openers), batchsize, stage.draws, shard_size)
    todo = [(block, missing) for block in work if (missing := _missing(run, block))]
    n_todo = sum(shard.lanes for _, missing in todo for shard in missing)
    n_played = 0
    with _sigterm_as_interrupt(), _bar(n_todo, progress) as bar, ExitStack() as end:
        end.callback(cast.clear)
        for block, missing in todo:
            for shard, dialogues in stage.play(block).items():
                if shard in missing:
                    run.write_dialogues(shard.pairing_id, shard.index, dialogues)
                    n_played += len(dialogues)
                    bar.update(len(dialogues))
    write_problems(run, cast.problems)
    n_skipped = len(pairings) * len(openers) - n_played
    return CollectReport(n_played, n_skipped, tuple(cast.problems.values()))


@dataclass(frozen=True)
class Stage:
    """
    What it takes to play any block of a run.
    """

    pairings: Sequence[Pairing]
    openers: Sequence[Opener]
    roster: Roster
    cast: Residents
    num_turns: int
    seed: int
    batchsize: int
    drawing: frozenset[str]

    def draws(self, pairing: Pairing) -> bool:
        """
        Tell whether one of the pair draws its replies at random.
        """
        return not self.drawing.isdisjoint((pairing.first, pairing.second))

    def play(self, block: Block) -> dict[ShardKey, list[Dialogue]]:
        """
        Return the dialogues of each shard, but for pairs of which a system fails.

        Each block has random numbers of its own, whatever was played before. One that
        draws is never cut into smaller batches, which would change what is drawn.
        """
        by_id = {pairing.id: pairing for pairing in self.pairings}
        pairs = {shard: by_id[shard.pairing_id] for shard in block.shards}
        shards = [[s.pairing_id, s.index] for s in pairs]
        seed = content_id('block', self.seed, shards)
        found: dict[ShardKey, list[Dialogue]] = {}
        for group in self.groups(pairs):
            found |= self._play({shard: pairs[shard] for shard in group}, seed)
        return found

    def groups(self, pairs: Mapping[ShardKey, Pairing]) -> list[list[ShardKey]]:
        """
        Return the shards in groups whose systems fit into memory together.
        """
        found: list[list[ShardKey]] = []
        cast: dict[str, System] = {}
        for shard, pair in pairs.items():
            both = {n: self.roster.system(n) for n in (pair.first, pair.second)}
            if not found or not self.cast.fit({**cast, **both}.values()):
                found.append([])
                cast = {}
            found[-1].append(shard)
            cast |= both
        return found

    def _play(
        self, pairs: Mapping[ShardKey, Pairing], seed: str
    ) -> dict[ShardKey, list[Dialogue]]:
        names = dict.fromkeys(n for p in pairs.values() for n in (p.first, p.second))
        players = self.cast.together([self.roster.system(name) for name in names])
        ready = {s: p for s, p in pairs.items() if {p.first, p.second} <= {*players}}
        lanes = [
            Lane(pairing, opener)
            for shard, pairing in ready.items()
            for opener in self.openers[shard.start : shard.stop]
        ]
        width = None if any(map(self.draws, ready.values())) else self.batchsize
        seed_all(seed)  # after loading, which draws too
        dialogues, failed = play_on(lanes, players, self.num_turns, width)
        for error in failed.values():
            self.cast.give_up(error)
        played = iter(dialogues)
        shards = {shard: list(islice(played, shard.lanes)) for shard in ready}
        return {
            shard: [dialogue for dialogue in found if dialogue]
            for shard, found in shards.items()
            if None not in found
        }


def seed_all(name: str) -> None:
    """
    Seed every source of random numbers that an agent may use.
    """
    seed = int(name, 16)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed % 2**63)


def _missing(run: RunFolder, block: Block) -> frozenset[ShardKey]:
    return frozenset(
        shard
        for shard in block.shards
        if not run.has_dialogues(shard.pairing_id, shard.index)
    )


def _bar(n_dialogues: int, progress: bool) -> tqdm[Any]:
    """
    Return a progress bar; where nobody watches, it says a line every half minute.
    """
    return tqdm(
        total=n_dialogues,
        desc='collect',
        unit='dialogue',
        disable=not progress or not n_dialogues,
        mininterval=0.5 if sys.stderr.isatty() else 30,
    )


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """
    Let SIGTERM do what Ctrl-C does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
