"""
A run and its ranking in Python: data frames and a figure.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.report.frames import dialogues_frame, scores_frame
from parlai_ext.report.plot import axis_for, plot_ranking
from tests.support.report_example import (
    DIMENSIONS,
    SCORER,
    example_ranking,
    example_run,
    standing,
)
from tests.support.user_error import user_error


def test_dialogues_have_a_row_for_each_utterance(tmp_path):
    run = example_run(tmp_path / 'r')
    columns = ['dialogue_id', 'utterance_index', 'speaker', 'text']
    rows = dialogues_frame(run)[columns].to_numpy().tolist()
    assert rows == [
        [dialogue.id, place, turn.speaker, turn.text]
        for dialogue in run.iter_dialogues()
        for place, turn in enumerate(dialogue.utterances)
    ]


def test_a_missing_score_has_no_value_and_a_reason(tmp_path):
    frame = scores_frame(example_run(tmp_path / 'r', reason='silent'), SCORER)
    assert set(DIMENSIONS) < set(frame.columns)
    missing = frame[frame[list(DIMENSIONS)].isna().any(axis=1)]
    assert 0 < len(missing) < len(frame)
    assert set(missing.reason) == {'silent'}


def test_the_figure_has_each_system_with_its_score_and_intervals():
    ranking = example_ranking(('a', 'floor-b', 'c'), unranked=('c',))
    (axes,) = plot_ranking(ranking, 'Fluency').axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ['floor-b', 'a', 'c']
    # best on top: the axis points down
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    ends = [list(line.get_xdata()) for line in axes.get_lines()]
    # of a, whose score is -1.4: partners like these, these partners, the score
    assert sum(ends[3:6], []) == pytest.approx([-1.9, -0.9, -1.6, -1.2, -1.4])


def test_a_dimension_that_is_not_there_is_refused_with_the_nearest():
    with user_error("Fluenzy.*'Fluency'"):
        plot_ranking(example_ranking(), 'Fluenzy')


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
