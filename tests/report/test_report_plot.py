import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.report.plot import axis_for, round_step
from tests.support.report_example import standing

numbers = st.floats(-1e6, 1e6)


def place(text):
    return float(text.removesuffix('%'))


@given(st.lists(numbers, min_size=1, max_size=8))
def test_marks_are_on_the_plot_and_in_order(scores):
    rows = [standing(str(i), 1, s) for i, s in enumerate(scores)]
    axis = axis_for(rows)
    for row in rows:
        values = (row.low, row.low_fixed, row.score, row.high_fixed, row.high)
        places = [place(axis.place(value)) for value in values]
        assert all(0 <= p <= 100 for p in places)
        assert sorted(places) == places


@given(numbers, st.floats(1e-3, 1e6))
def test_axis_has_a_few_ticks_within_it(score, width):
    row = replace(standing('a', 1, score), low=score - width, high=score + width)
    axis = axis_for([row])
    assert 1 <= len(axis.ticks) <= 6
    slack = 1e-9 * (1 + abs(score))  # of adding steps in floating point
    assert all(axis.low - slack <= t <= axis.high + slack for t in axis.ticks)


@pytest.mark.parametrize(
    'about, step', [(0.9, 1), (1.0, 1), (1.2, 2), (3, 5), (6, 10), (0.03, 0.05)]
)
def test_steps_are_one_two_or_five_times_a_power_of_ten(about, step):
    assert round_step(about) == pytest.approx(step)


def test_a_missing_value_has_no_place_on_the_plot():
    axis = axis_for([standing('a', None, None)])
    assert axis.place(None) is None
    assert axis.place(math.nan) is None
