"""
Collect: every dialogue of the plan that is not there yet.

A block is played as a whole, so that what a batch holds never depends on what was done
before; only its missing shards are written.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache, partial

from parlai_ext.collect.forecast import timed
from parlai_ext.collect.not_run import write_problems
from parlai_ext.collect.plan import RequestedProtocol, named_systems, prepare
from parlai_ext.core import System, content_id, frozen
from parlai_ext.engines import EngineOptions, Machine, open_engine, use_data_folder
from parlai_ext.engines.engine import (
    LOCAL,
    Engine,
    Job,
    Task,
    Tell,
    Worker,
    refuse_difference,
    wait_for_files,
)
from parlai_ext.isolation.policy import note_parts, note_trust
from parlai_ext.store import Block, Plan, RunFolder, ShardKey
from parlai_ext.systems.identity import identity
from parlai_ext.systems.model_cache import (
    are_small,
    memory_for_weights,
    size_on_disk,
    weights_key,
)
from parlai_ext.systems.player_process import load_on
from parlai_ext.systems.players import Player
from parlai_ext.systems.spending import Spending, add_to_spent
from parlai_ext.view import count_of
from parlai_ext.view.progress import bar_of
from parlai_ext.worlds.block_player import BlockPlayer


@frozen
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
    spent: dict[str, Spending] | None = None,
    engine: Engine = LOCAL,
) -> CollectReport:
    """
    Play every block of the run's plan that lacks a shard, and write what is missing.

    After a Ctrl-C the shards that were written stay, and so do the replies so far of
    the block that was being played, as `kept_replies` says.

    :param spent: is filled with what each system has used, however this ends.
    :param engine: where the blocks are played.
    """
    spent = {} if spent is None else spent
    plan = run.plan
    player = BlockPlayer.from_plan(plan, machine)
    tasks = block_tasks(plan, player.missing_blocks(run))
    problems: dict[str, str] = {}
    n_played = 0
    job = playing_job(run, player, machine, spent)
    try:
        with (
            bar_of('collect', sum(task.size for task in tasks)) as bar,
            closing(engine.run(job, tasks, bar)) as finished,
        ):
            for _, (written, why_not) in finished:
                wait_for_files(map(run.dialogues_path, written))
                n_played += sum(shard.n_dialogues for shard in written)
                problems |= why_not
    except KeyboardInterrupt:
        n_replies = run.count_partial_replies()
        more = f', and {n_replies} replies of the next ones' if n_replies else ''
        of_all = f'{run.n_dialogues:,} of {count_of(plan.n_dialogues, "dialogue")}'
        print(f'stored: {of_all}{more}', file=sys.stderr)
        raise
    run.remove_partial_replies()
    run.restore_metadata()
    write_problems(run, problems)
    for name, used in spent.items():
        if n_cut := used.get('cut_replies'):
            print(f'{name}: {n_cut:,.0f} replies were cut at reply_max_tokens')
    n_skipped = plan.n_dialogues - n_played
    return CollectReport(n_played, n_skipped, tuple(problems.values()))


def playing_job(
    run: RunFolder, player: BlockPlayer, machine: Machine, spent: dict[str, Spending]
) -> Job:
    """
    Return the job of playing blocks, in this process or in others.

    :param spent: is filled with what each system has used.
    """
    root, manifest, plan = str(run.root.resolve()), run.manifest.digest, run.plan
    return Job(
        here=lambda: BlockWorker(run, replace(player, kept_in=run)),
        elsewhere=partial(block_worker, root, manifest, machine, named_systems(plan)),
        steps='replies',
        whole_tasks=True,
        key=content_id('collect', root, manifest),
        on_close=partial(add_to_spent, spent),
        small=are_small(plan.roster.systems, machine),
    )


@frozen
class CollectedRun:
    """
    A run whose dialogues are collected, and the engine that is open for it.

    :param left_out: the systems that are not in it, with the reasons.
    """

    run: RunFolder
    engine: Engine
    report: CollectReport
    left_out: tuple[str, ...]


@contextmanager
def collected_run(
    requested: RequestedProtocol, machine: Machine, where: EngineOptions
) -> Iterator[CollectedRun]:
    """
    Collect what the requested run lacks. Inside, the run is locked and the
    engine open.
    """
    run, plan = prepare(requested, machine)
    spent: dict[str, Spending] = {}
    with run.lock(), open_engine(where, run.root, machine) as engine:
        if run.manifest.scheme.is_played:
            with timed(run, 'collect', spent):
                report = collect(run, machine, spent=spent, engine=engine)
        else:
            report = CollectReport(0, run.n_dialogues)
        yield CollectedRun(run, engine, report, (*plan.left_out, *report.problems))


class BlockWorker(Worker):
    """
    Plays blocks and writes those of their shards that are missing.
    """

    def __init__(self, run: RunFolder, player: BlockPlayer):
        self.run = run
        self.player = player
        self.budget = player.cache.budget

    def work(
        self, data: tuple[Block, Collection[ShardKey]], tell: Tell
    ) -> tuple[list[ShardKey], dict[str, str]]:
        """
        Play a block. Return the shards that were written, and why systems cannot go on.

        :param data: the block, and its shards that are missing.
        """
        block, missing = data
        written = []
        played = replace(self.player, on_replies=tell).play_block(block)
        for shard, dialogues in played.items():
            if shard in missing:
                self.run.write_dialogues(shard, dialogues)
                written.append(shard)
        if self.player.kept_in is not None:
            self.run.remove_partial_replies()
        return written, dict(self.player.cache.problems)

    def loaded(self) -> Collection[str]:
        """
        Return the names of the weights that are loaded.
        """
        return self.player.cache.loaded_weights()

    def close(self) -> dict[str, Spending]:
        """
        Drop the systems; return what each has used.
        """
        self.player.cache.clear()
        return self.player.cache.ledger.spent


def block_tasks(plan: Plan, blocks: Mapping[Block, frozenset[ShardKey]]) -> list[Task]:
    """
    Return a task for each block.

    :param blocks: with the shards that they lack.
    """

    @cache
    def weights(name: str) -> tuple[str, int]:
        system = plan.roster.system(name)
        return str(weights_key(system)), size_on_disk(system)

    tasks = []
    for block, missing in blocks.items():
        ids = dict.fromkeys(shard.pairing_id for shard in block.shards)
        pairings = [plan.by_id[id] for id in ids]
        names = {name for pair in pairings for name in pair.speakers}
        first, last = pairings[0], pairings[-1]
        more = '' if len(pairings) == 1 else f' to {last.first} – {last.second}'
        shard = block.shards[0]
        tasks.append(
            Task(
                f'block {first.first} – {first.second}{more}, shard {shard.index}',
                (block, missing),
                sum(shard.n_dialogues for shard in missing),
                dict(map(weights, names)),
            )
        )
    return tasks


def block_worker(
    run_dir: str,
    manifest: str,
    machine: Machine,
    named: Collection[str],
    share: float,
) -> BlockWorker:
    """
    Return a worker of another process, which reads the plan from the run folder.

    :param manifest: a hash of the manifest there.
    :param named: the parts of the manifest that the user named, of whom this machine
        may have no note.
    :param share: of the memory of its device, from 0 to 1.
    """
    use_data_folder(machine.datapath)
    run = RunFolder.existing(run_dir)
    refuse_difference(f'{run_dir}/manifest.json', run.manifest.digest, manifest)
    note_parts(run.manifest, named, on_disk=False)
    limit = memory_for_weights(machine.no_cuda) * share / 1e9
    if machine.max_gpu_memory is not None:
        limit = min(limit, machine.max_gpu_memory)
    machine = replace(machine, max_gpu_memory=limit)

    def load(system: System) -> Player:
        # it must be what the run's manifest says
        known = run.manifest.everybody[system.name].identity
        note_trust(machine.trust_model_code, on_disk=False)
        what = f'system {system.name!r}: its options and files'
        refuse_difference(what, identity(system), known)
        return load_on(machine, system)

    return BlockWorker(run, BlockPlayer.from_plan(run.plan, machine, load=load))
