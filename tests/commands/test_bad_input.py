"""
A user's mistake is one line on standard error, exit code 1, and no traceback.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.small_run import files_of

ECHO = {'name': 'floor-echo', 'opt': {'model': 'repeat_query'}}
FIXED = {'name': 'fixed', 'opt': {'model': 'fixed_response', 'fixed_response': 'Yes.'}}


def protocol(folder: Path, **changes) -> str:
    """
    Write a protocol of cheap systems with these keys changed; return its path.
    """
    keys = {
        'pairing': 'bipartite',
        'openers': 'ext:smalltalk',
        'num_dialogues': 2,
        'num_turns': 6,
        'scorer': {'name': 'fed', 'judge_model_file': 'zoo:mini/judge/model'},
        'roster': {'targets': [ECHO], 'partners': [FIXED]},
        **changes,
    }
    path = folder / 'protocol.yaml'
    path.write_text(yaml.safe_dump(keys))
    return str(path)


def run(*args: object) -> tuple[int, list[str]]:
    """
    Run a command as a user does; return its exit code and lines that tell an error.
    """
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'parlai_ext', *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, 'OMP_NUM_THREADS': '1'},
    )
    assert 'Traceback' not in done.stderr, done.stderr
    lines = [one for one in done.stderr.split('\n') if one.startswith('error: ')]
    return done.returncode, lines


def one_error(folder: Path, *more: object, **changes) -> str:
    """
    Return the one line that evaluating this protocol prints.
    """
    config = protocol(folder, **changes)
    code, lines = run(
        'evaluate_systems', '--config', config, '--run-dir', folder / 'run', *more
    )
    assert code == 1 and len(lines) == 1
    return lines[0]


def test_a_missing_model_file_is_one_line(tmp_path):
    gone = {'name': 'gone', 'opt': {'model_file': str(tmp_path / 'gone' / 'model')}}
    line = one_error(tmp_path, roster={'targets': [ECHO, gone], 'partners': [FIXED]})
    assert "'gone'" in line and 'model_file' in line


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    disk = tmp_path / 'disk'
    disk.mkdir()
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip('a small tmpfs cannot be mounted here (it needs root)')
    try:
        config = protocol(tmp_path, num_dialogues=40, num_turns=12)
        options = ('--config', config, '--run-dir', disk / 'run', '--batchsize', 4)
        code, lines = run('collect_dialogues', *options)
        assert code == 1 and len(lines) == 1 and 'No space left' in lines[0]
        kept = {n for n in files_of(disk / 'run') if n.endswith('.jsonl')}
        assert kept  # what was collected before the disk was full is there
        subprocess.run(['mount', '-o', 'remount,size=4m', str(disk)], check=True)
        code, _ = run('collect_dialogues', *options)
        assert code == 0
        assert kept < {n for n in files_of(disk / 'run') if n.endswith('.jsonl')}
    finally:
        subprocess.run(['umount', str(disk)], check=True)


def test_run_folder_without_a_name(tmp_path):
    code, lines = run('evaluate_systems', '--config', protocol(tmp_path))
    assert code == 1 and '--run-dir' in lines[0]
