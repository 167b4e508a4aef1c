"""
Causal models: a tree of continuations gives the numbers of plain passes, one by one.
"""

import json
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parlai_ext.core.nouns import Question
from parlai_ext.core.watch import Watch
from parlai_ext.models.likelihood.causal import Causal, OutputLayer, reserved_positions
from parlai_ext.models.likelihood.prefix_packs import TreeCosts
from tests.support.causal_models import (
    GPT2,
    KINDS,
    SINGLE,
    VOCABULARY,
    assert_one_by_one,
    flat,
    make,
    one_by_one,
)
from tests.support.user_error import user_error

ids = st.integers(3, VOCABULARY - 1)
contexts = st.lists(ids, min_size=1, max_size=12).map(tuple)
# few different tokens, so that continuations begin alike
replies = st.lists(st.lists(st.integers(3, 6), max_size=5).map(tuple), max_size=6)
questions = st.builds(Question, contexts, replies.map(tuple))
some_questions = st.lists(questions, min_size=1, max_size=4)
TURNS = [tuple(range(3, 3 + 7 * n)) for n in range(1, 6)]
FOLLOWUPS = ((3, 4, 5, 2), (3, 4, 6, 7, 2), (9, 2), (3, 4, 5, 2), (50, 51, 52, 53, 2))


@pytest.fixture(scope='module')
def model():
    return make('GPT2', GPT2)


@pytest.fixture(scope='module')
def judge(model):
    return Causal(model, None, '', start=1, positions=256)


@pytest.fixture(scope='module', params=[*KINDS, *SINGLE])
def kind(request):
    return request.param, make(request.param, {**KINDS, **SINGLE}[request.param])


def in_passes(judge, pass_cost):
    """
    Return the judge, which reads its trees in passes of about √``pass_cost`` tokens.
    """
    judge.costs = lambda tokens: TreeCosts(6 * judge.width, tokens, pass_cost)
    return judge


@pytest.mark.parametrize('several_passes', [False, True])
def test_every_class_equals_a_loop_one_by_one(kind, several_passes):
    name, model = kind
    asked = [Question(turn, FOLLOWUPS) for turn in TURNS]
    judge = Causal(model, None, '')
    if several_passes:
        widths = record_widths(in_passes(judge, 100))
    answers = judge.answer(asked)
    # 35 tokens of the longest context and 10 of the follow-ups after each turn
    assert not several_passes or (sum(widths) == 35 + 5 * 10 and len(widths) > 5)
    tolerance = 1e-5 if name in SINGLE else 1e-9
    assert_one_by_one(asked, answers, partial(one_by_one, model), tolerance)


def record_widths(judge):
    """
    Return a list that will hold the tokens of each pass through the judge's model.
    """
    judge.head.plain  # noqa: B018  its probe is a pass of its own
    widths = []
    judge.model.register_forward_pre_hook(
        lambda _, __, given: widths.append(given['input_ids'].numel()),
        with_kwargs=True,
    )
    return widths


