"""
Collect: every dialogue of the plan that is not there yet.

A block is played as a whole, so that what a batch holds never depends on what was done
before; only its missing shards are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any

from parlai_ext.collect.not_run import write_problems
from parlai_ext.collect.plan import plan_of_run
from parlai_ext.collect.playing import Pairs, Stage
from parlai_ext.core.nouns import Dialogue, content_id
from parlai_ext.core.progress import bar_of
from parlai_ext.core.schedule import Block, ShardKey
from parlai_ext.store import RunFolder
from parlai_ext.systems.spending import Spending


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

    After a Ctrl-C what was written stays, and the block in flight is played again by
    the next call.

    :param opt: a command's options: batchsize, datapath, no_cuda, fp16, max_gpu_memory.
    :param spent: is filled with what each system has used, however this ends.
    """
    plan = plan_of_run(run)
    stage = Stage.of(plan, opt, spent=spent)
    todo = stage.todo(run)
    n_todo = sum(shard.n_dialogues for missing in todo.values() for shard in missing)
    n_played = 0
    with bar_of('collect', n_todo, progress) as bar, ExitStack() as end:
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
    rest = iter(stage.play(stage.rows(ready), players, length, seed, width))
    shards = {shard: list(islice(rest, shard.n_dialogues)) for shard in ready}
    return {
        shard: [dialogue for dialogue in found if dialogue]
        for shard, found in shards.items()
        if None not in found
    }
