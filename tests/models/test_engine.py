"""
What the likelihood engines share: groups of like width under a token budget, what
happens when memory runs out, and what of a batch goes through a model.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.core import Question, UserError
from parlai_ext.models.likelihood import Budget, Causal
from tests.support.causal_models import GPT2, flat, make
from tests.support.user_error import user_error

FULL = torch.OutOfMemoryError('CUDA out of memory. Tried to allocate')
lists = st.lists(st.integers(0, 40), max_size=30)


class Step:
    """
    A model with room for so many tokens; it keeps the groups that went through.
    """

    def __init__(self, widths, room=10**9, error=FULL):
        self.widths, self.room, self.error = widths, room, error
        self.groups, self.tried = [], []

    def __call__(self, group):
        tokens = len(group) * max(self.widths[i] for i in group)
        self.tried.append(tokens)
        if tokens > self.room:
            raise self.error
        self.groups.append(group)
        return [f'result {i}' for i in group]


def results(n):
    return [f'result {i}' for i in range(n)]


@given(widths=lists, tokens=st.integers(1, 100))
def test_results_keep_the_order_and_no_group_is_wider_than_the_budget(widths, tokens):
    step = Step(widths)
    assert Budget(tokens).run(widths, step) == results(len(widths))
    for group in step.groups:
        assert len(group) == 1 or len(group) * max(widths[i] for i in group) <= tokens


CPU_FULL = RuntimeError("DefaultCPUAllocator: can't allocate memory")


@pytest.mark.parametrize(
    'widths, room, error, tokens, tried, left',
    [
        # 100 tokens hold ten items; fifty five; 25 hold two
        ([10] * 10, 30, FULL, 100, [100, 50, *[20] * 5], 25),
        # far more than two items: halved until one of them is too much
        ([10, 10], 10, FULL, 10_000, [20, 10, 10], 19),
        ([5, 5], 5, CPU_FULL, 10, [10, 5, 5], 5),
    ],
)
def test_out_of_memory_halves_the_budget_for_good(
    widths, room, error, tokens, tried, left
):
    step, budget = Step(widths, room, error), Budget(tokens)
    assert budget.run(widths, step) == results(len(widths))
    assert (step.tried, budget.tokens) == (tried, left)
    again = Step(widths, room)
    budget.run(widths, again)
    assert max(again.tried) <= room


def test_the_widest_go_first_and_what_was_done_before_memory_ran_out_is_done():
    widths = [2, 4, 2, 4, 2, 2]
    step = Step(widths)
    left = iter([None, FULL])

    def once(group):
        error = next(left, None)
        if error is not None:
            raise error
        return step(group)

    assert Budget(8).run(widths, once) == results(6)
    assert step.groups == [[1, 3], [0, 2], [4, 5]]


@pytest.mark.parametrize(
    'widths, error, kind, line',
    [
        ([50, 50], FULL, UserError, '50 tokens'),
        ([0, 0, 0], FULL, UserError, '^out of memory[^\n]*$'),
        ([1], RuntimeError('mat1 and mat2 shapes'), RuntimeError, 'mat1'),
    ],
    ids=['a single item', 'items without width', 'other errors'],
)
def test_what_no_smaller_group_would_mend(widths, error, kind, line):
    with pytest.raises(kind, match=line) as e:
        Budget(100).run(widths, Step(widths, -1, error))
    assert '\n' not in str(e.value)


# --- of causal models -----------------------------------------------------------------

FOLLOWUPS = tuple((i, i + 1, i + 2, i + 3, 2) for i in range(3, 23))
ASKED = [Question(tuple(range(3, 3 + n)), FOLLOWUPS) for n in (4, 9, 14, 19)]


def full_judge(room):
    """
    Return a judge whose model has room for so many tokens at once, and a list of those
    that were too many.
    """
    model = make('GPT2', GPT2)
    forward, failures = model.forward, []

    def full(input_ids, **rest):
        if input_ids.numel() > room:
            failures.append(input_ids.numel())
            raise FULL
        return forward(input_ids=input_ids, **rest)

    model.forward = full
    return Causal(model, None, ''), failures


@pytest.mark.parametrize('room', [120, 24])
def test_memory_that_runs_out_changes_no_number(room):
    whole, (full, failures) = Causal(make('GPT2', GPT2), None, ''), full_judge(room)
    expected, found = (flat(one.answer(ASKED, True)) for one in (whole, full))
    assert found == pytest.approx(expected, rel=0, abs=1e-12)
    assert failures


def test_not_even_one_continuation_fits():
    one, _ = full_judge(5)
    with user_error('out of memory with a single item'):
        one.answer(ASKED)
