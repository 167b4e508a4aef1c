"""
Engines: what workers return and how they end, where they are placed, and how an engine
is chosen.

Workers that are forked from this process.
"""

import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
import torch

from parlai_ext.core import UserError, name_secret
from parlai_ext.engines import EngineOptions, Machine, engine, open_engine
from parlai_ext.engines.engine import (
    LOCAL,
    Host,
    Job,
    JobTasks,
    LocalEngine,
    Place,
    RayEngine,
    Task,
    Worker,
    WorkerDiffers,
    _Hand,
    _JobRun,
    code_facts,
    error_of_worker,
    places,
    portable,
    token_in,
    wait_for_files,
)
from parlai_ext.view.progress import bar_of
from tests.support.repository import ROOT
from tests.support.user_error import user_error
from tests.support.waiting import children, comes_true, is_running


class Teller(Worker):
    """
    Tells of its process; some tasks end it, or are mistakes.
    """

    def work(self, data, tell):
        tell(1, 2)
        if data == 'mistake':
            raise UserError('key: wrong')
        if data == 'bug':
            raise ZeroDivisionError('by zero')
        if data == 'disk':
            raise OSError(28, 'No space left on device', '/there')
        if data == 'killed':
            signal.raise_signal(signal.SIGKILL)
        if data == 'slow':
            time.sleep(600)
        return data, os.getpid(), torch.get_num_threads()

    def close(self):
        return os.getpid()


def teller(share):
    return Teller()


def job(**more):
    return Job(Teller, teller, 'steps', 'key', **more)


def tasks(*data, size=1):
    return [Task(f'task {one}', one, size) for one in data]


def results(job, tasks, workers=2):
    with bar_of('test', 10, False) as bar:
        return [result for _, result in LocalEngine(workers).run(job, tasks, bar)]


def test_each_worker_is_a_process_of_its_own_with_one_thread():
    closed = []
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        told = results(job(on_close=closed.append), tasks('a', 'b'))
    finally:
        torch.set_num_threads(before)
    assert sorted(data for data, _, _ in told) == ['a', 'b']
    workers = {process for _, process, _ in told}
    assert len(workers) == 2 and os.getpid() not in workers
    assert {threads for _, _, threads in told} == {1}
    assert set(closed) == workers


def test_results_come_in_order_and_an_error_of_the_tasks_after_them():
    def some():
        yield from tasks(*range(7))
        raise UserError('no more')

    told = []
    with bar_of('test', 7, False) as bar, user_error('no more'):
        running = LocalEngine(2).run(job(lookahead=3), some(), bar)
        told.extend(data for _, (data, _, _) in running)
    assert told == list(range(7))


def test_the_bar_moves_by_the_sizes_of_the_tasks_and_tells_of_steps():
    bar = Mock()
    list(LocalEngine(2).run(job(), tasks('a', 'b', size=10), bar))
    # of each task, half is told of
    assert bar.update.call_args_list == [call(5)] * 4
    assert bar.set_postfix_str.call_args.args == ('2 steps',)  # one of each task


@pytest.mark.parametrize(
    'data, line', [('mistake', '^key: wrong$'), ('killed', 'task killed.*-9')]
)
def test_a_worker_that_fails_or_is_killed_ends_the_job_in_one_line(data, line):
    with user_error(line):
        results(job(), tasks(data, 'slow'))
    assert multiprocessing.active_children() == []


def test_who_leaves_early_ends_the_workers():
    with bar_of('test', 3, False) as bar:
        running = LocalEngine(2).run(job(), tasks('a', 'slow', 'slow'), bar)
        next(running)
        running.close()
    assert multiprocessing.active_children() == []


def test_workers_die_with_their_parent():
    child = (
        'from tests.engines.test_engine import job, results, tasks\n'
        'results(job(), tasks("slow", "slow"))\n'
    )
    parent = subprocess.Popen([sys.executable, '-c', child], cwd=ROOT)
    assert comes_true(lambda: len(children(parent.pid)) == 2)
    forked = children(parent.pid)
    parent.kill()
    parent.wait()
    assert comes_true(lambda: not any(is_running(one) for one in forked))


@pytest.mark.parametrize(
    'small, size, n_workers', [(True, 50, 2), (True, 49, 1), (False, 50, 1)]
)
def test_unasked_only_small_models_with_enough_to_do_get_workers(
    monkeypatch, small, size, n_workers
):
    monkeypatch.setattr(engine, 'n_cores', lambda: 2)
    told = results(job(small=small), tasks('a', 'b', size=size), workers=None)
    workers = {process for _, process, _ in told}
    assert len(workers) == n_workers
    assert (os.getpid() in workers) == (n_workers == 1)


