"""
A check beside its scores, in the ranking that is made of them.
"""

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.judge_check.marks import dimension_check
from parlai_ext.judge_check.record import JudgeCheck, read_check, write_check
from tests.support.scoring_samples import small_run

CHECK = JudgeCheck('s', 40, 0, None, 120, 0.25, {'D': dimension_check('D', [])})


@pytest.fixture
def store(tmp_path):
    return small_run(tmp_path / 'run').scores('s')


def test_scores_without_a_check_have_none(store):
    assert read_check(store) is None


def test_a_check_lies_beside_its_scores(store):
    write_check(store, CHECK)
    assert read_check(store) == CHECK
    assert read_check(store.run.scores('other')) is None


def test_a_damaged_check_is_named(store):
    write_check(store, CHECK)
    path = f'scores/{store.root.name}/judge_check.json'
    store.run.write_json(path, {**store.run.read_json(path), 'n_responses': []})
    with pytest.raises(UserError, match='judge_check.json is damaged: n_responses'):
        read_check(store)
