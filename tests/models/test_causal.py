"""
Causal models: a tree of continuations gives the numbers of plain passes, one by one.
"""

import sys
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Phi3Config

from parlai_ext.core import Question
from parlai_ext.models.likelihood import (
    Causal,
    TreeCosts,
    TreeSize,
    check_causal,
    reserved_positions,
)
from parlai_ext.models.watch import Watch
from parlai_ext.systems.pretrained import max_positions
from tests.support.causal_models import (
    GPT2,
    KINDS,
    REFUSED,
    SINGLE,
    SIZES,
    VOCABULARY,
    Kept,
    assert_one_by_one,
    flat,
    make,
    one_by_one,
    record_shapes,
    some_questions,
)
from tests.support.user_error import user_error

TURNS = [tuple(range(3, 3 + 7 * n)) for n in range(1, 6)]
FOLLOWUPS = ((3, 4, 5, 2), (3, 4, 6, 7, 2), (9, 2), (3, 4, 5, 2), (50, 51, 52, 53, 2))
ASKED = [Question(turn, FOLLOWUPS) for turn in TURNS]


@pytest.fixture(scope='module')
def model():
    return make('GPT2', GPT2)


def judge_of(model, **options):
    return Causal(model, None, '', **options)


@pytest.fixture(scope='module')
def judge(model):
    return judge_of(model, start=1, positions=256)


@pytest.fixture(scope='module', params=[*KINDS, *SINGLE])
def kind(request):
    model = make(request.param, {**KINDS, **SINGLE}[request.param])
    return request.param, model, cache(partial(one_by_one, model))


def in_passes(judge, pass_cost):
    """
    Return the judge, which reads its trees in passes of about √``pass_cost`` tokens.
    """
    judge.costs = lambda tokens: TreeCosts(6 * judge.width, tokens, pass_cost)
    return judge


@pytest.mark.parametrize('several_passes', [False, True])
def test_every_class_equals_a_loop_one_by_one(kind, several_passes):
    name, model, alone = kind
    judge = judge_of(model)
    if several_passes:
        in_passes(judge, 100).plain  # noqa: B018  its probe is a pass of its own
        shapes = record_shapes(model)
    answers = judge.answer(ASKED)
    if several_passes:
        # 35 tokens of the longest context and 10 of the follow-ups after each turn
        assert sum(width for _, width in shapes) == 35 + 5 * 10 and len(shapes) > 5
    tolerance = 1e-5 if name in SINGLE else 1e-9
    assert_one_by_one(ASKED, answers, alone, tolerance)


@settings(max_examples=30)
@given(
    asked=some_questions,
    tokens=st.integers(1, 80),
    pass_cost=st.sampled_from([None, 1, 30, 300]),
    rows=st.integers(1, 30),
)
def test_company_order_padding_passes_and_slices_of_logits_change_nothing(
    model, judge, asked, tokens, pass_cost, rows
):
    small = in_passes(judge_of(model, tokens=tokens), pass_cost)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('parlai_ext.models.likelihood.LOGITS', rows * VOCABULARY)
        found = small.answer((asked * 2)[::-1], with_context=True)[::-1]
    alone = [judge.answer([one], with_context=True)[0] for one in asked]
    assert flat(found) == pytest.approx(flat(alone * 2), rel=0, abs=1e-12)
    # contexts on request; of continuations each class is asked above
    context = asked[0].context
    expected = one_by_one(model, context[:1], context[1:])
    assert alone[0].context == pytest.approx(expected, rel=0, abs=1e-9)


def test_half_precision_is_normalised_in_float32_and_near_the_double():
    model = make('Llama', KINDS['Llama'])
    expected = flat(judge_of(model).answer(ASKED))
    judge = judge_of(model.to(torch.bfloat16))
    assert np.abs(np.subtract(flat(judge.answer(ASKED)), expected)).mean() < 0.1
    every = tuple((token,) for token in range(VOCABULARY))
    [answer] = judge.answer([Question(TURNS[2], every)])
    total = sum(torch.tensor(flat([answer]), dtype=torch.float64).exp())
    # a softmax rounded to 8 bits would be off by some 1e-3
    assert float(total) == pytest.approx(1, abs=1e-5)


# eager attention takes its softmax in float32
def test_eager_attention_and_a_pass_of_one_token_are_the_same():
    one, eager = (
        make('Mistral', KINDS['Mistral'], attn_implementation=which)
        for which in ('sdpa', 'eager')
    )
    expected = flat(judge_of(one).answer(ASKED, with_context=True))
    for judge in (judge_of(eager), in_passes(judge_of(eager), 1)):
        found = flat(judge.answer(ASKED, True))
        assert found == pytest.approx(expected, rel=0, abs=1e-5)


def test_logits_are_made_only_of_rows_that_are_to_tokens(judge):
    judge.plain  # noqa: B018  its probe is a pass of its own
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


@pytest.mark.parametrize(
    'continuation, kept',
    [
        ((5, 6), 40 - reserved_positions(40)),  # the reserve is 10
        (tuple(range(3, 33)), 10),  # it makes room for itself
    ],
)
def test_a_long_context_loses_its_oldest_tokens_and_says_how_many(
    model, continuation, kept
):
    context = tuple(range(3, 53))
    [answer] = judge_of(model, positions=40).answer(
        [Question(context, (continuation,))]
    )
    assert answer.num_truncated == 50 - kept
    expected = one_by_one(model, context[-kept:], continuation)
    assert answer.continuations[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    'asked, line',
    [
        (Question((), ((5,),)), 'no start token'),
        (Question((3,), (tuple(range(3, 13)),)), '10 tokens does not fit into'),
    ],
)
def test_what_the_model_has_no_room_or_no_start_for_is_one_line(model, asked, line):
    with user_error(line):
        judge_of(model, positions=10).answer([asked])


