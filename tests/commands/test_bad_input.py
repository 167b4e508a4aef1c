"""
A user's mistake is one line on standard error, exit code 1, and no traceback.
"""

import subprocess

import pytest

from parlai_ext.__main__ import main
from tests.collect.test_preflight import ECHO, protocol, says
from tests.support.forked import command_in_child
from tests.support.small_run import files_of


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
        opt = protocol(tmp_path, [ECHO], [says('fixed', 'no')], num_dialogues=40)
        args = ('collect_dialogues', '--config', opt['config'], '--batchsize', 4)
        args += ('--run-dir', disk / 'run')
        code, _, errors = command_in_child(main, *args)
        assert code == 1 and 'Traceback' not in errors
        [line] = [one for one in errors.split('\n') if one.startswith('error: ')]
        assert 'No space left' in line
        kept = {n for n in files_of(disk / 'run') if n.endswith('.jsonl')}
        assert kept  # what was collected before the disk was full is there
        subprocess.run(['mount', '-o', 'remount,size=4m', str(disk)], check=True)
        assert command_in_child(main, *args).code == 0
        assert kept < {n for n in files_of(disk / 'run') if n.endswith('.jsonl')}
    finally:
        subprocess.run(['umount', str(disk)], check=True)
