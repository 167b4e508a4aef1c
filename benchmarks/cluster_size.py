"""
Time the engines on systems that reply at once: all that is not a model.

    python -m benchmarks.cluster_size [--openers 20] [--engine ray --ray-address auto]
    python -m benchmarks.cluster_size --overhead [--engine ray --ray-address auto]

11 targets talk with 24 partners; `--openers 600` is the paper's own size: 158,400
dialogues in 2,640 blocks. The memory of this process is noted every second.
`--overhead` runs 300 empty tasks, five times, and prints the median for each task.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.support.measures import benchmark_parser, resident
from parlai_ext.collect.collect import collect
from parlai_ext.collect.options import PlanOptions
from parlai_ext.collect.plan import prepare
from parlai_ext.commands.command import one_line_errors
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import add_flags, flag_values, read_options
from parlai_ext.core.progress import bar_of
from parlai_ext.engines.engine import Engine, Job, Task, Tell, Worker
from parlai_ext.engines.open_engine import EngineOptions, open_engine

AGENT = 'benchmarks.support.instant_agent:InstantAgent'
TASKS, REPEATS = 300, 5


class Idle(Worker):
    """
    Does nothing.
    """

    def work(self, data: Any, tell: Tell) -> None:
        """
        Return at once.
        """


def idle(share: float) -> Worker:
    """
    Return a worker that does nothing.
    """
    return Idle()


def write_protocol(folder: Path) -> Path:
    """
    Write the protocol of the instant systems and return its path.
    """
    systems = {
        kind: [{'name': f'{kind}-{i}', 'opt': {'model': AGENT}} for i in range(n)]
        for kind, n in (('targets', 11), ('partners', 24))
    }
    protocol = {
        'description': 'systems that reply at once',
        'pairing': 'bipartite',
        'openers': 'ext:smalltalk',
        'num_dialogues': 20,
        'num_turns': 12,
        'score': 'target',
        'scorer': {'name': 'length'},
        'seed': 0,
        'roster': systems,
    }
    path = folder / 'instant.yaml'
    path.write_text(yaml.safe_dump(protocol))
    return path


@contextmanager
def watched_memory(shown: list[tuple[float, float]]) -> Iterator[None]:
    """
    Note seconds and MiB of this process, every second.
    """
    end, begin = threading.Event(), time.monotonic()

    def note() -> None:
        while not end.wait(1):
            shown.append((time.monotonic() - begin, resident() / 2**20))

    thread = threading.Thread(target=note)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def time_collecting(opt: argparse.Namespace, folder: Path, machine: Machine) -> None:
    """
    Print what collecting takes, and the memory of this process on the way.
    """
    config = write_protocol(folder)
    options = PlanOptions(
        config=str(config),
        run_dir=str(folder / 'run'),
        overrides={'num_dialogues': opt.openers},
    )
    run, plan = prepare(options, machine)
    engine_options = read_options(EngineOptions, flag_values(EngineOptions, vars(opt)))
    memory: list[tuple[float, float]] = []
    begin = time.perf_counter()
    with (
        run.lock(),
        open_engine(engine_options, run.root, machine) as engine,
        watched_memory(memory),
    ):
        report = collect(run, machine, engine=engine)
    took = time.perf_counter() - begin
    n = report.n_played
    print(f'{n:,} dialogues in {took:.0f} s: {1e3 * took / n:.2f} ms a dialogue')
    for at in range(5):
        when, mib = memory[at * (len(memory) - 1) // 4]
        print(f'memory after {when:4.0f} s: {mib:.0f} MiB')


def time_empty_tasks(engine: Engine) -> float:
    """
    Return the seconds that an empty task takes.
    """
    job = Job(lambda: Idle(), partial(idle), 'steps', 'idle')
    tasks = [Task(str(n), n, 1) for n in range(TASKS)]
    times = []
    with (
        bar_of('tasks', TASKS, False) as bar,
        closing(engine.run(job, tasks, bar)) as finished,
    ):
        for _ in finished:
            times.append(time.perf_counter())
    return (times[-1] - times[0]) / (TASKS - 1)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument('--openers', type=int, default=20)
    parser.add_argument('--folder', type=Path, help='where the run goes; stays there')
    parser.add_argument('--overhead', action='store_true', help='of empty tasks')
    add_flags(parser, EngineOptions)
    opt = parser.parse_args()
    machine = Machine(no_cuda=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = opt.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not opt.overhead:
            time_collecting(opt, folder, machine)
            return
        options = read_options(EngineOptions, flag_values(EngineOptions, vars(opt)))
        with open_engine(options, folder, machine) as engine:
            time_empty_tasks(engine)  # workers start
            each = [time_empty_tasks(engine) for _ in range(REPEATS)]
        shown = ', '.join(f'{1e3 * one:.2f}' for one in each)
        print(f'{1e3 * statistics.median(each):.2f} ms an empty task ({shown})')


if __name__ == '__main__':
    with one_line_errors():
        main()
