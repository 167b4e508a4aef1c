"""
A run and its ranking in Python: data frames and a figure.
"""

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.report.frames import dialogues_frame, scores_frame
from parlai_ext.report.plot import plot_ranking
from tests.support.report_example import (
    DIMENSIONS,
    SCORER,
    example_ranking,
    example_run,
)


def test_dialogues_have_a_row_for_each_utterance(tmp_path):
    run = example_run(tmp_path / 'r')
    frame = dialogues_frame(run)
    dialogues = {dialogue.id: dialogue for dialogue in run.iter_dialogues()}
    assert len(frame) == sum(len(one.utterances) for one in dialogues.values())
    for row in frame.itertuples():
        utterance = dialogues[row.dialogue_id].utterances[row.utterance_index]
        assert (row.speaker, row.text) == (utterance.speaker, utterance.text)


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
    assert ends[3:6] == [
        pytest.approx([-1.9, -0.9]),
        pytest.approx([-1.6, -1.2]),
        pytest.approx([-1.4]),
    ]


def test_a_dimension_that_is_not_there_is_refused_with_the_nearest():
    with pytest.raises(UserError, match="Fluenzy.*'Fluency'"):
        plot_ranking(example_ranking(), 'Fluenzy')
