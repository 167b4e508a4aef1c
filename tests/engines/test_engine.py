"""
The engine of this process, and the host of a worker in another one.

Choosing an engine: what is wrong with the options, or missing, is one line.
"""

import os
import pickle
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

from parlai_ext.core import UserError, name_secret
from parlai_ext.engines import EngineOptions, Machine, open_engine
from parlai_ext.engines.engine import (
    LOCAL,
    Host,
    WorkerDiffers,
    code_facts,
    error_of_worker,
    portable,
    token_in,
    wait_for_files,
)
from parlai_ext.view.progress import bar_of
from tests.engines.test_forked_workers import job, tasks, teller
from tests.support.user_error import user_error


def test_results_come_in_order_and_a_worker_is_closed_also_after_a_mistake():
    last, results = [], []
    some = tasks(1, 2, 3, 'mistake')
    with bar_of('test', 4, False) as bar, user_error('key: wrong'):
        for _, (data, *_) in LOCAL.run(job(on_close=last.append), some, bar):
            assert not last
            results.append(data)
    assert (results, last) == ([1, 2, 3], [os.getpid()])


@pytest.mark.parametrize(
    'data, kind, words',
    [
        ('mistake', UserError, 'key: wrong'),
        ('disk', OSError, '/there'),
        ('bug', RuntimeError, 'ZeroDivisionError'),
    ],
)
def test_an_exception_of_a_worker_ends_the_job_here(data, kind, words):
    host = Host()
    host.begin('key', teller, 1.0)
    told = pickle.loads(pickle.dumps(host.work(data, 1)))
    error = error_of_worker(told, 'the worker on node-7')
    assert type(error) is kind
    assert words in str(error)


def test_a_secret_does_not_leave_a_worker(monkeypatch):
    monkeypatch.setenv('EVALKEY', 'sesame-sesame-sesame')
    name_secret('EVALKEY')
    try:
        raise ValueError('401: sesame-sesame-sesame is no key')
    except ValueError as error:
        told = portable(error)
    assert b'sesame' not in pickle.dumps(told)


@pytest.mark.parametrize(
    'package, version', [('torch', '0.1'), ('parlai_ext', '0.1.0 #000000000000')]
)
def test_other_versions_and_other_code_are_refused(tmp_path, package, version):
    with token_in(tmp_path) as token:
        facts = {**code_facts(), package: version}
        here = code_facts()[package]
        told = Host().begin('key', teller, 1.0, (os.getcwd(), token, facts))
    assert isinstance(told, WorkerDiffers)
    assert str(told) == f'{package}: {here} there, {version} here'


def test_a_folder_that_a_worker_does_not_see_is_named(tmp_path):
    origin = os.getcwd(), tmp_path / 'run' / '.token', code_facts()
    told = Host().begin('key', teller, 1.0, origin)
    assert isinstance(told, WorkerDiffers) and str(tmp_path / 'run') in str(told)


def test_a_token_that_a_killed_process_left_is_removed_and_one_in_use_is_not(tmp_path):
    child = (
        'import os, sys\n'
        'from pathlib import Path\n'
        'from parlai_ext.engines.engine import token_in\n'
        'with token_in(Path(sys.argv[1])):\n'
        '    os._exit(9)\n'
    )
    assert subprocess.run([sys.executable, '-c', child, str(tmp_path)]).returncode == 9
    assert len(list(tmp_path.iterdir())) == 1
    with token_in(tmp_path) as token, open_engine(EngineOptions(), tmp_path, Machine()):
        assert list(tmp_path.iterdir()) == [token]
    assert list(tmp_path.iterdir()) == []


def test_files_that_never_appear_are_named(tmp_path):
    with user_error('00000.jsonl'):
        wait_for_files([tmp_path / '00000.jsonl'], seconds=0)


needs_ray = pytest.mark.skipif(find_spec('ray') is None, reason='Ray is not installed')


def refuse(folder, line, **given):
    with user_error(line), open_engine(EngineOptions(**given), folder, Machine()):
        pass


@pytest.mark.parametrize(
    'given, line',
    [
        ({'engine': 'ray', 'workers': 2}, '--workers.*--engine local'),
        ({'ray_address': 'auto'}, '--ray-address.*--engine ray'),
        ({'ray_cpus': 2}, '--ray-cpus.*--engine ray'),
    ],
)
def test_an_option_of_the_other_engine_is_refused(tmp_path, given, line):
    refuse(tmp_path, line, **given)


def test_without_ray_the_line_says_how_to_install_it(tmp_path, uninstalled):
    uninstalled('ray')
    refuse(tmp_path, r"pip install 'parlai_ext\[ray\]'", engine='ray')


@needs_ray
@pytest.mark.parametrize('address', ['ray://host:10001', 'host:x'])
def test_an_address_is_a_host_and_a_port(tmp_path, address):
    refuse(tmp_path, f'{address}.*HOST:PORT', engine='ray', ray_address=address)


@needs_ray
def test_an_address_where_nobody_listens_is_named(tmp_path):
    with socket.socket() as server:  # bound, and nobody listens
        server.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{server.getsockname()[1]}'
        line = f'{address}.*cannot be reached'
        refuse(tmp_path, line, engine='ray', ray_address=address)
