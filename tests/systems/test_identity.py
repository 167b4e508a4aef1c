"""
A system's identity follows its content and its options, never its path.
"""

import shutil
import sys

import pytest

from parlai_ext.core import System
from parlai_ext.systems.identity import identity
from tests.support.store_samples import write_files
from tests.support.user_error import user_error


@pytest.fixture
def home(tmp_path):
    files = {
        'model': b'weights',
        'model.opt': b'{"model": "x"}',
        'model.dict': b'word\t1\n',
        'cands.txt': b'hi\n',
    }
    write_files(tmp_path / 'a', files)
    return tmp_path


def of(folder, **opt):
    return identity(System('A', {'model_file': str(folder / 'model'), **opt}))


def test_a_moved_model_keeps_its_identity(home):
    before = of(home / 'a')
    shutil.move(home / 'a', home / 'b')
    assert of(home / 'b') == before


def test_options_matter_but_for_name_and_speed(home):
    path = str(home / 'a' / 'model')
    fast = {'model_file': path, 'no_cuda': True, 'batchsize': 4, 'gpu': 1}
    assert identity(System('B', fast)) == of(home / 'a')
    beams = [of(home / 'a', beam_size=size) for size in (3, 4)]
    assert len({of(home / 'a'), *beams}) == 3


@pytest.mark.parametrize(
    'name, is_part',
    [
        ('model', True),
        ('model.opt', True),
        ('model.dict', True),
        ('model2.dict', False),
    ],
)
def test_changed_content_changes_the_identity(home, name, is_part):
    before = of(home / 'a')
    with (home / 'a' / name).open('a') as file:
        file.write(' ')
    assert (of(home / 'a') != before) == is_part


def test_candidates_do_not_enter_by_their_path(home):
    cands = home / 'a' / 'cands.txt'
    before = of(home / 'a', fixed_candidates_path=str(cands))
    shutil.copy(cands, home / 'other.txt')
    assert of(home / 'a', fixed_candidates_path=str(home / 'other.txt')) == before


def test_a_missing_file_is_one_line(home):
    with user_error("'A': model_file: there is no file"):
        of(home / 'none')
    with user_error("'A': dict_file: there is no file"):  # it is a folder
        of(home / 'a', dict_file=str(home))


def test_the_source_of_a_users_own_agent_is_part_of_the_identity(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / 'my_own_bot.py'
    path.write_text('class Bot: pass\n')
    system = System('A', {'model': 'my_own_bot:Bot'})
    before = identity(system)
    path.write_text('class Bot: answer = 42\n')
    assert identity(system) != before
    assert 'my_own_bot' not in sys.modules


def test_a_dated_remote_system_is_its_name_and_not_its_pace_or_purse(monkeypatch):
    monkeypatch.setenv('A_KEY', 'not-a-real-key')
    opt = {
        'model': 'ext:remote',
        'remote_url': 'https://127.0.0.1:9/v1',
        'remote_model': 'bot',
        'remote_dated_model': 'bot-2024-05-13',
    }
    pace = {
        'remote_key_env': 'A_KEY',
        'remote_concurrency': 3,
        'remote_cache': 'none',
        'remote_price_prompt': 1,
        'remote_price_completion': 2,
        'max_cost': 1,
    }
    one = identity(System('A', opt))
    assert identity(System('A', {**opt, **pace})) == one
    assert identity(System('A', {**opt, 'remote_dated_model': 'bot-2025'})) != one
    assert identity(System('A', {**opt, 'remote_temperature': 0.5})) != one
