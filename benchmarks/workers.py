"""
Time collecting and scoring of a protocol with one process and with several, in turns.

    python -m benchmarks.workers [--config demo] [--workers 2] [--repeats 3]

Starting, planning and loading of the judge are not timed; the files must be the same.
"""

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.support.measures import print_head, print_row, start
from parlai_ext.collect.collect import collect
from parlai_ext.collect.options import PlanOptions
from parlai_ext.collect.plan import prepare, requested_protocol
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.engines import Machine
from parlai_ext.engines.engine import LocalEngine
from parlai_ext.scoring.score_run import ChosenScorer, score_run

STAGES = 'collect', 'score', 'both'
Seconds = tuple[float, float]  # of the wall's clock, and of all processes' CPU time


def stage_seconds(config: str, folder: Path, workers: int) -> list[Seconds]:
    """
    Return the seconds that collecting and scoring of a new run take, and both together.
    """
    given = vars(CollectDialogues.parser().parse_args([]))
    given |= {'config': config, 'run_dir': str(folder), 'no_cuda': True}
    options = PlanOptions.from_options(given)
    machine, engine = Machine(no_cuda=True), LocalEngine(workers)
    run, _ = prepare(requested_protocol(options), machine)
    chosen = ChosenScorer(run.plan.protocol.scorer)
    scorer = chosen.build(machine)
    with run.lock():
        begin = _clocks()
        collect(run, machine, engine=engine)
        middle = _clocks()
        score_run(run, scorer, chosen, engine=engine, machine=machine)
        end = _clocks()
    spans = (begin, middle), (middle, end), (begin, end)
    return [(b[0] - a[0], b[1] - a[1]) for a, b in spans]


def main(args: argparse.Namespace) -> None:
    """
    Print the medians of each stage, and how many times as fast the workers are.
    """
    times: dict[int, list[list[Seconds]]] = {1: [], args.workers: []}
    for repeat in range(args.repeats):
        with tempfile.TemporaryDirectory() as root:
            for n, rows in times.items():
                rows.append(stage_seconds(args.config, Path(root, f'{n}_workers'), n))
            one, several = (_files(Path(root, f'{n}_workers')) for n in times)
        if one != several:
            raise SystemExit('the files of one and of several workers differ')
        walls = ', '.join(f'{rows[-1][-1][0]:.1f} s' for rows in times.values())
        print(f'repeat {repeat + 1}: {walls}, load {os.getloadavg()[0]:.1f}')
    many = f'{args.workers} workers'
    print_head('stage', 'one', many, 'times as fast', 'CPU, one', f'CPU, {many}')
    for place, stage in enumerate(STAGES):
        wall, cpu = (
            [median(row[place][clock] for row in rows) for rows in times.values()]
            for clock in (0, 1)
        )
        seconds = [f'{each:.1f} s' for each in (*wall, *cpu)]
        print_row(stage, *seconds[:2], f'{wall[0] / wall[1]:.2f}', *seconds[2:])


def _clocks() -> Seconds:
    now = os.times()
    return now.elapsed, sum(now[:4])


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob('*')
        if path.is_file() and path.name != '.lock'
    }


if __name__ == '__main__':
    start(main, __doc__, config='demo', workers=2, repeats=3)
