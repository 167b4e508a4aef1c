"""
Workers that are forked from this process: what they return, and how they end.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from unittest.mock import Mock, call

import pytest
import torch

from parlai_ext.core import UserError
from parlai_ext.engines import engine
from parlai_ext.engines.engine import Job, LocalEngine, Task, Worker
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
        'from tests.engines.test_forked_workers import job, results, tasks\n'
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
