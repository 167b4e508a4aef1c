"""
A misfit that is not held is counted.
"""

from random import Random

import pytest

from parlai_ext.systems import parlai_agents
from torture import misfits


def test_there_are_more_than_forty_misfits():
    assert misfits.Misfits.count > 40


@pytest.mark.parametrize(
    'output, is_named',
    [
        ('error: system misfit: no reply within 2 s', True),
        ('system misfit', False),
        ('all is well: 3 dialogues', False),
    ],
)
def test_a_name_without_a_reason_does_not_count(output, is_named):
    assert (misfits.named_problem(output) == '') == is_named


@pytest.mark.slow
def test_a_planted_bug_is_counted(tmp_path, monkeypatch):
    number = misfits.Misfits.names.index('CrashesAtAct')
    for name in ('held', 'not'):
        (tmp_path / name).mkdir()
    with misfits.Misfits(tmp_path / 'held') as trials:
        assert trials.trial(number, Random(0)) == ''

    def give_up(fields):
        raise Exception

    with misfits.Misfits(tmp_path / 'not') as trials:
        monkeypatch.setattr(parlai_agents, 'reply_from_fields', give_up)
        line = trials.trial(number, Random(0))
    assert line.startswith("'CrashesAtAct': a traceback")
