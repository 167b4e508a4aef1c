"""
`ext:stored_scores`: scores from elsewhere against people, without a model.
"""

import pytest
from parlai.core.message import Message
from parlai.scripts.eval_model import EvalModel

from parlai_ext.agents.stored_scores.stored_scores import StoredScoresAgent
from parlai_ext.commands import plugin
from tests.support.shared_data import shared
from tests.support.user_error import user_error


@pytest.fixture(autouse=True)
def registered():
    plugin.register()


@pytest.mark.parametrize('batchsize', [1, 8])
def test_stored_scores_need_no_model(batchsize):
    folder = shared('fed/dialogpt_large_fed_scores')
    report = EvalModel.main(
        model='ext:stored_scores',
        task='ext:judged:fed_turn',
        scores_file=str(folder / 'turn_level_FU_scores.jsonl'),
        judged_file=str(shared('fed/fed_data.json')),
        batchsize=batchsize,
    )
    assert round(report['Overall, mean of all/spearman'].value(), 4) == 0.0933
    # DialEvalMetrics: 0.095 for FED, turn level
    assert round(report['Overall, mean of level/spearman'].value(), 3) == 0.095


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('{', 'not JSON'),
        ('[{"scoers": {}}]', 'object 1: key scores: a mapping expected'),
        (
            '{"score": {}} {"score": {"Wit": "x"}}',
            'object 2: key scores.Wit: a number',
        ),
        ('{"score": {"Wit": NaN}}', 'not JSON: NaN is no number of JSON'),
        ('{"score": {"Wit": true}}', 'object 1: key scores.Wit: a number'),
    ],
)
def test_stored_scores_of_another_shape_are_one_line(tmp_path, text, problem):
    path = tmp_path / 'scores.json'
    path.write_text(text)
    with user_error(f'--scores-file {path}: {problem}'):
        StoredScoresAgent({'scores_file': str(path)})


@pytest.mark.parametrize('there', [1, 3])
def test_scores_of_other_items_are_one_line(tmp_path, there):
    # scores of 375 turns held against 125 dialogues would be numbers of nothing
    path = tmp_path / 'scores.json'
    path.write_text('[{"scores": {"Wit": 1}}, {"scores": {"Wit": 2}}]')
    agent = StoredScoresAgent({'scores_file': str(path)})
    agent.observe(Message(text='a', item=0, num_items=there))
    problem = f'it has 2 objects, and the task has {there} items'
    with user_error(problem):
        agent.act()
