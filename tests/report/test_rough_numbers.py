"""
Numbers of dialogues are shown as far as they are known.
"""

import numpy as np
import pytest

from parlai_ext.core.display import rough_count
from parlai_ext.ranking.separation import DialoguesNeeded, dialogues_needed
from parlai_ext.report.summary import needed_sentence


@pytest.mark.parametrize(
    'n, text',
    [
        *((3, 'about 3'), (64, 'about 64'), (127, 'about 130'), (995, 'about 1,000')),
        *((27_993, 'about 28,000'), (1_234_567, 'about 1,200,000')),
    ],
)
def test_two_figures_of_an_estimate_are_shown(n, text):
    assert rough_count(n) == text


@pytest.mark.parametrize(
    'n, text',
    [
        *((3, 'about 3'), (10, 'tens of'), (999, 'hundreds of')),
        *((1000, 'thousands of'), (27_993, 'tens of thousands of')),
        *((100_000, 'hundreds of thousands of'), (50_000_000, 'millions of')),
    ],
)
def test_an_order_of_magnitude_is_a_word(n, text):
    assert rough_count(n, is_order_only=True) == text


@pytest.mark.parametrize('spread, is_rough', [(2.0, True), (0.5, False)])
def test_a_number_is_rough_below_two_standard_errors(spread, is_rough):
    # four openers with differences 1 + s, 1 - s, 1 + s, 1 - s: the variance is 4 s²/3,
    # the error of the mean s/√3: 1.15 for s = 2 (a difference of 0.87 errors), 0.29 for
    # s = 0.5 (3.5 errors)
    differences = np.array([[1 + spread, 1 - spread, 1 + spread, 1 - spread]])
    needed = dialogues_needed(('a', 'b'), differences, 1)
    assert needed.is_rough == is_rough and needed.n_dialogues


def test_the_sentence_has_no_figure_that_is_not_known():
    needed = DialoguesNeeded('a', 'b', 129, 217, 27_993)
    rough = DialoguesNeeded('a', 'b', 129, 217, 27_993, is_rough=True)
    text = needed_sentence(needed, 'opener', 4)
    assert 'about 220 openers with about 130 partners (about 28,000 dialogues' in text
    text = needed_sentence(rough, 'opener', 4)
    assert 'hundreds of openers with hundreds of partners' in text
    assert '(tens of thousands of dialogues of each system)' in text
    # the partners of the run are known
    here = DialoguesNeeded('a', 'b', 4, 217, 868, is_rough=True)
    assert 'with 4 partners' in needed_sentence(here, 'opener', 4)
