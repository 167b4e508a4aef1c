"""
Correlations as ParlAI metrics: they merge, and say what scipy says.
"""

import functools
import math
import operator

import numpy as np
import pytest
from parlai.core.metrics import aggregate_named_reports
from scipy import stats

from parlai_ext.tasks.judged.agents import NUMBERS, CorrelationMetric, Point, metrics

RNG = np.random.default_rng(0)


def points_of(name='set', n=30):
    """
    Return points of three systems over ten contexts, with ties.
    """
    return [
        Point(name, k, f'bot {k % 3}', f'd{k // 6}', k // 3, score, human)
        for k, (score, human) in enumerate(RNG.integers(0, 9, (n, 2)).astype(float))
    ]


POINTS = points_of()


def total(points, number='spearman', level='item'):
    """
    Return the sum of the metrics of single points.
    """
    metrics = (CorrelationMetric(number, level, [point]) for point in points)
    return functools.reduce(operator.add, metrics)


@pytest.mark.parametrize('level', ['item', 'dialogue', 'system'])
@pytest.mark.parametrize('number', NUMBERS)
def test_the_sum_of_two_parts_is_the_metric_of_all(number, level):
    whole = CorrelationMetric(number, level, POINTS).value()
    for cut in (1, 11, 29):
        parts = (POINTS[:cut], POINTS[cut:])
        first, second = (total(part, number, level) for part in parts)
        # in both orders: batches need not come in the order of the file
        for one in (first + second, second + first):
            assert one.value() == pytest.approx(whole, abs=0, nan_ok=True)


def test_dialogues_are_compared_by_their_means():
    # (1 + 3) / 2, 5, 1 against (2 + 6) / 2, 4.5, 0
    values = [('a', 1.0, 2.0), ('b', 5.0, 4.5), ('a', 3.0, 6.0), ('c', 1.0, 0.0)]
    points = [
        Point('set', k, 'bot', name, k, *both) for k, (name, *both) in enumerate(values)
    ]
    expected = stats.pearsonr([2, 5, 1], [4, 4.5, 0]).statistic
    assert total(points, 'pearson', 'dialogue').value() == pytest.approx(expected)
    assert total(points, 'n', 'dialogue').value() == 3


def test_intervals_draw_contexts_not_responses():
    # two copies of each response in its context add nothing
    twice = [p._replace(item=2 * p.item + copy) for p in POINTS for copy in (0, 1)]
    ends = [
        [total(points, f'spearman_{end}').value() for end in ('low', 'high')]
        for points in (POINTS, twice)
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_sets_are_averaged_not_pooled():
    sets = {'a': POINTS, 'b': points_of('other')}
    report = aggregate_named_reports({k: metrics('Wit', v, 0) for k, v in sets.items()})
    one, other = (report[f'{name}/Wit/spearman'].value() for name in sets)
    assert one != other
    assert report['Wit/spearman'].value() == pytest.approx((one + other) / 2)
    assert math.isnan(report['Wit/spearman_low'].value())
    assert report['Wit/n'].value() == 60
