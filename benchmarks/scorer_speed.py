"""
Time the scorers that run here on judged turns, side by side, as multiples of one.

    python -m benchmarks.scorer_speed --judged-path FOLDER [--scorers NAME …] \\
        [--judge-model-file smollm2-135m-q4] [--encoder minilm] [--comparisons FILE] \\
        [--set NAME]

The turns are those of TopicalChat-USR (`topical-usr_eval.json` of DSTC10's organisers,
360 turns with references and facts; six systems answer each context), found in FOLDER.
A scorer of dialogues gets the dialogue up to the turn, a scorer of pairs the turn and
the response of another system to the same context.

Scorers are named as for run_bench (`fed`, `fed:judge_format=chat`). Models are loaded
and each scorer has scored one turn before anything is timed. The scorers then take
turns, --repeats rounds of them, each time on judged turns that they have not seen, so
that no cache helps and other work on the machine slows all of them. The numbers are
medians over the rounds: utterances a second, and the time an utterance takes as a
multiple of --base in the same round. A scorer is given 4 turns at a time, 16 or 64 if
that takes less than a second, or --turns. One that cannot run here is named with the
reason; no model hub is asked for its models.
"""

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any

os.environ.setdefault('HF_HUB_OFFLINE', '1')

import torch

from benchmarks.support.measures import CLOCKS, print_head, print_row, start
from parlai_ext.bench.run_bench import parse_variant
from parlai_ext.core import UserError, grouped, options_of
from parlai_ext.data.judged import JudgedItem, read_card
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import Scorer, ScoringItem
from parlai_ext.scoring.registry import SCORERS, find_scorer
from parlai_ext.scoring.score_run import judged_scoring_items
from parlai_ext.view import number
from parlai_ext.view.progress import bar_of

SET = 'usr_topical'
REPEATS = 3
COUNTS = (4, 16, 64)  # turns at a time; all of them and 3 rounds are fewer than 360
ENOUGH = 1.0  # seconds
BASE = 'likelihood'
GIVEN = ('judge_model_file', 'encoder', 'comparisons')  # to all that have such options


@dataclass(frozen=True)
class Speed:
    """
    How fast a scorer is, or why it cannot run.

    :param per_second: utterances a second, the median over rounds.
    :param times_base: the time of an utterance as a multiple of the base's, likewise.
    :param missing: the share of the turns timed last without any score.
    """

    scorer: str
    per_second: float | None = None
    times_base: float | None = None
    missing: float = 0.0
    reason: str = ''


class Timer:
    """
    Times a scorer on turns of a set, each turn once.

    :param count: how many turns it is given at a time; `None`: as its speed allows.
    """

    def __init__(
        self,
        scorer: Scorer,
        items: Sequence[ScoringItem],
        clock: str,
        count: int | None,
    ):
        self.scorer = scorer
        self.clock = CLOCKS[clock]
        self.items = iter(items)
        self.rounds: list[float] = []
        self.seconds(1)  # loads the models
        self.count = count or self._count()

    def _count(self) -> int:
        """
        Return how many turns take a second or so.
        """
        for count in COUNTS:
            if self.seconds(count) > ENOUGH:
                break
        return count

    def seconds(self, count: int) -> float:
        """
        Return the seconds for the next ``count`` turns.
        """
        turns = list(islice(self.items, count))
        if len(turns) < count:
            raise UserError('--turns, --repeats: the set has too few turns for so many')
        start = self.clock()
        self.scores = self.scorer.checked_scores(turns)
        return self.clock() - start

    def time_round(self) -> None:
        """
        Time the next turns; the result is the seconds of one utterance.
        """
        self.rounds.append(self.seconds(self.count) / self.count)

    def missing(self) -> float:
        """
        Return the share of the turns timed last that have no score at all.
        """
        values = [[*score.values.values()] for score in self.scores]
        return mean(all(value is None for value in one) for one in values)


