"""
Memory that runs out: the budget is halved, trees are divided, and no number changes.
"""

import pytest
import torch

from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.causal import Causal
from tests.support.causal_models import GPT2, flat, make
from tests.support.user_error import user_error

FOLLOWUPS = tuple((i, i + 1, i + 2, i + 3, 2) for i in range(3, 23))
ASKED = [Question(tuple(range(3, 3 + n)), FOLLOWUPS) for n in (4, 9, 14, 19)]


class Full:
    """
    A forward pass that finds memory for so many tokens at once, padding counted.
    """

    def __init__(self, model, room):
        self.forward, self.room = model.forward, room
        self.sizes, self.failures = [], 0

    def __call__(self, input_ids, **rest):
        if input_ids.numel() > self.room:
            self.failures += 1
            raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate')
        self.sizes.append(input_ids.numel())
        return self.forward(input_ids=input_ids, **rest)


def judge(monkeypatch, room, tokens=4096):
    model = make('GPT2', GPT2)
    full = Full(model, room)
    monkeypatch.setattr('gc.collect', lambda: 0)  # it takes longest of all
    monkeypatch.setattr(model, 'forward', full)
    return Causal(model, None, '', tokens=tokens), full


@pytest.fixture(scope='module')
def expected():
    return flat(Causal(make('GPT2', GPT2), None, '').answer(ASKED, True))


@pytest.mark.parametrize('room', [300, 120, 60, 40, 24])
def test_memory_that_runs_out_changes_no_number(monkeypatch, expected, room):
    one, full = judge(monkeypatch, room)
    found = flat(one.answer(ASKED, with_context=True))
    assert found == pytest.approx(expected, rel=0, abs=1e-12)
    assert full.failures > 0


def test_one_tree_too_large_is_divided(monkeypatch):
    one, full = judge(monkeypatch, 50)
    one.answer(ASKED[:1])
    # 4 of the context, and 4 of each of 20 follow-ups that share no beginning
    assert full.failures > 0 and len(full.sizes) > 2


def test_not_even_one_continuation_fits(monkeypatch):
    one, _ = judge(monkeypatch, 5)
    with user_error('out of memory with a single item'):
        one.answer(ASKED)


@pytest.mark.parametrize('tokens', [64, 200, 1000])
def test_no_pass_is_larger_than_the_budget(monkeypatch, tokens):
    one, full = judge(monkeypatch, 10**9, tokens)
    one.answer(ASKED * 3 + [Question((7, n), FOLLOWUPS) for n in range(3, 20)])
    assert max(full.sizes) <= tokens
