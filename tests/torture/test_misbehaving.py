"""
A misfit that is not held is counted.
"""

import pytest

from parlai_ext.systems import player_process
from torture import misbehaving
from torture.figure import Settings, try_all


@pytest.fixture(scope='module')
def numbers():
    misfits = misbehaving.all_misfits('http://127.0.0.1:1')
    return {misfit.name: number for number, misfit in enumerate(misfits)}


def tried(folder, number):
    settings = Settings(folder, trial=number, progress=False)
    with misbehaving.misfits(settings) as (count, trial):
        return try_all('misbehaving', '', count, trial, settings)


def test_there_are_more_than_forty_misfits(numbers):
    assert len(numbers) > 40


@pytest.mark.parametrize(
    'output, is_named',
    [
        ('error: system misfit: no reply within 2 s', True),
        ('system misfit', False),
        ('all is well: 3 dialogues', False),
    ],
)
def test_a_name_without_a_reason_does_not_count(output, is_named):
    assert (misbehaving.named_problem(output) == '') == is_named


@pytest.mark.slow
def test_a_planted_bug_is_counted(numbers, tmp_path, monkeypatch):
    number = numbers['CrashesAtAct']
    (tmp_path / 'held').mkdir()
    (tmp_path / 'not').mkdir()
    assert tried(tmp_path / 'held', number).failures == ()

    def give_up(fields):
        raise AssertionError

    monkeypatch.setattr(player_process, 'read_reply', give_up)
    [line] = tried(tmp_path / 'not', number).failures
    assert line.startswith('CrashesAtAct: exit code')
