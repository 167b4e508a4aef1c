"""
The doctor finds what is wrong in an environment that was spoilt on purpose.
"""

import os
import subprocess
import sys

import pytest

from parlai_ext.__main__ import main
from parlai_ext.commands.doctor import (
    Fault,
    check_conflicts,
    check_hidden,
    check_packages,
    check_python,
)
from tests.commands.test_plugin import internal_scripts
from tests.support.forked import command_in_child
from tests.support.repository import ROOT


def fake_version(folder, name, version):
    home = folder / f'{name}-{version}.dist-info'
    home.mkdir()
    lines = f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n'
    (home / 'METADATA').write_text(lines)


@pytest.fixture
def too_new_setuptools(tmp_path):
    fake_version(tmp_path, 'setuptools', '99.0')
    gone = "raise ModuleNotFoundError('gone, as in setuptools 82')\n"
    (tmp_path / 'pkg_resources.py').write_text(gone)
    return tmp_path


def test_what_is_of_another_version_is_named_with_its_solution(
    too_new_setuptools, monkeypatch
):
    fake_version(too_new_setuptools, 'parlai', '1.6.0')
    monkeypatch.syspath_prepend(too_new_setuptools)
    monkeypatch.delitem(sys.modules, 'pkg_resources', raising=False)
    setuptools, parlai = check_packages()
    assert setuptools.problem.startswith('setuptools 99.0 is too new')
    assert "pip install 'setuptools<" in setuptools.solution
    assert parlai.problem.startswith('parlai 1.6.0')
    assert '--no-deps parlai==1.7.2' in parlai.solution


def test_a_stock_command_says_it_in_one_line(too_new_setuptools):
    about = {'path': [too_new_setuptools], 'forget': ('parlai', 'pkg_resources')}
    done = command_in_child(main, 'train_model', **about)
    assert done.errors.startswith('error: setuptools 99.0 is too new')
    assert (done.code, done.errors.count('\n')) == (1, 1)


@pytest.mark.parametrize('version', [(3, 10), (3, 12)])
def test_a_python_that_was_not_tried_is_wrong(version):
    assert not list(check_python((3, 11)))
    [finding] = check_python(version)
    assert f'Python 3.{version[1]} ' in finding.problem and finding.wrong
    assert 'PYTHON=python3.11' in finding.solution


def test_a_hidden_package_is_named_and_the_solution_solves_it(tmp_path, monkeypatch):
    internal_scripts(tmp_path)
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    [fault] = check_hidden()
    assert fault.problem.startswith(f'{tmp_path}/parlai_internal hides our package')
    subprocess.run(fault.solution, shell=True, check=True)
    assert not list(check_hidden())


def test_an_empty_environment_is_told_what_to_install(tmp_path):
    bare = tmp_path / 'venv'
    command = [sys.executable, '-m', 'venv', '--without-pip', str(bare)]
    subprocess.run(command, check=True)
    (tmp_path / 'parlai_ext').symlink_to(ROOT / 'parlai_ext')
    done = subprocess.run(
        [bare / 'bin' / 'python', '-m', 'parlai_ext', 'doctor'],
        capture_output=True,
        text=True,
        env={**os.environ, 'PYTHONPATH': str(tmp_path)},
        cwd=tmp_path,
    )
    assert 'parlai_ext itself is not installed' in done.stdout
    assert 'parlai is missing' in done.stdout
    assert (done.returncode, done.stderr) == (1, '')


def test_parlais_pins_are_a_note_and_a_clash_of_ours_is_wrong():
    lines = [
        'parlai 1.7.2 has requirement numpy~=1.23.0, but you have numpy 2.4.6.',
        'parlai 1.7.2 requires datasets, which is not installed.',
        'pandas 3.1.1 has requirement numpy>=1.26,<3, but you have numpy 1.23.5.',
        'somebody 1.0 has requirement numpy<2, but you have numpy 2.4.6.',
        'parlai-ext 0.1.0 has requirement torch>=2.13, but you have torch 2.0.1.',
    ]
    note, clash, own = check_conflicts(lines)
    assert own.problem == 'torch 2.0.1 does not fit parlai-ext, which needs torch>=2.13'
    assert not note.wrong
    assert note.problem.startswith("2 of parlai's own requirements")
    assert clash == Fault(
        'numpy 1.23.5 does not fit pandas, which needs numpy>=1.26,<3',
        f"{sys.executable} -m pip install 'numpy>=1.26,<3'",
    )


def test_here_nothing_is_wrong():
    done = command_in_child(main, 'doctor')
    assert 'wrong' not in done.out
    assert done.out.split('\n')[-2].startswith('all is well: parlai_ext')
    assert done.code == 0
