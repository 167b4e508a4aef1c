"""
Collect: every dialogue of the plan that is not there yet.

A block is played as a whole, so that what a batch holds never depends on what was done
before; only its missing shards are written.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tqdm import tqdm

from parlai_ext.bridge.spending import Spending
from parlai_ext.records import Dialogue, content_id
from parlai_ext.schedule import Block, ShardKey
from parlai_ext.stages.not_run import write_problems
from parlai_ext.stages.plan import plan_of_run
from parlai_ext.stages.playing import Pairs, Stage
from parlai_ext.store import RunFolder


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
    Play every block of the run's plan that lacks a shard, and write what is missing.

    Ctrl-C and SIGTERM raise `KeyboardInterrupt`: what was written stays, and the block
    in flight is played again by the next call.

    :param opt: a command's options: batchsize, datapath, no_cuda, fp16, max_gpu_memory.
    :param spent: is filled with what each system has used, however this ends.
    """
    plan = plan_of_run(run)
    stage = Stage.of(plan, opt, spent=spent)
    todo = stage.todo(run)
    n_todo = sum(shard.lanes for missing in todo.values() for shard in missing)
    n_played = 0
    with _sigterm_as_interrupt(), _bar(n_todo, progress) as bar, ExitStack() as end:
        end.callback(stage.cast.clear)
        for block, missing in todo.items():
            for shard, dialogues in played(stage, block).items():
                if shard in missing:
                    run.write_dialogues(shard.pairing_id, shard.index, dialogues)
                    n_played += len(dialogues)
                    bar.update(len(dialogues))
    write_problems(run, stage.cast.problems)
    n_skipped = len(plan.pairings) * len(plan.openers) - n_played
    return CollectReport(n_played, n_skipped, tuple(stage.cast.problems.values()))


def played(stage: Stage, block: Block) -> dict[ShardKey, list[Dialogue]]:
    """
    Return the dialogues of each shard, but for pairs of which a system fails.

    Each block has random numbers of its own, whatever was played before.
    """
    shards = [[shard.pairing_id, shard.index] for shard in block.shards]
    seed = content_id('block', stage.plan.protocol.seed, shards)
    found: dict[ShardKey, list[Dialogue]] = {}
    for pairs in stage.groups(block):
        found |= _played(stage, pairs, seed)
    return found


def _played(stage: Stage, pairs: Pairs, seed: str) -> dict[ShardKey, list[Dialogue]]:
    players = stage.seated(pairs.values())
    ready = {s: p for s, p in pairs.items() if {p.first, p.second} <= {*players}}
    length, width = stage.plan.protocol.num_turns, stage.width_of(ready.values())
    rest = iter(stage.play(stage.lanes(ready), players, length, seed, width))
    shards = {shard: list(islice(rest, shard.lanes)) for shard in ready}
    return {
        shard: [dialogue for dialogue in found if dialogue]
        for shard, found in shards.items()
        if None not in found
    }


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