def speeds(
    specs: Sequence[str],
    items: Sequence[JudgedItem],
    given: Mapping[str, Any],
    *,
    base: str = BASE,
    repeats: int = REPEATS,
    count: int | None = None,
    clock: str = 'wall',
) -> list[Speed]:
    """
    Return the speeds of scorers, timed in turn.

    :param specs: scorers as run_bench names them.
    :param given: options for all scorers that have them and are not given others.
    """
    handle = ModelHandle()
    timers: dict[str, Timer | str] = {}
    for spec in dict.fromkeys(specs):
        try:
            scorer = built_scorer(spec, given, handle)
            timers[spec] = Timer(scorer, timed_items(items, scorer), clock, count)
        except UserError as error:
            timers[spec] = str(error)
    running = {k: one for k, one in timers.items() if isinstance(one, Timer)}
    with bar_of('speed', repeats * len(running), True, unit='timing') as bar:
        for _ in range(repeats):
            for timer in running.values():
                timer.time_round()
                bar.update()
    rounds = running[base].rounds if base in running else None
    return [
        Speed(spec, reason=timer)
        if isinstance(timer, str)
        else timed_speed(spec, timer, rounds)
        for spec, timer in timers.items()
    ]


def timed_speed(spec: str, timer: Timer, base: Sequence[float] | None) -> Speed:
    """
    Return the medians of a scorer's rounds.

    :param base: the rounds of the scorer that the others are multiples of.
    """
    ratios = [own / other for own, other in zip(timer.rounds, base or (), strict=False)]
    times_base = median(ratios) if ratios else None
    return Speed(spec, 1 / median(timer.rounds), times_base, timer.missing())


def built_scorer(spec: str, given: Mapping[str, Any], handle: ModelHandle) -> Scorer:
    """
    Return a scorer with its own options and those that are given to all.
    """
    section = parse_variant(spec).section
    cls = find_scorer(section['name'], named_by_user=True)
    known = options_of(cls.options_class)
    more = {k: value for k, value in given.items() if value and k in known}
    return cls.from_section({**more, **section}, handle)


def timed_items(items: Sequence[JudgedItem], scorer: Scorer) -> list[ScoringItem]:
    """
    Return what a scorer is given for each turn; for a scorer of pairs, with a response
    of another system.
    """
    timed = [one for item in items for one in judged_scoring_items(item, scorer)]
    if scorer.level != 'pair':
        return timed
    answers = grouped((item.context, item.response or '') for item in items)
    return [
        replace(one, extras={**one.extras, 'other': other})
        for one in timed
        for other in [text for text in answers[one.context] if text != one.response][:1]
    ]


def main(opt: argparse.Namespace) -> None:
    """
    Time the scorers and print the table; write it as JSON on request.
    """
    items = read_card(opt.set).read(opt.judged_path).items
    machine = f'{platform.machine()}, {os.cpu_count()} cores, torch threads: '
    machine += f'{torch.get_num_threads()}, {opt.clock} seconds'
    results = speeds(
        [opt.base, *opt.scorers],
        items,
        {key: getattr(opt, key) for key in GIVEN},
        base=opt.base,
        repeats=opt.repeats,
        count=opt.turns,
        clock=opt.clock,
    )
    print(f'{opt.set}; {machine}; medians of {opt.repeats} rounds')
    print_head('scorer', 'utterances/s', f'x {opt.base}', 'without a score')
    for one in results:
        cells = number(one.per_second), number(one.times_base), f'{one.missing:.0%}'
        print_row(one.scorer, *((one.reason,) if one.reason else cells))
    if opt.json:
        rows = [asdict(result) for result in results]
        text = json.dumps({'machine': machine, 'speeds': rows}, indent=1)
        opt.json.write_text(f'{text}\n', 'utf-8')


if __name__ == '__main__':
    start(
        main,
        __doc__,
        choices={'clock': CLOCKS},
        required=['judged_path'],
        judged_path=str,
        set=SET,
        scorers=[*SCORERS],
        **dict.fromkeys(GIVEN, str),
        base=BASE,
        repeats=REPEATS,
        turns=int,
        clock='wall',
        json=Path,
    )
