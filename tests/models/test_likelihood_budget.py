"""
The token budget: groups of like width, and what happens when memory runs out.
"""

import platform
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.core.errors import UserError
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.systems.torch_memory import give_back
from tests.support.user_error import user_error


@pytest.fixture(scope='module', autouse=True)
def quick():
    """
    Nothing here holds memory, and looking for it takes a third of a second.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('parlai_ext.models.likelihood.budget.gc.collect', lambda: 0)
        yield


lists = st.lists(st.integers(0, 40), max_size=30)


class Step:
    """
    A model with room for so many tokens; it keeps the groups that went through.
    """

    def __init__(self, widths, room=10**9):
        self.widths = widths
        self.room = room
        self.groups = []
        self.tried = []

    def __call__(self, group):
        tokens = len(group) * max(self.widths[i] for i in group)
        self.tried.append(tokens)
        if tokens > self.room:
            raise torch.OutOfMemoryError('CUDA out of memory')
        self.groups.append(group)
        return [f'result {i}' for i in group]


@given(widths=lists, tokens=st.integers(1, 100))
def test_results_keep_the_order_of_items(widths, tokens):
    found = Budget(tokens).run(widths, Step(widths))
    assert found == [f'result {i}' for i in range(len(widths))]


@given(widths=lists, tokens=st.integers(1, 100))
def test_no_group_is_wider_than_the_budget(widths, tokens):
    step = Step(widths)
    Budget(tokens).run(widths, step)
    for group in step.groups:
        assert len(group) == 1 or len(group) * max(widths[i] for i in group) <= tokens


@pytest.mark.parametrize(
    ('widths', 'groups'),
    [
        pytest.param([3, 5, 3, 5, 1], [[1, 3], [0, 2, 4]], id='widest first'),
        pytest.param([2, 30, 2], [[1], [0, 2]], id='wider than the budget'),
    ],
)
def test_which_items_go_together(widths, groups):
    step = Step(widths)
    Budget(10).run(widths, step)
    assert step.groups == groups


@pytest.mark.parametrize(
    ('widths', 'room', 'tokens', 'tried', 'left'),
    [
        ([10] * 10, 30, 100, [100, 50, 20, 20, 20, 20, 20], 25),
        ([10, 10], 10, 10_000, [20, 10, 10], 19),  # a group below the budget
    ],
)
def test_out_of_memory_halves_the_budget_for_good(widths, room, tokens, tried, left):
    step, budget = Step(widths, room), Budget(tokens)
    n = len(widths)
    assert budget.run(widths, step) == [f'result {i}' for i in range(n)]
    assert (step.tried, budget.tokens) == (tried, left)
    again = Step(widths, room)
    budget.run(widths, again)
    assert max(again.tried) <= room


def test_what_was_done_before_memory_ran_out_is_not_done_again():
    widths = [4, 4, 2, 2, 2, 2]
    step = Step(widths)
    left = iter([None, torch.OutOfMemoryError('late')])

    def once(group):
        error = next(left, None)
        if error is not None:
            raise error
        return step(group)

    assert Budget(8).run(widths, once) == [f'result {i}' for i in range(6)]
    assert step.groups == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ('widths', 'error', 'kind', 'line'),
    [
        (
            [50, 50],
            torch.OutOfMemoryError('CUDA out of memory'),
            UserError,
            '50 tokens',
        ),
        ([0, 0, 0], torch.OutOfMemoryError('full'), UserError, '^out of memory[^\n]*$'),
        ([1], RuntimeError('mat1 and mat2 shapes'), RuntimeError, 'mat1'),
    ],
    ids=['a single item', 'items without width', 'other errors'],
)
def test_what_no_smaller_group_would_mend(widths, error, kind, line):
    def step(_):
        raise error

    with pytest.raises(kind, match=line) as e:
        Budget(100).run(widths, step)
    assert '\n' not in str(e.value)


@pytest.fixture
def given_back(monkeypatch):
    times = []
    name = 'parlai_ext.models.likelihood.budget.give_back'
    monkeypatch.setattr(name, lambda: times.append(1))
    return times


def test_memory_is_given_back_once_a_budget_of_tokens(given_back):
    budget = Budget(100)
    for _ in range(10):
        budget.run([15, 15], Step([15, 15]))
    # of 300 tokens, after 120 and after 240
    assert len(given_back) == 2


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='only glibc keeps memory')
def test_freed_memory_between_used_pieces_is_given_back():
    kept = [torch.ones(2**14) for _ in range(2**10)]  # 64 KiB each
    full = resident()
    del kept[::2]
    give_back()
    # 32 MiB are free, between pieces that are not
    assert full - resident() > 16 * 2**20


def resident():
    status = Path('/proc/self/status').read_text(encoding='ascii')
    return 1024 * int(re.search(r'VmRSS:\s+(\d+)', status)[1])


def test_no_items_have_no_results():
    assert Budget(4).run([], Step([])) == []


def test_a_budget_below_one_is_refused():
    with user_error('must be 1 or more'):
        Budget(0)
