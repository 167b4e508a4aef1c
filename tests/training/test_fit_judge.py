"""
Fitting the learned judge to annotations: what is planted is found, and nothing is
found where nothing is planted.
"""

import numpy as np
import pytest

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.scoring.learned import BLOCKS, NUMBERS, BlockWeights, JudgeWeights
from parlai_ext.training.fit_judge import (
    AnnotatedTable,
    annotated_run,
    fit,
    fit_report,
    fitted_weights,
    grouped_folds,
    rank_labels,
)
from tests.support.user_error import user_error

SIZES = dict(zip(BLOCKS, (len(NUMBERS), 5, 6), strict=True))


def table(planted, noise, n=200, seed=0):
    """
    Return a table whose labels are ``planted`` of one input beside the score before.
    """
    rng = np.random.default_rng(seed)
    rows, before = rng.normal(size=(n, 8)), rng.normal(size=n)
    values = before + planted * rows[:, 3] + noise * rng.normal(size=n)
    groups = [f'context {k // 4}' for k in range(n)]
    trivial = {'length': rng.normal(size=n)}
    return AnnotatedTable(rows, before, rank_labels(values), groups, trivial)


def test_ranks_have_mean_0_and_spread_1():
    labels = rank_labels(np.array([10.0, np.nan, 30.0, 20.0]))
    # ranks 1, 3, 2; their spread is sqrt(2 / 3)
    assert labels[[0, 2, 3]] == pytest.approx(np.array([-1, 1, 0]) / (2 / 3) ** 0.5)
    assert np.isnan(labels[1])


def test_a_planted_taste_is_found():
    report = fit_report(table(planted=2.0, noise=0.3))
    # before: correlation 1 / sqrt(1 + 4 + 0.09) = 0.44; all of it would be 0.99
    assert report.before.value == pytest.approx(0.44, abs=0.1)
    assert report.fitted.value > 0.9
    assert report.helps


def test_where_nothing_is_planted_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr('parlai_ext.training.fit_judge.RESAMPLES', 200)
    helped = [fit_report(table(0.0, 1.0, seed=seed)).helps for seed in range(6)]
    assert sum(helped) <= 1


def test_a_dimension_that_nobody_judged_is_refused():
    with user_error('--quality Fluenc: .*Fluency'):
        annotated_run([], [HumanJudgement('x', 'Fluency', 1, None, 'id')], 'Fluenc')


def test_a_group_is_never_in_two_folds():
    groups = ['a', 'b', 'a', 'c', 'd', 'b', 'e', 'f', 'a']
    folds = list(grouped_folds(groups, 0))
    assert sorted(i for fold in folds for i in fold) == list(range(len(groups)))
    for fold in folds:
        inside = {groups[i] for i in fold}
        outside = {g for i, g in enumerate(groups) if i not in fold}
        assert not inside & outside


def test_fitted_weights_give_the_fitted_scores():
    rng = np.random.default_rng(1)
    blocks = {
        name: BlockWeights(np.zeros(size), np.ones(size), rng.normal(size=size))
        for name, size in SIZES.items()
    }
    judge = JudgeWeights(blocks, 0.3, '', {})
    found = {name: rng.normal(size=(60, n)) * 0.5 for name, n in SIZES.items()}
    scaled = [found[name] / np.sqrt(SIZES[name]) for name in BLOCKS]
    rows = np.concatenate(scaled, axis=1)
    values = judge.parts(found).sum(1) + 3 * rows[:, 0]
    whole = AnnotatedTable(
        rows, judge.parts(found).sum(1), rank_labels(values), ['x'] * 60, {}
    )
    rest = fit(whole)
    new = fitted_weights(judge, rest)
    scores = new.parts(found).sum(1) + new.bias
    assert scores == pytest.approx(rest.scores(whole))
