"""
The plain `Likelihood`: the same numbers as one pass for each continuation.
"""

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parlai.agents.image_seq2seq.image_seq2seq import ImageSeq2seqAgent

from parlai_ext.core.machine import data_in
from parlai_ext.core.nouns import Answer, Question, System
from parlai_ext.core.watch import Watch
from parlai_ext.models.likelihood import encoder_decoder
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.models.parlai_likelihood import load_judge
from parlai_ext.systems.parlai_agents import load_system
from tests.support.causal_models import assert_one_by_one
from tests.support.families import FAMILIES, JUDGES
from tests.support.family_hf import make_model
from tests.support.tiny_models import make_generator, sentences

TEXTS = sentences(40, seed=1)
CONTEXTS = [tuple(TEXTS[i : i + n]) for i, n in ((0, 1), (1, 5), (6, 2), (8, 9))]
FOLLOWUPS = tuple(sentences(5, seed=2))
HUGGING_FACE = ('t5', 't5 tied', 'bart of hf')


@pytest.fixture(scope='module')
def model_file(tmp_path_factory):
    return make_generator(tmp_path_factory.mktemp('model'), text_truncate=20)


@pytest.fixture(scope='module')
def judge(model_file):
    return load_judge(model_file, no_cuda=True, dtype='float64', tokens=100)


@pytest.fixture(scope='module', params=[*JUDGES, *HUGGING_FACE])
def pair(request, tmp_path_factory):
    """
    The judge of one model class, and a forward pass of its library's own in float64.
    """
    folder = tmp_path_factory.mktemp('model')
    if request.param in HUGGING_FACE:
        judge = load_judge(
            f'hf:{built(request.param, folder)}', dtype='float64', no_cuda=True
        )
        return judge, own_pass(judge.model.model)
    opt = FAMILIES[request.param](folder)
    with data_in(opt.get('datapath')):
        judge = load_judge(opt['model_file'], dtype='float64', no_cuda=True)
    agent = load_system(System('stock', opt), no_cuda=True).agent
    agent.model.double().eval()
    image = (None,) if isinstance(agent, ImageSeq2seqAgent) else ()

    def one_by_one(context, continuation):
        if not continuation:
            return []
        with torch.no_grad():
            xs, ys = torch.tensor([context]), torch.tensor([continuation])
            logits = agent.model(xs, *image, ys=ys)[0][0]
        return picked(logits, continuation)

    return judge, one_by_one


def picked(logits, continuation):
    logprobs = torch.log_softmax(logits, dim=1)
    return [logprobs[t, y].item() for t, y in enumerate(continuation)]


def own_pass(model):
    """
    Return token log-probabilities by a Hugging Face model's own forward pass.
    """
    start = model.config.decoder_start_token_id

    def one_by_one(context, continuation):
        if not continuation:
            return []
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([context]),
                decoder_input_ids=torch.tensor([[start, *continuation[:-1]]]),
            ).logits[0]
        return picked(logits, continuation)

    return one_by_one


def built(kind, folder):
    name, _, more = kind.partition(' ')
    return make_model(folder, name, tie_word_embeddings=more == 'tied')


def engine(judge, tokens=10_000):
    """
    Another engine over the judge's model, with its own budget.
    """
    return EncoderDecoder(judge.model, judge.vectorizer, '', Budget(tokens))


def close(found: Answer, expected: Answer, tolerance: float = 1e-12) -> bool:
    return all(
        a == pytest.approx(b, rel=0, abs=tolerance)
        for a, b in zip(found.continuations, expected.continuations, strict=True)
    )


ids = st.integers(4, 30)
tokens_of_context = st.lists(ids, min_size=1, max_size=12).map(tuple)
# few different tokens, so that continuations begin alike
replies = st.lists(st.lists(st.integers(4, 7), max_size=5).map(tuple), max_size=6)
questions = st.builds(
    Question, context=tokens_of_context, continuations=replies.map(tuple)
)
some_questions = st.lists(questions, max_size=5)


@settings(max_examples=12, deadline=None)
@given(asked=some_questions)
def test_each_class_equals_a_loop_one_by_one(pair, asked):
    judge, one_by_one = pair
    assert_one_by_one(asked, judge.answer(asked), one_by_one)


