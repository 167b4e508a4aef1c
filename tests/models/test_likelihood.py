"""
Likelihood engines.

Causal models: a tree of continuations gives the numbers of plain passes, one by one.
What the engines share: groups of like width under a token budget, what happens when
memory runs out, and what of a batch goes through a model. Token sequences as trees, and
which of them share one. Encoder-decoders: the same numbers as one pass of their
library's own model for each continuation, of what their agents read.
"""

import re
import sys
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parlai.agents.image_seq2seq.image_seq2seq import ImageSeq2seqAgent
from parlai.core.message import Message
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Phi3Config,
    T5ForConditionalGeneration,
)
from transformers.models.t5.modeling_t5 import T5LayerNorm

from parlai_ext.core import Question, UserError
from parlai_ext.engines import data_in
from parlai_ext.models import likelihood as likelihood_engine
from parlai_ext.models.hf_likelihood import Seq2Seq, check_seq2seq
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
from parlai_ext.models.parlai_models import AgentVectorizer
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
from tests.support.families import FAMILIES, JUDGES
from tests.support.family_hf import make_model
from tests.support.on_cpu import load_judge
from tests.support.talk import loaded
from tests.support.tiny_models import make_generator, sentences
from tests.support.user_error import user_error
from tests.support.written import changed_json

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


# === What the engines share ===========================================================

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


# === Token sequences as trees =========================================================

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


# === Encoder-decoders =================================================================

SENTENCES = tuple(sentences(5, seed=2))
HUGGING_FACE = ('t5', 't5 tied', 'bart of hf')


@pytest.fixture(scope='module')
def model_file(module_folder):
    return make_generator(module_folder, text_truncate=20)


@pytest.fixture(scope='module')
def seq2seq_judge(model_file):
    judge = load_judge(model_file, double=True)
    judge.budget.tokens = 100
    return judge


@pytest.fixture(scope='module', params=[*JUDGES, *HUGGING_FACE])
def pair(request, tmp_path_factory):
    """
    The judge of one model class, and a forward pass of its library's own in float64.
    """
    folder = tmp_path_factory.mktemp('model')
    if request.param in HUGGING_FACE:
        judge = load_judge(f'hf:{built(request.param, folder)}', double=True)
        model = judge.model
        start = torch.tensor([[model.config.decoder_start_token_id]])

        def forward(xs, ys):
            begun = torch.cat([start, ys[:, :-1]], 1)
            return model(input_ids=xs, decoder_input_ids=begun).logits[0]

        return judge, partial(own_logprobs, forward)
    opt = FAMILIES[request.param](folder)
    with data_in(opt.get('datapath')):
        judge = load_judge(opt['model_file'], double=True)
    agent = loaded(**opt, no_cuda=True).agent
    agent.model.double().eval()
    image = (None,) if isinstance(agent, ImageSeq2seqAgent) else ()
    return judge, partial(
        own_logprobs, lambda xs, ys: agent.model(xs, *image, ys=ys)[0][0]
    )


@torch.no_grad()
def own_logprobs(forward, context, continuation):
    if not continuation:
        return []
    logits = forward(torch.tensor([context]), torch.tensor([continuation]))
    logprobs = torch.log_softmax(logits, dim=1)
    return [logprobs[t, y].item() for t, y in enumerate(continuation)]


def built(kind, folder):
    name, _, more = kind.partition(' ')
    return make_model(folder, name, tie_word_embeddings=more == 'tied')


def engine(judge, tokens=10_000):
    """
    Another engine over the judge's model, with its own budget.
    """
    return type(judge)(judge.model, judge.vectorizer, '', tokens)


@pytest.fixture(scope='module', autouse=True)
def norms_in_float64():
    """
    Let T5 take its norms in float64. Its own are in float32 whatever its weights are: a
    difference of the last bit then moves one by 6e-8 now and then, and one unit in all
    12 of them changes these log-probabilities by up to 2e-3.
    """

    def forward(self, states):
        mean_square = states.pow(2).mean(-1, keepdim=True)
        return self.weight * states * torch.rsqrt(mean_square + self.variance_epsilon)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(T5LayerNorm, 'forward', forward)
        yield


def assert_close(judge, found, expected):
    """
    Assert that two orders of summation make the difference, at most.

    T5 does not scale its attention: one unit in the last place (2**-52) at each of its
    12 norms changes these numbers by up to 4e-12, and a sum of 32 products in another
    order is off by up to 16 such units, so by 6e-11.
    """
    is_t5 = isinstance(judge.model, T5ForConditionalGeneration)
    tolerance = 1e-10 if is_t5 else 1e-12
    assert flat(found) == pytest.approx(flat(expected), rel=0, abs=tolerance)


@settings(max_examples=6)
@given(
    asked=some_questions,
    tokens=st.integers(1, 200),
    limit=st.integers(1, 8),
    rows=st.integers(1, 9),
)
def test_each_class_equals_a_loop_in_several_trees_and_slices_too(
    pair, asked, tokens, limit, rows
):
    judge, one_by_one = pair
    answers = judge.answer(asked)
    assert_one_by_one(asked, answers, one_by_one)
    # company, order and padding change nothing
    together = engine(judge, tokens).answer((asked * 2)[::-1])[::-1]
    assert_close(judge, together, 2 * answers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likelihood_engine, 'LARGEST_TREE', limit)
        assert_close(judge, engine(judge).answer(asked), answers)
        patch.setattr(likelihood_engine, 'LARGEST_LOGITS', rows * judge.vocabulary)
        assert_close(judge, engine(judge).answer(asked), answers)


