"""
The corpora on which the learned judge was tried: what leaves together, and from which
nearness on runs are flagged.
"""

import numpy as np
import pytest

from benchmarks.learned_judge.corpora import (
    FALSE_ALARMS,
    TriedCorpus,
    chosen_threshold,
    left_out,
    other_texts,
)

EAST, NORTH = np.eye(2, dtype=np.float32)


def test_a_corpus_leaves_with_all_that_share_it():
    # usr_persona is over ConvAI2, too; jsalt shares nothing with either
    between = 0.6 * EAST + 0.8 * NORTH
    places = {'grade_convai2': EAST, 'usr_persona': EAST, 'jsalt': between}
    noise = np.random.default_rng(0).normal(0, 1e-3, (8, 2))
    found = left_out({name: one + noise for name, one in places.items()})
    nearness = {one.name: one.nearness.mean() for one in found}
    assert nearness == pytest.approx(dict.fromkeys(places, 0.6), abs=0.01)
    assert [one.nearest for one in found][:2] == ['jsalt', 'jsalt']


def test_the_threshold_flags_the_allowed_share_of_runs():
    rng = np.random.default_rng(0)
    tried = [TriedCorpus('a', rng.normal(m, 0.1, 150), '') for m in (0.4, 0.5)]
    flagged = [one.flagged(chosen_threshold(tried)) for one in tried]
    # rounded to 0.01, of a spread of 0.1 / sqrt(30) = 0.018
    assert np.mean(flagged) == pytest.approx(FALSE_ALARMS, abs=0.08)
    assert flagged[1] == 0


def test_a_line_of_other_texts_answers_the_line_before_it():
    for kinds in other_texts().values():
        for items in kinds.values():
            assert len(items) == 15  # of 16 lines
            assert items[1].context == (items[0].response,)