@settings(max_examples=12, deadline=None)
@given(asked=some_questions, limit=st.integers(1, 8))
def test_several_trees_of_a_context_equal_one(pair, asked, limit):
    judge, _ = pair
    one = judge.answer(asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_decoder, 'LARGEST_TREE', limit)
        several = engine(judge).answer(asked)
    assert all(map(close, several, one))


@settings(max_examples=20, deadline=None)
@given(asked=some_questions, rows=st.integers(1, 9))
def test_logits_by_the_slice_equal_logits_at_once(judge, asked, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_decoder, 'LOGITS', rows * judge.model.vocabulary)
        slices = engine(judge).answer(asked)
    assert all(map(close, slices, engine(judge).answer(asked)))


@settings(max_examples=12, deadline=None)
@given(asked=some_questions, tokens=st.integers(1, 200))
def test_company_order_and_padding_change_nothing(pair, asked, tokens):
    judge, _ = pair
    together = engine(judge, tokens).answer((asked * 2)[::-1])[::-1]
    alone = [judge.answer([question])[0] for question in asked]
    assert len(together) == 2 * len(asked)
    assert all(map(close, together, alone * 2))


def test_nothing_asked_nothing_answered(judge):
    assert judge.answer([]) == []


def test_a_context_without_continuations_has_an_empty_answer(judge):
    asked = [Question((5, 6), ()), Question((7,), ((8, 9),))]
    none, some = judge.answer(asked)
    assert none.continuations == ()
    assert close(some, judge.answer(asked[1:])[0])


def test_an_encoder_gives_its_input_no_probability(pair):
    judge, _ = pair
    [answer] = judge.answer([Question((5, 6), ((7,),))], with_context=True)
    assert answer.context is None


@pytest.mark.parametrize('dtype', ['float64', 'float32', 'bfloat16', 'float16'])
def test_probabilities_of_all_next_tokens_sum_to_one(model_file, dtype):
    judge = load_judge(model_file, no_cuda=True, dtype=dtype)
    agent = judge.vectorizer.listener
    asked = [(t,) for t in range(len(agent.dict)) if t != agent.START_IDX]
    [answer] = judge.answer([Question((5, 6, 7), tuple(asked))])
    total = math.fsum(math.exp(row[0]) for row in answer.continuations)
    # a softmax rounded to 8 or 11 bits would be off by some 1e-3
    assert total == pytest.approx(1, abs=1e-9 if dtype == 'float64' else 2e-6)


def test_keys_and_values_are_made_once_a_context(judge, monkeypatch):
    monkeypatch.setattr(encoder_decoder, 'LARGEST_TREE', 6)  # several trees
    model = judge.model.model
    made = []
    hooks = [
        layer.encoder_attention.k_lin.register_forward_hook(
            lambda _, given, __: made.append(given[0].shape)
        )
        for layer in model.decoder.layers
    ]
    engine(judge).answer([Question(context, FOLLOWUPS) for context in [(5, 6), (7, 8)]])
    for hook in hooks:
        hook.remove()
    assert [tuple(one[:2]) for one in made] == [(2, 2)] * len(hooks)


def test_progress_counts_every_context_once(judge):
    seen = []
    counting = engine(judge, 60)
    counting.watch = Watch(lambda n, of: seen.append(n))
    counting.answer([Question(c, FOLLOWUPS) for c in (*CONTEXTS, CONTEXTS[0])])
    assert sum(seen) == len(CONTEXTS)


def resident():
    with open('/proc/self/status', encoding='ascii') as f:
        return int(re.search(r'VmRSS:\s+(\d+)', f.read())[1])


@pytest.mark.slow
def test_memory_does_not_grow_over_10_000_utterances(model_file):
    # fewer tokens than a call has, so that none ends with freed memory kept
    judge = load_judge(model_file, no_cuda=True, tokens=2048)
    texts = sentences(10_000, seed=9)
    sizes = []
    for start in range(0, 10_000, 250):
        judge.answer(
            [
                Question(tuple(texts[i - 3 : i + 1]), (*FOLLOWUPS, texts[i]))
                for i in range(max(3, start), start + 250)
            ]
        )
        sizes.append(resident())
    assert max(sizes[4:]) < 1.02 * sizes[3]
