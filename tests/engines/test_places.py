"""
Where workers are placed, and which task each of them does next.
"""

import pytest

from parlai_ext.engines.engine import Task
from parlai_ext.engines.ray_cluster import places
from parlai_ext.engines.waiting_tasks import WaitingTasks


def node(name, alive=True, **resources):
    return {
        'NodeID': name,
        'NodeManagerHostname': name,
        'Alive': alive,
        'Resources': resources,
    }


def slots(*nodes, cpus=1, **limits):
    return [(p.node, p.slot, p.gpus) for p in places(nodes, cpus, **limits)]


def test_a_machine_without_gpus_has_a_worker_for_each_core():
    assert slots(node('a', CPU=2.0), node('b', CPU=1.0)) == [
        ('a', 0, 0),
        ('a', 1, 0),
        ('b', 0, 0),
    ]


def test_workers_with_more_cores_are_fewer_and_share_the_memory():
    both = places([node('a', CPU=5.0)], 2)
    assert [(place.cpus, place.share) for place in both] == [(2, 0.5), (2, 0.5)]


def test_dead_machines_have_no_place():
    assert slots(node('a', alive=False, CPU=2.0)) == []


def test_where_one_machine_has_a_gpu_workers_are_on_gpus_only():
    assert slots(node('a', CPU=8.0), node('b', CPU=8.0, GPU=2.0)) == [
        ('b', 0, 1),
        ('b', 1, 1),
    ]


def test_without_cuda_gpus_do_not_count():
    assert slots(node('b', CPU=1.0, GPU=2.0), no_gpu=True) == [('b', 0, 0)]


@pytest.mark.parametrize('needed, n, share', [(40, 2, 0.5), (80, 1, 1), (81, 0, 0)])
def test_declared_memory_decides_how_many_workers_share_a_gpu(needed, n, share):
    machine = node('a', CPU=8.0, GPU=1.0, gpu_memory=80.0)
    assert slots(machine, needed=needed) == [('a', i, share) for i in range(n)]


def test_declared_memory_is_that_of_all_gpus_of_a_machine():
    machine = node('a', CPU=8.0, GPU=4.0, gpu_memory=96.0)
    assert len(slots(machine, needed=24)) == 4


def waiting(*needs):
    tasks = WaitingTasks()
    for number, weights in enumerate(needs):
        tasks.add(number, Task(str(number), None, 1, weights))
    return tasks


def taken(tasks, *loaded, budget=None, largest=None):
    result = tasks.take(loaded, budget, largest)
    return None if result is None else result[0]


def test_tasks_without_models_come_in_their_order():
    tasks = waiting({}, {}, {})
    assert [taken(tasks) for _ in range(4)] == [0, 1, 2, None]


def test_a_worker_goes_on_with_what_it_has_loaded():
    a, b = {'a': 5}, {'b': 5}
    tasks = waiting(a, b, a, b)
    assert [taken(tasks, 'b') for _ in range(2)] == [1, 3]


def test_the_fewest_bytes_to_load_decide():
    tasks = waiting({'big': 9, 'x': 1}, {'small': 2, 'x': 1})
    assert taken(tasks, 'x') == 1


def test_two_workers_begin_with_different_systems():
    a, b = {'a': 5}, {'b': 5}
    tasks = waiting(a, a, b, b)
    assert [taken(tasks), taken(tasks)] == [0, 2]


def test_a_task_that_came_back_is_first_again():
    tasks = waiting({}, {})
    number, task = tasks.take((), None, None)
    tasks.done(task)
    tasks.add(number, task)
    assert taken(tasks) == 0


def test_a_pair_that_does_not_fit_is_left_to_a_larger_gpu():
    tasks = waiting({'a': 5, 'b': 5}, {'a': 5})
    assert taken(tasks, budget=6, largest=20) == 1
    assert taken(tasks, budget=6, largest=20) is None
    assert taken(tasks, budget=20, largest=20) == 0


def test_a_pair_that_fits_nowhere_is_tried_on_the_largest():
    tasks = waiting({'a': 50})
    assert taken(tasks, budget=6, largest=20) is None
    assert taken(tasks, budget=20, largest=20) == 0
