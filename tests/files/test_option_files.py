"""
What is said of a file that is not there.
"""

import os

import pytest

from parlai_ext.files import existing_file, missing_file
from tests.support.user_error import error_line


def test_the_nearest_file_is_named(tmp_path):
    (tmp_path / 'model').touch()
    hint = f"did you mean '{tmp_path}/model'?"
    assert missing_file(f'{tmp_path}/modle').endswith(hint)
    # a file in the place of a folder is no hint at itself
    problem = missing_file(f'{tmp_path}/model/dict')
    assert problem.endswith(f'{tmp_path}/model is no folder')


def test_a_link_to_nothing_and_a_pipe_are_no_hints_at_themselves(tmp_path):
    (tmp_path / 'link').symlink_to(tmp_path / 'gone')
    os.mkfifo(tmp_path / 'pipe')
    for name in ('link', 'pipe'):
        line = error_line(existing_file, f'{tmp_path}/{name}', 'model_file')
        assert line.startswith('model_file: ') and f'{name} is' in line
        assert 'did you mean' not in line


@pytest.mark.parametrize('path', ['x' * 5000, 'x' * 300, 'a\0b'])
def test_what_can_be_no_path_is_one_short_line(path):
    line = error_line(existing_file, path, 'model_file')
    assert line.startswith('model_file: ') and ' is no path: ' in line
    assert len(line) < 200
    assert ' is no path: ' in missing_file(path)