def test_models_on_a_gpu_are_not_forked(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_initialized', lambda: True)
    with user_error('--workers 2.*--no-cuda'):
        results(job(), tasks('a', 'b'))


# ---- The engine of this process, and the host of a worker in another one. Choosing
# an engine: what is wrong with the options, or missing, is one line.


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


# ---- Where workers are placed, which task each of them does next, and what the
# driver of a cluster makes of replies; Ray itself is not needed.

GPU = {'CPU': 8.0, 'GPU': 1.0, 'gpu_memory': 80.0}


# resources of the machines (of a dead one: None), what limits workers; and for each
# worker machine, slot, share of a GPU, share of the memory
@pytest.mark.parametrize(
    'machines, cpus, limits, expected',
    [
        # without GPUs a worker for each core
        (
            {'a': {'CPU': 2.0}, 'b': {'CPU': 1.0}, 'dead': None},
            1,
            {},
            [('a', 0, 0, 0.5), ('a', 1, 0, 0.5), ('b', 0, 0, 1)],
        ),
        # with more cores they are fewer and share the memory
        ({'a': {'CPU': 5.0}}, 2, {}, [('a', 0, 0, 0.5), ('a', 1, 0, 0.5)]),
        # where one machine has a GPU, workers are on GPUs only
        (
            {'a': {'CPU': 8.0}, 'b': {'CPU': 8.0, 'GPU': 2.0}},
            1,
            {},
            [('b', 0, 1, 1), ('b', 1, 1, 1)],
        ),
        # without CUDA GPUs do not count
        ({'b': {'CPU': 1.0, 'GPU': 2.0}}, 1, {'no_cuda': True}, [('b', 0, 0, 1)]),
        # declared memory, 0.6 of it for weights, decides how many workers share a GPU
        (
            {'a': GPU},
            1,
            {'max_gpu_memory': 24},
            [('a', i, 0.5, 0.5) for i in range(2)],
        ),
        ({'a': GPU}, 1, {'max_gpu_memory': 49}, []),
        # and is that of all GPUs of a machine
        (
            {'a': {'CPU': 8.0, 'GPU': 4.0, 'gpu_memory': 96.0}},
            1,
            {'max_gpu_memory': 14.4},
            [('a', i, 1, 1) for i in range(4)],
        ),
    ],
)
def test_workers_are_where_there_is_room(machines, cpus, limits, expected):
    nodes = [
        {
            'NodeID': name,
            'NodeManagerHostname': name,
            'Alive': resources is not None,
            'Resources': resources or {'CPU': 2.0},
        }
        for name, resources in machines.items()
    ]
    found = places(nodes, cpus, Machine(**limits))
    assert [(p.node, p.slot, p.gpus, p.share) for p in found] == expected


def waiting(*needs):
    made = (Task(str(n), None, 1, weights) for n, weights in enumerate(needs))
    queue = JobTasks(job(), made)
    assert queue.read()
    return queue


A, B, SMALL, LARGE = {'a': 5}, {'b': 5}, (6, 20), (20, 20)


# what waiting tasks need; what a worker has loaded, its budget and the largest one,
# with the task that it is given
@pytest.mark.parametrize(
    'needs, asks',
    [
        # tasks without models come in their order
        ([{}] * 3, [('', (None, None), n) for n in (0, 1, 2, None)]),
        # a worker goes on with what it has loaded
        ([A, B, A, B], [('b', (None, None), 1), ('b', (None, None), 3)]),
        # the fewest bytes to load decide
        ([{'l': 9, 'x': 1}, {'s': 2, 'x': 1}], [('x', (None, None), 1)]),
        # two workers begin with different systems
        ([A, A, B, B], [('', (None, None), 0), ('', (None, None), 2)]),
        # a pair that does not fit is left to a larger GPU
        ([A | B, A], [('', SMALL, 1), ('', SMALL, None), ('', LARGE, 0)]),
        # one that fits nowhere is tried on the largest
        ([{'a': 50}], [('', SMALL, None), ('', LARGE, 0)]),
    ],
)
def test_a_worker_is_given_what_it_can_begin_soonest(needs, asks):
    queue = waiting(*needs)
    for loaded, limits, number in asks:
        task = queue.take(loaded, *limits)
        assert (task and task.number) == number


def test_a_task_that_came_back_is_first_again():
    queue = waiting({}, {})
    task = queue.take((), None, None)
    queue.give_back(task)
    assert queue.take((), None, None) is task


def test_a_worker_that_began_the_job_before_is_no_worker_of_this_one(
    tmp_path, monkeypatch
):
    errors = SimpleNamespace(RayTaskError=KeyError, RayError=LookupError)
    # replies are answers
    ray = SimpleNamespace(get=lambda reply: reply, exceptions=errors)
    monkeypatch.setitem(sys.modules, 'ray', ray)
    # it was slow to begin; the others had done all tasks of that job by then
    place = Place('node', 'host', 0, 0.0, 1.0)
    hand = _Hand(place, None, stage='begin', has_begun=True, key='first')
    second = Job(Worker, lambda share: Worker(), 'steps', 'second')
    with bar_of('test', 1, False) as bar:
        cluster = RayEngine(tmp_path, 1, 60.0, Machine())
        run = _JobRun(cluster, second, (), tmp_path, bar)
        run._take(hand, None)
    assert hand.key == 'first'
