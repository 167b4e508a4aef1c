"""
Time the scorers that run here on judged turns: utterances a second, beside `length`.

    python -m benchmarks.scorer_speed --judged-path FOLDER [--scorers NAME …]

The turns are those of TopicalChat-USR (`topical-usr_eval.json` of DSTC10's organisers,
360 turns with references and facts; six systems answer each context), found in FOLDER.

Each scorer runs with its default options and loaded models. It is timed three times,
each time on turns that it has not seen, so that no cache helps; the median counts. It
is given 4 turns at a time, 16 or 112 if that takes less than a second. A scorer that
cannot run here is named with the reason; no model hub is asked for its models.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median

os.environ.setdefault('HF_HUB_OFFLINE', '1')

import torch

from benchmarks.support.measures import benchmark_parser
from parlai_ext.core.errors import UserError
from parlai_ext.data.judged.cards import read_card
from parlai_ext.data.judged.judged_set import JudgedItem
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ItemScore, Scorer
from parlai_ext.scoring.judged_items import judged_scoring_items
from parlai_ext.scoring.registry import SCORERS, find_scorer

SET = 'usr_topical'
TIMES = 3
COUNTS = (4, 16, 112)  # turns; with two more runs of 112, all of the set
ENOUGH = 1.0  # seconds
BASE = 'length'
CLOCKS = {'cpu': time.process_time, 'wall': time.perf_counter}


@dataclass(frozen=True)
class Speed:
    """
    How fast a scorer is, or why it cannot run.

    :param per_second: utterances a second.
    :param missing: the share of the timed turns without any score.
    """

    scorer: str
    per_second: float | None = None
    missing: float = 0.0
    reason: str = ''


class Timer:
    """
    Times a scorer on turns of a set, each turn once.
    """

    def __init__(self, scorer: Scorer, items: Sequence[JudgedItem], clock: str):
        self.scorer = scorer
        self.clock = CLOCKS[clock]
        self.items = iter(items)

    def seconds(self, count: int) -> float:
        """
        Return the seconds for the next ``count`` turns.
        """
        turns = [
            turn
            for item in islice(self.items, count)
            for turn in judged_scoring_items(item, self.scorer)
        ]
        start = self.clock()
        self.scores = self.scorer.checked_scores(turns)
        return self.clock() - start

    def missing(self) -> float:
        """
        Return the share of the turns timed last that have no score at all.
        """
        empty = [not any_value(score) for score in self.scores]
        return sum(empty) / len(empty)


def speed(name: str, items: Sequence[JudgedItem], clock: str) -> Speed:
    """
    Return the speed of a scorer of the registry on these turns.
    """
    try:
        scorer = find_scorer(name).from_section({}, ModelHandle())
        if scorer.level == 'pair':
            return Speed(name, reason='it compares two responses')
        timer = Timer(scorer, items, clock)
        timer.seconds(1)  # loads the models
        for count in COUNTS:
            first = timer.seconds(count)
            if first > ENOUGH:
                break
        missing = timer.missing()
        runs = [first, *(timer.seconds(count) for _ in range(TIMES - 1))]
    except UserError as error:
        return Speed(name, reason=str(error))
    return Speed(name, count / median(runs), missing)


def any_value(score: ItemScore) -> bool:
    """
    True if a score has a value in any dimension.
    """
    return any(value is not None for value in score.values.values())


def line(result: Speed, base: float | None) -> str:
    """
    Return the line of a scorer in the table.
    """
    if result.per_second is None:
        return f'{result.scorer:20} – {result.reason}'
    ratio = f'{base / result.per_second:12,.0f}' if base else ''
    missing = f'  {result.missing:.0%} without a score' if result.missing else ''
    return f'{result.scorer:20} {result.per_second:12,.1f} {ratio:>12}{missing}'


def main() -> None:
    """
    Print the table as it is measured; write it as JSON on request.
    """
    parser = benchmark_parser(__doc__)
    parser.add_argument('--judged-path', required=True, help='file or folder of sets')
    parser.add_argument('--scorers', nargs='+', default=list(SCORERS), metavar='NAME')
    parser.add_argument(
        '--clock',
        choices=CLOCKS,
        default='wall',
        help='wall: what passes; cpu: of all threads, for a machine that others use',
    )
    parser.add_argument('--json', help='write the speeds to this file')
    opt = parser.parse_args()
    items = read_card(SET).read(opt.judged_path).items
    machine = f'{platform.machine()}, {os.cpu_count()} cores, torch threads: '
    machine += f'{torch.get_num_threads()}, {opt.clock} seconds'
    print(f'{SET}; {machine}')
    print(f'{"scorer":20} {"utterances/s":>12} {"x length":>12}')
    results: list[Speed] = []
    for name in dict.fromkeys([BASE, *opt.scorers]):
        results.append(speed(name, items, opt.clock))
        print(line(results[-1], results[0].per_second), flush=True)
    if opt.json:
        speeds = [asdict(result) for result in results]
        text = json.dumps({'machine': machine, 'speeds': speeds}, indent=1)
        Path(opt.json).write_text(f'{text}\n', 'utf-8')


if __name__ == '__main__':
    main()
