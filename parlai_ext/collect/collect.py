"""
Collect: every dialogue of the plan that is not there yet.

A block is played as a whole, so that what a batch holds never depends on what was done
before; only its missing shards are written.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from parlai_ext.collect.block_player import BlockPlayer
from parlai_ext.collect.not_run import write_problems
from parlai_ext.collect.plan import plan_of_run
from parlai_ext.core.machine import Machine
from parlai_ext.core.progress import PartProgress, bar_of
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
    machine: Machine,
    *,
    progress: bool = True,
    spent: dict[str, Spending] | None = None,
) -> CollectReport:
    """
    Play every block of the run's plan that lacks a shard, and write what is missing.

    After a Ctrl-C the shards that were written stay, and the block that was being
    played is played again by the next call.

    :param spent: is filled with what each system has used, however this ends.
    """
    plan = plan_of_run(run)
    player = BlockPlayer.from_plan(plan, machine, spent=spent)
    blocks = player.missing_blocks(run)
    n_missing = sum(shard.n_dialogues for shards in blocks.values() for shard in shards)
    n_played = 0
    with bar_of('collect', n_missing, progress) as bar, ExitStack() as end:
        end.callback(player.cache.clear)
        parts = PartProgress(bar, 'replies')
        player = replace(player, on_replies=parts.tell)
        for block, missing in blocks.items():
            parts.begin(sum(shard.n_dialogues for shard in missing))
            for shard, dialogues in player.play_block(block).items():
                if shard in missing:
                    run.write_dialogues(shard.pairing_id, shard.index, dialogues)
                    n_played += len(dialogues)
            parts.end()
    run.restore_metadata()
    problems = player.cache.problems
    write_problems(run, problems)
    n_skipped = len(plan.pairings) * len(plan.openers) - n_played
    return CollectReport(n_played, n_skipped, tuple(problems.values()))
