"""
A great many answers: the work and the memory grow with their number, and with nothing
else.
"""

import tracemalloc

import numpy as np
import pytest

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.core.progress import bar_of
from parlai_ext.people.judgements import Judgements
from parlai_ext.people.ranking import (
    Resampling,
    rank_by_people,
    rating_draws,
    unit_means,
)
from parlai_ext.ranking.intervals import draw_means

SYSTEMS = [f'system {k}' for k in range(5)]


def sparse_ratings(annotators=500, dialogues=2000):
    """
    Return one rating of each dialogue; each annotator sees few of them.
    """
    return tuple(
        HumanJudgement(
            SYSTEMS[k % 5], 'Overall', k % 7 % 5, f'annotator {k % annotators}', f'd{k}'
        )
        for k in range(dialogues)
    )


def test_no_table_of_annotators_by_dialogues_is_filled_up():
    # 500 annotators by 2,000 dialogues by 5 systems are 40 MB in a full table
    judgements = Judgements(sparse_ratings())
    tracemalloc.start()
    try:
        rank_by_people(judgements, bootstraps=50)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6


def test_resamples_are_those_of_the_full_table():
    rng = np.random.default_rng(0)
    table = rng.integers(1, 6, (3, 4, 9)).astype(float)
    table[rng.random(table.shape) < 0.4] = np.nan
    ratings = [
        HumanJudgement(f's{i}', 'Overall', table[i, j, k], f'a{j}', f'd{i}-{k}')
        for i, j, k in zip(*np.nonzero(~np.isnan(table)), strict=True)
    ]
    contexts = {r.dialogue_id: r.dialogue_id.split('-')[1] for r in ratings}
    units = unit_means(
        (r.system, r.dialogue_id, None, r.rater, r.value) for r in ratings
    )
    with bar_of('', None, progress=False) as bar:
        draws = rating_draws(units, contexts, Resampling(50, 3, bar))
    expected = draw_means(table, 50, 3)
    for name, values in vars(draws).items():
        assert values == pytest.approx(getattr(expected, name), nan_ok=True), name
