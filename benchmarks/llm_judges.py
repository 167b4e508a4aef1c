"""
Measure LLM judges: agreement with people, and the order of pairs.

    python -m benchmarks.llm_judges --data ../shared/data --per-system 20 \\
        [--judge smollm2-135m-q4] [--parts agreement pairs] [--sets usr_topical]

Prints, for judged sets, Spearman with people of each form of judge (95 % interval over
contexts), how often no rating could be read, and how likely the model was to answer
with a label at all; and for pairs of responses to one context, how often people agree
with the choice and how often it changes with the order. The judge check is printed by
`eval_model`.
Part of docs/llm_judge.md.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.support.judged_turns import (
    PER_SYSTEM,
    JudgedTurn,
    all_turns,
    sampled,
)
from benchmarks.support.measures import print_row, start
from parlai_ext.judge_check.pair_check import order_swap
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.agreement import correlate_items
from parlai_ext.scoring.base import ItemScore
from parlai_ext.scoring.registry import find_scorer

SETS = ('usr_topical', 'grade_convai2')
SHORT = ',reply_max_tokens=8'  # of a reply that should be a number
# label -> scorer, its options, what is added to the judge's name
FORMS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    'length': ('length', {}, ''),
    'prompted': ('prompted', {}, ''),
    'llm_judge, expected': ('llm_judge', {}, ''),
    'llm_judge, parsed': ('llm_judge', {'rating': 'parsed'}, SHORT),
    'llm_eval': ('llm_eval', {}, ''),
}
PARTS = ('agreement', 'pairs')


def main(opt: argparse.Namespace) -> None:
    """
    Print the parts that were asked for, set by set.
    """
    for name in opt.sets:
        turns = sampled(all_turns(Path(opt.data), name), opt.per_system)
        if 'agreement' in opt.parts:
            for form in opt.forms:
                print_agreement(name, form, opt.judge, turns)
        if 'pairs' in opt.parts:
            print_pairs(name, opt.judge, turns)


def scorer_of(form: str, judge: str) -> Any:
    """
    Return a form of judge on one model.
    """
    name, options, more = FORMS.get(form, (form, {}, ''))
    cls = find_scorer(name)
    with_model = {} if form == 'length' else {'judge_model_file': judge + more}
    return cls.from_section({**options, **with_model}, ModelHandle())


def print_agreement(
    name: str, form: str, judge: str, turns: Sequence[JudgedTurn]
) -> None:
    """
    Print set, form, number of scores and of missing ones, Spearman, and the mean
    probability of a label.
    """
    scores = scorer_of(form, judge).checked_scores([turn.item for turn in turns])
    values = [mean_value(score) for score in scores]
    known = [i for i, value in enumerate(values) if value is not None]
    contexts = list(dict.fromkeys(turn.item.context for turn in turns))
    [row] = correlate_items(
        [values[i] or 0.0 for i in known],
        [turns[i].human for i in known],
        groups=[contexts.index(turns[i].item.context) for i in known],
        coefficients=('spearman',),
    ).values()
    interval = '' if row.low is None else f' [{row.low:.2f}, {row.high:.2f}]'
    rho = row.reason if row.value is None else f'{row.value:.2f}{interval}'
    mass = [m for score in scores for m in label_masses(score)]
    missing = len(turns) - len(known)
    shown = f'{fmean(mass):.3f}' if mass else ''
    print_row(name, form, len(known), missing, rho, shown)


def mean_value(score: ItemScore) -> float | None:
    """
    Return the mean over the dimensions that have a score.
    """
    values = [value for value in score.values.values() if value is not None]
    return fmean(values) if values else None


def label_masses(score: ItemScore) -> Iterator[float]:
    """
    Yield the sum of the labels' probabilities of each rating that has them.
    """
    for rating in (score.evidence or {}).values() if score.evidence else ():
        if isinstance(rating, dict) and rating.get('probabilities'):
            yield sum(rating['probabilities'].values())


def print_pairs(name: str, judge: str, turns: Sequence[JudgedTurn]) -> None:
    """
    Print, for pairs of responses to one context that people tell apart, how often the
    judge chooses as people do, and what the order changes.
    """
    scorer = scorer_of('llm_pair', judge)
    groups: dict[tuple[str, ...], list[JudgedTurn]] = defaultdict(list)
    for turn in turns:
        groups[turn.item.context].append(turn)
    pairs = [
        (one, other)
        for same in groups.values()
        for one, other in combinations(same, 2)
        if one.human != other.human
    ][: 2 * len(turns)]
    scores = scorer.checked_scores(
        [
            replace(one.item, extras={'other': other.item.response})
            for one, other in pairs
        ]
    )
    right = []
    first, second = [], []
    for (one, other), score in zip(pairs, scores, strict=True):
        orders = score.evidence['Overall']
        first.append({'Overall': orders['first'] - 0.5})
        second.append({'Overall': 0.5 - orders['second']})
        chosen = score.values['Overall'] - 0.5
        right.append((chosen > 0) == (one.human > other.human) if chosen else 0.5)
    order = order_swap(first, second)
    print_row(
        name,
        f'{len(pairs)} pairs',
        f'as people choose {fmean(right):.2f}',
        f'changed by the order {order.n_changed}/{order.n}',
        f'the first shown {order.first_share}',
    )


if __name__ == '__main__':
    start(
        main,
        __doc__,
        {'parts': PARTS, 'sets': PER_SYSTEM, 'forms': FORMS},
        data='../shared/data',
        per_system=20,
        judge='smollm2-135m-q4',
        parts=PARTS,
        sets=SETS,
        forms=[*FORMS],
    )
