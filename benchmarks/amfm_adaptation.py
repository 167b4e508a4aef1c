"""
Does adapting AM-FM's two models to dialogues bring it nearer to people?

    python -m benchmarks.amfm_adaptation --data ../shared/data --sets usr_topical \
        --after encoder=models/am judge_model_file=models/fm am_cutoff=… fm_cutoff=…

Prints Spearman of AM, FM and Overall with people's overall quality before and after,
and the difference, with 95 % percentile intervals over contexts drawn anew; and how
often a response scores higher than one drawn from another context of the set.
docs/amfm.md has the numbers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.support.judged_turns import JudgedTurn, all_turns, sampled
from benchmarks.support.measures import benchmark_parser
from parlai_ext.core.options import read_pairs
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.agreement import BOOTSTRAPS, WEIGHTED, group_weights
from parlai_ext.scoring.amfm import AmFm, AmFmOptions
from parlai_ext.scoring.base import ScoringItem

Columns = dict[str, np.ndarray]  # scores of the turns, by dimension


def main() -> None:
    """
    Run the benchmark.
    """
    parser = benchmark_parser(__doc__)
    parser.add_argument('--data', default='../shared/data', help='folder of the sets')
    parser.add_argument('--sets', nargs='+', default=['usr_topical'])
    parser.add_argument('--per-system', type=int, default=30, help='turns')
    parser.add_argument('--before', nargs='*', default=[], metavar='KEY=VALUE')
    parser.add_argument('--after', nargs='+', required=True, metavar='KEY=VALUE')
    opt = parser.parse_args()
    models = ModelHandle()
    scorers = [
        AmFm.from_section(read_pairs(AmFmOptions, pairs, '--after'), models)
        for pairs in (opt.before, opt.after)
    ]
    print(
        '| set | n | score | before | after | after − before | sense before | after |'
    )
    print('|---|---|---|---|---|---|---|---|')
    for name in opt.sets:
        turns = sampled(all_turns(Path(opt.data), name), opt.per_system)
        for row in table_rows(name, turns, scorers):
            print(f'| {" | ".join(row)} |', flush=True)


def table_rows(
    name: str, turns: Sequence[JudgedTurn], scorers: Sequence[AmFm]
) -> list[list[str]]:
    """
    Return a row of the table for each dimension.
    """
    items = [turn.item for turn in turns]
    wrong = items_of_other_contexts(items)
    right_columns = [columns(scorer, items) for scorer in scorers]
    wrong_columns = [columns(scorer, wrong) for scorer in scorers]
    human = np.array([turn.human for turn in turns])
    places = {context: i for i, context in enumerate({item.context for item in items})}
    groups = [places[item.context] for item in items]
    rows = []
    for dimension in AmFm.dimensions:
        before, after = (scores[dimension] for scores in right_columns)
        cells = intervals(before, after, human, groups)
        shares = [
            np.mean(right[dimension] > other[dimension])
            for right, other in zip(right_columns, wrong_columns, strict=True)
        ]
        rows.append(
            [name, str(len(items)), dimension, *cells, *(f'{s:.2f}' for s in shares)]
        )
    return rows


def columns(scorer: AmFm, items: Sequence[ScoringItem]) -> Columns:
    """
    Return the scores of items by dimension; no score is an error here.
    """
    scores = scorer.checked_scores(items)
    return {
        name: np.array([score.values[name] for score in scores], float)
        for name in AmFm.dimensions
    }


def items_of_other_contexts(items: Sequence[ScoringItem]) -> list[ScoringItem]:
    """
    Return the items, each with the response of an item of another context.
    """
    rng = random.Random(0)
    wrong = []
    for item in items:
        other = rng.choice([one for one in items if one.context != item.context])
        wrong.append(ScoringItem(item.context, other.response, item.speaker))
    return wrong


def intervals(
    before: np.ndarray, after: np.ndarray, human: np.ndarray, groups: Sequence[int]
) -> list[str]:
    """
    Return Spearman before and after, and the difference, with intervals from the same
    resamples.
    """
    whole = np.ones((1, len(human)))
    values = [float(WEIGHTED['spearman'](s, human, whole)[0]) for s in (before, after)]
    drawn = [
        [WEIGHTED['spearman'](scores, human, weights) for scores in (before, after)]
        for weights in group_weights(groups, BOOTSTRAPS, 0)
    ]
    first, second = np.concatenate(drawn, axis=1)
    values, draws = [*values, values[1] - values[0]], [first, second, second - first]
    return [
        '{:.3f} [{:.3f}, {:.3f}]'.format(value, *np.quantile(some, [0.025, 0.975]))
        for value, some in zip(values, draws, strict=True)
    ]


if __name__ == '__main__':
    main()