def test_a_context_is_encoded_once_and_a_prediction_made_once(
    seq2seq_judge, monkeypatch
):
    encoded, predicted = [], []
    encode, logits = seq2seq_judge.encode, seq2seq_judge.logits

    def note_encoded(xs, keys_values):
        encoded.extend(xs.tolist())
        return encode(xs, keys_values)

    def note_predicted(hidden):
        predicted.extend(hidden)
        return logits(hidden)

    monkeypatch.setattr(seq2seq_judge, 'encode', note_encoded)
    monkeypatch.setattr(seq2seq_judge, 'logits', note_predicted)
    three = Question((9, 9), ((5, 6, 2), (5, 7, 2), (2,)))
    seq2seq_judge.answer([three, Question((8, 8), ((2,),)), Question((9, 9), ((2,),))])
    assert sorted(encoded) == [[8, 8], [9, 9]]
    # what follows the start of either, and after 9 9 what follows 5, 5 6 and 5 7
    assert len(predicted) == 2 + 3


def test_an_encoder_gives_its_input_no_probability(seq2seq_judge):
    [answer] = seq2seq_judge.answer([Question((5, 6), ((7,),))], with_context=True)
    assert answer.context is None


@pytest.mark.slow
def test_memory_does_not_grow_over_10_000_utterances(model_file):
    # fewer tokens than a call has, so that none ends with freed memory kept
    judge = load_judge(model_file)
    judge.budget.tokens = 2048
    texts = sentences(10_000, seed=9)
    sizes = []
    for start in range(0, 10_000, 250):
        judge.answer(
            [
                Question(tuple(texts[i - 3 : i + 1]), (*SENTENCES, texts[i]))
                for i in range(max(3, start), start + 250)
            ]
        )
        status = Path('/proc/self/status').read_text(encoding='ascii')
        sizes.append(int(re.search(r'VmRSS:\s+(\d+)', status)[1]))
    assert max(sizes[4:]) < 1.02 * sizes[3]


# --- as ParlAI's agents read ----------------

HEARD = ('you saw the rain', 'we want bread today', 'again')


def test_the_number_of_pretrained_positions_is_in_the_signature(tmp_path):
    path = FAMILIES['long_context'](tmp_path)['model_file']
    signatures = []
    for n_pretrained in (16, 8):
        changed_json(f'{path}.opt', n_positions_init=n_pretrained)
        signatures.append(load_judge(path).signature)
    assert signatures[0] != signatures[1]


@pytest.mark.parametrize('name', ['polyencoder', 'seq2seq_lstm'])
def test_a_model_that_cannot_judge_is_refused_by_its_class(tmp_path, name):
    opt = FAMILIES[name](tmp_path)
    with user_error('^judge .* is no (generator|encoder-decoder)'):
        load_judge(opt['model_file'])


@pytest.mark.parametrize('name', JUDGES)
def test_a_judge_reads_what_its_agent_would_read(tmp_path, name):
    opt = {**FAMILIES[name](tmp_path), 'text_truncate': 6}
    agent = loaded(**opt, no_cuda=True).agent
    reader = AgentVectorizer(agent.clone())
    for text in HEARD:
        seen = agent.observe(Message(text=text, episode_done=False))
    kept, cut = reader.context(HEARD)
    assert kept == seen['text_vec'].tolist()
    # BART and R2C2 put a token at either end; of the six, four are of the context
    read = 4 if name in ('bart', 'r2c2') else 6
    ids = [agent.dict.txt2vec(text) for text in (*HEARD, *['\n'] * (len(HEARD) - 1))]
    assert cut == sum(map(len, ids)) - read
    labelled = Message(text='rain', eval_labels=['i lost it'], episode_done=True)
    label = agent.observe(labelled)['eval_labels_vec']
    assert reader.continuation('i lost it') == tuple(label.tolist())


# --- Hugging Face's ----------------

THREE_TURNS = ('i like tea', 'you saw rain', 'we want bread today')
REPLIES = ('you saw rain again', 'you saw', 'i like the song')


@pytest.fixture(scope='module', params=['t5', 'bart of hf'])
def folder(request, tmp_path_factory):
    return built(request.param, tmp_path_factory.mktemp('model'))


def test_turns_are_lines_and_a_reply_ends(folder):
    judge, tokenizer = load_judge(f'hf:{folder}'), AutoTokenizer.from_pretrained(folder)
    context, *replies = tokenizer(['\n'.join(THREE_TURNS), *REPLIES])['input_ids']
    assert {ids[-1] for ids in replies} == {tokenizer.eos_token_id}
    as_ids = Question(tuple(context), tuple(map(tuple, replies)))
    assert judge.answer([Question(THREE_TURNS, REPLIES)]) == judge.answer([as_ids])


def test_a_long_context_loses_whole_turns_and_a_long_turn_keeps_its_end(folder):
    judge = load_judge(f'hf:{folder},hf_context_tokens=9')
    ids, cut = judge.vectorizer.context(THREE_TURNS)
    # words 3 + 3 + 4 and the end token; without the first turn they are 8
    assert (len(ids), cut) == (8, 3)
    judge = load_judge(f'hf:{folder},hf_context_tokens=4')
    ids, cut = judge.vectorizer.context(THREE_TURNS)
    last = judge.vectorizer.context(('want bread today',))
    assert (ids, cut) == (last[0], 11 - 4)


def test_a_model_whose_numbers_differ_is_refused(folder):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    judge = Seq2Seq(model, load_judge(f'hf:{folder}').vectorizer, '')
    judge.scale *= 2
    with user_error('are off by'):
        check_seq2seq(judge)
