"""
Likelihood engines. Causal models: a tree of continuations gives the numbers of plain
passes, one by one. What the engines share: groups of like width under a token budget,
what happens when memory runs out, and what of a batch goes through a model. Token
sequences as trees, and which of them share one.
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

from parlai_ext.core import Question, UserError
from parlai_ext.models.likelihood import (
    Budget,
    Causal,
    TokenQuestion,
    TreeCosts,
    TreeSize,
    check_causal,
    pack_questions,
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


# What the engines share


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

LIKE_FOLLOWUPS = tuple((i, i + 1, i + 2, i + 3, 2) for i in range(3, 23))
OF_FOUR_WIDTHS = [
    Question(tuple(range(3, 3 + n)), LIKE_FOLLOWUPS) for n in (4, 9, 14, 19)
]


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
    expected, found = (flat(one.answer(OF_FOUR_WIDTHS, True)) for one in (whole, full))
    assert found == pytest.approx(expected, rel=0, abs=1e-12)
    assert failures


def test_not_even_one_continuation_fits():
    one, _ = full_judge(5)
    with user_error('out of memory with a single item'):
        one.answer(OF_FOUR_WIDTHS)


# Token sequences as trees


few = st.integers(0, 3)
asked_things = st.lists(
    st.builds(
        TokenQuestion,
        st.lists(few, min_size=1, max_size=8).map(tuple),
        st.lists(st.lists(few, max_size=5).map(tuple), max_size=6).map(tuple),
    ),
    max_size=5,
)
COSTS = TreeCosts(3456, 16384, 24 * 3456)


@given(asked=asked_things, token=st.integers(1, 50), tokens=st.integers(14, 60))
def test_trees_keep_to_the_budget(asked, token, tokens):
    # a context and a continuation have at most 8 + 4 nodes
    for pack in pack_questions(asked, TreeCosts(token, tokens), True):
        assert len(pack) <= tokens


@pytest.mark.parametrize(
    'costs, size, n_passes, cost',
    [
        # each of 3 nodes costs 10 for itself and 1 for each of 3 nodes
        (TreeCosts(10, 100), TreeSize(3, 2), 1, 3 * 10 + 3 * 3),
        # 8 nodes of mean depth 1: 4 nodes are multiplied with 4, the other 4 with 4 and
        # with 1 ancestor; the second pass costs 14; three would cost 2 more
        (TreeCosts(10, 100, 14), TreeSize(8, 8), 2, 8 * 10 + 4 * 4 + 4 * (4 + 1) + 14),
    ],
)
def test_the_cost_of_a_tree_by_pencil(costs, size, n_passes, cost):
    assert (costs.num_passes(size), costs.tree_cost(size)) == (n_passes, cost)


MANY = tuple((2000 + i, 2, 3) for i in range(3000))
LONG = tuple(range(100, 160))
FEW = tuple((i, i, 2) for i in range(100))


@pytest.mark.parametrize(
    'asked, costs, n_trees',  # `None`: several
    [
        # many follow-ups, whose context is read once; in one pass they are divided
        ([(range(500), MANY)], COSTS, 1),
        ([(range(500), MANY)], TreeCosts(3456, 16384), None),
        # turns of a dialogue
        (
            [(LONG[:n], ((1, 2), (1, 3))) for n in (20, 40, 60)],
            TreeCosts(1000, 4096),
            1,
        ),
        # nothing in common
        ([((n, *LONG[:40]), ((1, 2),)) for n in range(5)], TreeCosts(1000, 4096), 5),
        # 200 nodes each: the 2 tokens saved would cost 2 * 200 * 200 of attention
        ([((7, 8), FEW), ((7, 8, 9), FEW)], TreeCosts(10, 4096), None),
    ],
)
def test_what_shares_a_tree(asked, costs, n_trees):
    packs = pack_questions(
        [TokenQuestion(tuple(context), many) for context, many in asked], costs, False
    )
    assert len(packs) == n_trees if n_trees else len(packs) > 1
