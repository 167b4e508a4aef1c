"""
Where workers are placed, which task each of them does next, and what the driver of a
cluster makes of replies; Ray itself is not needed.
"""

import sys
from types import SimpleNamespace

import pytest

from parlai_ext.engines import Machine
from parlai_ext.engines.engine import (
    Job,
    JobTasks,
    Place,
    RayEngine,
    Task,
    Worker,
    _Hand,
    _JobRun,
    places,
)
from parlai_ext.view.progress import bar_of

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
    tasks = JobTasks(Job(Worker, lambda share: Worker(), 'steps', 'key'), made)
    assert tasks.read()
    return tasks


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
    tasks = waiting(*needs)
    for loaded, limits, number in asks:
        task = tasks.take(loaded, *limits)
        assert (task and task.number) == number


def test_a_task_that_came_back_is_first_again():
    tasks = waiting({}, {})
    task = tasks.take((), None, None)
    tasks.give_back(task)
    assert tasks.take((), None, None) is task


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
    job = Job(Worker, lambda share: Worker(), 'steps', 'second')
    with bar_of('test', 1, False) as bar:
        engine = RayEngine(tmp_path, 1, 60.0, Machine())
        run = _JobRun(engine, job, (), tmp_path, bar)
        run._take(hand, None)
    assert hand.key == 'first'