def test_the_mean_of_a_string_is_hugging_faces_loss(kind):
    name, model = kind
    string = TURNS[3] + FOLLOWUPS[1]
    labels = torch.tensor([string])
    loss = float(model(input_ids=labels, labels=labels).loss)
    [answer] = Causal(model, None, '').answer(
        [Question(TURNS[3], FOLLOWUPS[1:2])], with_context=True
    )
    found = flat([answer])
    assert len(found) == len(string) - 1
    # Hugging Face takes its loss in float32
    assert -sum(found) / len(found) == pytest.approx(loss, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(asked=some_questions)
def test_whatever_is_asked_equals_one_by_one(model, judge, asked):
    assert_one_by_one(asked, judge.answer(asked), partial(one_by_one, model))


@settings(max_examples=40, deadline=None)
@given(asked=some_questions)
def test_contexts_on_request_equal_one_by_one(model, judge, asked):
    for question, answer in zip(asked, judge.answer(asked, True), strict=True):
        first, rest = question.context[:1], question.context[1:]
        expected = one_by_one(model, first, rest)
        assert answer.context == pytest.approx(expected, rel=0, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    asked=some_questions,
    tokens=st.integers(1, 80),
    pass_cost=st.sampled_from([None, 30, 300]),
)
def test_company_order_padding_and_passes_change_nothing(
    model, judge, asked, tokens, pass_cost
):
    small = in_passes(Causal(model, None, '', tokens=tokens), pass_cost)
    found = small.answer((asked * 2)[::-1], with_context=True)[::-1]
    alone = [judge.answer([one], with_context=True)[0] for one in asked]
    assert flat(found) == pytest.approx(flat(alone * 2), rel=0, abs=1e-12)


def test_company_changes_less_than_the_stated_tolerance_in_float32():
    judge = Causal(make('GPT2', GPT2).float(), None, '', start=1)
    asked = [Question(turn, FOLLOWUPS) for turn in TURNS]
    alone = flat([judge.answer([one])[0] for one in asked])
    assert flat(judge.answer(asked)) == pytest.approx(alone, rel=0, abs=1e-5)


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_half_precision_is_normalised_in_float32(dtype):
    model = make('Llama', KINDS['Llama']).to(dtype)
    every = tuple((token,) for token in range(VOCABULARY))
    [answer] = Causal(model, None, '').answer([Question(TURNS[2], every)])
    total = sum(torch.tensor(flat([answer]), dtype=torch.float64).exp())
    # rounded to bfloat16 the sum would be wrong by some thousandths
    assert float(total) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_half_precision_is_near_the_double(dtype):
    exact = make('Llama', KINDS['Llama'])
    asked = [Question(turn, FOLLOWUPS) for turn in TURNS]
    expected = flat(Causal(exact, None, '').answer(asked))
    found = flat(Causal(exact.to(dtype), None, '').answer(asked))
    assert np.abs(np.subtract(found, expected)).mean() < 0.1


# eager attention takes its softmax in float32
@pytest.mark.parametrize(('attention', 'tolerance'), [('sdpa', 1e-9), ('eager', 1e-5)])
def test_eager_attention_and_a_pass_of_one_token_are_the_same(attention, tolerance):
    one, other = (
        make('Mistral', KINDS['Mistral'], attn_implementation=which)
        for which in ('sdpa', attention)
    )
    asked = [Question(turn, FOLLOWUPS) for turn in TURNS]
    expected = flat(Causal(one, None, '').answer(asked, with_context=True))
    for judge in (Causal(other, None, ''), in_passes(Causal(other, None, ''), 1)):
        found = flat(judge.answer(asked, True))
        assert found == pytest.approx(expected, rel=0, abs=tolerance)


def test_a_cut_context_is_the_same_in_passes(model):
    asked = [Question(tuple(range(3, 3 + n)), FOLLOWUPS) for n in (30, 40, 50)]
    whole, parts = (Causal(model, None, '', positions=40) for _ in range(2))
    expected, found = whole.answer(asked), in_passes(parts, 60).answer(asked)
    assert [a.num_truncated for a in found] == [a.num_truncated for a in expected]
    assert found[-1].num_truncated > 0
    assert flat(found) == pytest.approx(flat(expected), rel=0, abs=1e-12)


def test_logits_in_slices_are_the_same(judge, monkeypatch):
    asked = [Question(turn, FOLLOWUPS) for turn in TURNS]
    at_once = flat(judge.answer(asked, with_context=True))
    monkeypatch.setattr('parlai_ext.models.likelihood.causal.LOGITS', 3 * VOCABULARY)
    sliced = flat(judge.answer(asked, with_context=True))
    assert sliced == pytest.approx(at_once, rel=0, abs=1e-12)


def test_logits_are_made_only_of_rows_that_are_to_tokens(judge, monkeypatch):
    seen = []
    layer = judge.model.get_output_embeddings()
    hook = layer.register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    judge.answer([Question(tuple(range(3, 50)), ((3, 4, 5), (3, 4, 6)))])
    hook.remove()
    # a tree of 49 nodes: the context's last token, 3 and 4 predict something
    assert sorted(seen) == [1, 3]


def test_an_empty_context_is_the_start_token(model, judge):
    [answer] = judge.answer([Question((), ((5, 6),))])
    assert answer.continuations[0] == pytest.approx(one_by_one(model, (1,), (5, 6)))


def test_an_empty_context_without_a_start_token_is_one_line(model):
    with user_error('no start token'):
        Causal(model, None, '').answer([Question((), ((5,),))])


@pytest.mark.parametrize(
    ('continuation', 'kept'),
    [
        pytest.param((5, 6), 40 - reserved_positions(40), id='the reserve is 10'),
        pytest.param(tuple(range(3, 33)), 10, id='it makes room for itself'),
    ],
)
def test_a_long_context_loses_its_oldest_tokens_and_says_how_many(
    model, continuation, kept
):
    context = tuple(range(3, 53))
    [answer] = Causal(model, None, '', positions=40).answer(
        [Question(context, (continuation,))]
    )
    assert answer.num_truncated == 50 - kept
    expected = one_by_one(model, context[-kept:], continuation)
    assert answer.continuations[0] == pytest.approx(expected)


def test_a_continuation_longer_than_the_model_is_one_line(model):
    judge = Causal(model, None, '', positions=10)
    with user_error('10 tokens does not fit into'):
        judge.answer([Question((3,), (tuple(range(3, 13)),))])


def test_nothing_asked_is_nothing_computed(judge, monkeypatch):
    monkeypatch.setattr(judge.model, 'forward', None)
    [answer] = judge.answer([Question((4, 5), ((), ()))])
    assert (answer.continuations, answer.context) == (((), ()), None)


@pytest.fixture
def shapes(model, monkeypatch):
    """
    The shapes of the passes through the model, which are its judges' own.
    """
    seen = []
    forward = model.forward

    def counted(input_ids, **rest):
        seen.append(tuple(input_ids.shape))
        return forward(input_ids=input_ids, **rest)

    monkeypatch.setattr(model, 'forward', counted)
    monkeypatch.setattr(OutputLayer, 'plain', True)
    return seen


def test_turns_of_a_dialogue_are_one_forward(model, shapes):
    Causal(model, None, '').answer([Question(turn, ((55, 56, 2),)) for turn in TURNS])
    # 35 tokens of the last context, two of the follow-up after each of five turns
    assert shapes == [(1, 35 + 5 * 2)]


def test_large_trees_are_not_padded_to_larger_ones(model, shapes, monkeypatch):
    monkeypatch.setattr('parlai_ext.models.likelihood.causal.ENOUGH', 40)
    # trees of 41, 40, 21 and 20 tokens that share nothing
    asked = [
        Question((3 + i,) * n, ((50, 51),)) for i, n in enumerate((40, 39, 20, 19))
    ]
    Causal(model, None, '').answer(asked)
    assert shapes == [(2, 41), (2, 21)]


class Kept(dict):
    """
    Results as a file keeps them.
    """

    def put(self, key, results):
        self[key] = json.loads(json.dumps(results))


def test_what_was_kept_of_a_call_is_not_computed_again(model):
    questions = [Question((i, i + 1), ((5, 2), (6,))) for i in range(3, 9)]
    first, again = Causal(model, None, 'a', tokens=8), Causal(model, None, 'a')
    kept = Kept()
    first.watch = Watch(kept=kept)
    answers = first.answer(questions, with_context=True)
    assert len(kept) > 1
    again.budget.tokens = 8
    again.watch = Watch(kept=kept)
    again.compute = None  # nothing is left to compute
    assert again.answer(questions, with_context=True) == answers
    other = Causal(model, None, 'b', tokens=8)  # another judge shares no answer
    other.watch = Watch(kept=kept)
    other.answer(questions, with_context=True)
    assert len(kept) % 2 == 0


def test_progress_counts_every_tree(model):
    seen = []
    judge = Causal(model, None, '')
    judge.watch = Watch(lambda n, of: seen.append((n, of)))
    judge.answer([Question((i, i + 1), ((5, 2),)) for i in range(3, 9)])
    assert sum(n for n, _ in seen) == 6 and {of for _, of in seen} == {6}