def test_an_element_of_a_tensor_may_hold_several_weights(model, monkeypatch):
    # as bitsandbytes packs those in 4 bits: sixteen in one of 64
    kinds = SimpleNamespace(Params4bit=torch.nn.Parameter)
    monkeypatch.setitem(sys.modules, 'bitsandbytes', SimpleNamespace(nn=kinds))
    monkeypatch.setattr(model, 'is_loaded_in_4bit', True, raising=False)
    elements = sum(one.numel() for one in model.parameters())
    assert judge_of(model).num_parameters == 16 * elements


def test_what_was_kept_of_a_call_is_not_computed_again(model):
    questions = [Question((i, i + 1), ((5, 2), (6,))) for i in range(3, 9)]
    first, again = (Causal(model, None, 'a', tokens=8) for _ in range(2))
    kept = Kept()
    first.watch = Watch(kept=kept)
    answers = first.answer(questions, with_context=True)
    assert len(kept) > 1
    again.watch = Watch(kept=kept)
    again.compute = None  # nothing is left to compute
    assert again.answer(questions, with_context=True) == answers
    other = Causal(model, None, 'b', tokens=8)  # another judge shares no answer
    other.watch = Watch(kept=kept)
    other.answer(questions, with_context=True)
    assert len(kept) % 2 == 0


# --- which models are asked, and what is said of those that are not ----------------


def test_a_model_that_reads_trees_passes_the_trial_and_reads_them_in_passes(kind):
    judge = judge_of(kind[1])
    assert check_causal(judge) is judge
    assert judge.takes_cache or kind[0] in SINGLE


@pytest.mark.parametrize('kind', REFUSED)
def test_a_model_that_does_not_is_refused_in_one_line(kind):
    model = make(kind, REFUSED[kind])
    with user_error(f'{type(model).__name__}.*(cannot read a tree|another way)'):
        check_causal(judge_of(model))


@pytest.mark.parametrize('ignored', ['attention_mask', 'position_ids'])
def test_a_model_that_ignores_what_makes_a_tree_is_found_out(ignored):
    model = make('Llama', SIZES)
    forward = model.forward
    model.forward = lambda **given: forward(**{**given, ignored: None})
    with user_error('in another way than plain text'):
        check_causal(judge_of(model))


@pytest.mark.parametrize('broken', ['ignored', 'refused'])
def test_a_model_without_a_cache_reads_every_tree_in_one_pass(broken):
    model = make('Llama', SIZES)
    forward = model.forward

    def without_cache(use_cache=False, **given):
        if given.pop('cache', None) is not None and broken == 'refused':
            raise TypeError('cache')
        return forward(**given, use_cache=False)

    model.forward = without_cache
    judge = check_causal(judge_of(model))
    assert not judge.takes_cache
    # 400 tokens: with a cache they would be several passes
    asked = Question(
        tuple(range(3, 53)) * 4, tuple((i, *range(3, 9)) for i in range(9, 42))
    )
    assert judge_of(model).costs(10**4).num_passes(TreeSize(400, 0)) > 1
    expected = one_by_one(model, asked.context, asked.continuations[0])
    [answer] = judge.answer([asked])
    assert answer.continuations[0] == pytest.approx(expected, rel=0, abs=1e-9)


def test_a_model_that_changes_its_logits_unseen_is_found_out():
    model = make('Llama', SIZES)
    judge = judge_of(model)
    assert judge.plain
    forward = model.forward

    def capped(**given):
        found = forward(**given)
        found.logits = torch.tanh(found.logits)
        return found

    model.forward = capped
    with user_error('in another way than plain text'):
        check_causal(judge)


def test_flash_attention_takes_no_mask_of_ours():
    model = make('Llama', SIZES)
    model.config._attn_implementation = 'flash_attention_2'
    with user_error('flash_attention_2.* sdpa or eager would do'):
        judge_of(model)


def test_memory_that_runs_out_in_the_trial_is_not_the_models_fault(monkeypatch):
    judge = judge_of(make('GPT2', GPT2))

    def full(**_):
        raise torch.OutOfMemoryError('CUDA out of memory')

    monkeypatch.setattr(judge.model, 'forward', full)
    with pytest.raises(torch.OutOfMemoryError):
        check_causal(judge)


@pytest.mark.parametrize(
    'named, expected',
    [
        ({'n_positions': 96, 'n_ctx': 80}, 80),
        ({'max_position_embeddings': -1}, None),
    ],
)
def test_positions_are_what_the_config_says(named, expected):
    text = SimpleNamespace(**named)
    config = SimpleNamespace(get_text_config=lambda: text)
    tokenizer = SimpleNamespace(model_max_length=10**30)
    assert max_positions(config, tokenizer) == expected


def test_positions_end_where_long_texts_get_other_numbers():
    factors = [1.0] * 4
    rope = {'rope_type': 'longrope', 'rope_theta': 1e4}
    config = Phi3Config(
        **{**SIZES, 'max_position_embeddings': 4096},
        original_max_position_embeddings=128,
        rope_parameters={**rope, 'long_factor': factors, 'short_factor': factors}
        | {'original_max_position_embeddings': 128},
    )
    assert max_positions(config, SimpleNamespace(model_max_length=1000)) == 128
