"""
Comparing the scorers of a bench: planted scorers come out as planted.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from parlai_ext.bench.bench_files import (
    Bench,
    ScorerAbout,
    SetAbout,
    SetPoints,
    write_bench,
)
from parlai_ext.bench.compare import ALL_SETS, compare_bench
from parlai_ext.commands.compare_metrics import CompareMetrics
from parlai_ext.core.errors import UserError

pytestmark = pytest.mark.usefixtures('no_power_cuts')
NOISE = {'good': 0.3, 'twin': 0.3, 'bad': 30.0}


def set_points(name, unit='context', n=120, seed=0):
    """
    Return a set of which ``good`` and ``twin`` measure what people say, each with its
    own error, and ``bad`` nothing.
    """
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    annotators = truth[:, None] + rng.normal(size=(n, 3))
    scores = {k: (truth + s * rng.normal(size=n)).tolist() for k, s in NOISE.items()}
    return SetPoints(
        *(name, 'turn', unit, 'Overall'),
        groups=[k // 2 for k in range(n)] if unit == 'context' else list(range(n)),
        systems=['a'] * n,
        human={'Overall': annotators.mean(axis=1).tolist()},
        annotators={'Overall': annotators.tolist()},
        scores=scores,
    )


def written(folder, *points):
    """
    Write a bench with these points.
    """
    about = dict.fromkeys(('title', 'source', 'licence'), '')
    sets = tuple(
        SetAbout(
            *(one.set_name, *about.values(), 'turn', one.unit, 'Overall', ('Overall',)),
            *(len(one.groups), len(one.groups), len(set(one.groups)), 1),
        )
        for one in points
    )
    scorers = tuple(
        ScorerAbout(name, name, name, 'turn', ('Overall',), False) for name in NOISE
    )
    write_bench(folder, Bench(scorers, sets, (), 0, 10), points)
    return folder


def difference(result, first, second, set_name):
    [row] = [
        row
        for row in result.differences
        if (row.first, row.second, row.set_name) == (first, second, set_name)
    ]
    return row


def test_planted_scorers_are_told_apart_or_not(tmp_path):
    result = compare_bench(written(tmp_path, set_points('one'), set_points('two')))
    for set_name in ('one', 'two', ALL_SETS):
        of_set = {p.scorer: p.cluster for p in result.places if p.set_name == set_name}
        assert of_set == {'good': 1, 'twin': 1, 'bad': 2}


def test_a_difference_is_that_of_two_spearman_correlations(tmp_path):
    one = set_points('one')
    row = difference(compare_bench(written(tmp_path, one)), 'good', 'bad', 'one')
    human = one.human['Overall']
    rho = [stats.spearmanr(one.scores[k], human)[0] for k in ('good', 'bad')]
    assert row.difference == pytest.approx(rho[0] - rho[1])
    assert (row.n, row.n_groups) == (120, 60)


def test_p_values_are_adjusted_over_sets(tmp_path):
    points = [set_points(name, seed=k) for k, name in enumerate(('one', 'two', 'six'))]
    result = compare_bench(written(tmp_path, *points))
    rows = [difference(result, 'good', 'twin', one.set_name) for one in points]
    smallest = min(rows, key=lambda row: row.p)
    assert smallest.p_holm == pytest.approx(min(1.0, 3 * smallest.p))


def test_williams_test_is_for_independent_items_only(tmp_path):
    points = set_points('alike'), set_points('single', unit='item')
    result = compare_bench(written(tmp_path, *points))
    alike, single = (difference(result, 'good', 'bad', one.set_name) for one in points)
    assert alike.williams_t is None and 'context' in alike.williams_reason
    assert single.williams_p < 0.001


def test_only_common_items_are_compared(tmp_path):
    one = set_points('one')
    gappy = [None if k < 20 else value for k, value in enumerate(one.scores['good'])]
    one = replace(one, scores={**one.scores, 'good': gappy})
    result = compare_bench(written(tmp_path, one))
    assert difference(result, 'good', 'bad', 'one').n == 100
    assert difference(result, 'twin', 'bad', 'one').n == 120


def test_redundancy_is_the_mean_over_sets(tmp_path):
    points = [set_points(name, seed=k) for k, name in enumerate(('one', 'two'))]
    result = compare_bench(written(tmp_path, *points))
    rho = [stats.spearmanr(o.scores['good'], o.scores['twin'])[0] for o in points]
    assert result.redundancy['good', 'twin'] == (pytest.approx(np.mean(rho)), 2)


def test_the_command_writes_what_it_prints(tmp_path, capsys):
    CompareMetrics.main(str(written(tmp_path, set_points('one'))))
    assert '1. good' in capsys.readouterr().out
    data = json.loads((tmp_path / 'comparisons.json').read_text())
    assert {place['scorer'] for place in data['places']} == set(NOISE)
    assert (tmp_path / 'comparisons.csv').read_text().startswith('first,second')


def test_a_folder_without_a_bench_is_named(tmp_path):
    with pytest.raises(UserError, match=r'bench\.json.*run_bench'):
        CompareMetrics.main(str(tmp_path))
