"""
The plain `Likelihood`: the same numbers as one pass for each continuation.
"""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parlai.core.agents import create_agent_from_model_file

from parlai_ext.bridge.judge import load_judge
from parlai_ext.likelihood.encoder_decoder import EncoderDecoder, whole_contexts
from parlai_ext.records import Answer, Question
from tests.tiny_models import make_generator, sentences

TEXTS = sentences(40, seed=1)
CONTEXTS = [tuple(TEXTS[i : i + n]) for i, n in ((0, 1), (1, 5), (6, 2), (8, 9))]
FOLLOWUPS = tuple(sentences(5, seed=2))


@pytest.fixture(scope='module')
def model_file(tmp_path_factory):
    return make_generator(tmp_path_factory.mktemp('model'), text_truncate=20)


@pytest.fixture(scope='module')
def judge(model_file):
    return load_judge(model_file, no_cuda=True, dtype='float64', batchsize=3)


@pytest.fixture(scope='module')
def agent(judge, model_file):
    """
    The same model, loaded by ParlAI alone, in float64.
    """
    opt = {'datatype': 'valid', 'no_cuda': True, 'rank_candidates': True}
    agent = create_agent_from_model_file(model_file, opt)
    agent.model.double().eval()
    return agent


def one_pass(agent, context, continuation):
    """
    Token log-probabilities of one continuation, tokens counted by hand, no padding.
    """
    words = [agent.dict.txt2vec(text) for text in context]
    newline = agent.dict.txt2vec('\n')
    xs = words[0] + sum((newline + w for w in words[1:]), [])
    ys = (agent.dict.txt2vec(continuation) + [agent.END_IDX])[:8]
    with torch.no_grad():
        logits, *_ = agent.model(torch.tensor([xs[-20:]]), ys=torch.tensor([ys]))
    return [torch.log_softmax(logits[0, t], 0)[y].item() for t, y in enumerate(ys)]


def close(found: Answer, expected: Answer, tolerance: float = 1e-12) -> bool:
    return all(
        a == pytest.approx(b, rel=0, abs=tolerance)
        for a, b in zip(found.continuations, expected.continuations, strict=True)
    )


@pytest.mark.parametrize('batchsize', [1, 2, 100])
def test_every_followup_equals_its_own_pass(judge, agent, batchsize):
    own = EncoderDecoder(judge.model, judge.vectorizer, '', batchsize)
    answers = own.answer([Question(context, FOLLOWUPS) for context in CONTEXTS])
    for context, answer in zip(CONTEXTS, answers, strict=True):
        for text, found in zip(FOLLOWUPS, answer.continuations, strict=True):
            expected = one_pass(agent, context, text)
            assert found == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize('context', CONTEXTS)
def test_parlai_ranks_candidates_by_the_same_mean(judge, agent, context):
    agent.reset()
    for text in context[:-1]:
        agent.observe({'text': text, 'episode_done': False})
    asked = {'text': context[-1], 'label_candidates': list(FOLLOWUPS)}
    batch = agent.batchify([agent.observe({**asked, 'episode_done': False})])
    with torch.no_grad():
        [order], [losses] = agent.rank_eval_label_candidates(batch, 1)
    parlai = dict(zip(order, losses, strict=True))
    [answer] = judge.answer([Question(context, FOLLOWUPS)])
    ours = {
        text: -math.fsum(row) / len(row)
        for text, row in zip(FOLLOWUPS, answer.continuations, strict=True)
    }
    assert ours == pytest.approx(parlai, rel=0, abs=1e-9)


ids = st.integers(4, 30)
questions = st.builds(
    Question,
    context=st.lists(ids, min_size=1, max_size=12).map(tuple),
    continuations=st.lists(st.lists(ids, max_size=5).map(tuple), max_size=3).map(tuple),
)


@settings(max_examples=30, deadline=None)
@given(asked=st.lists(questions, max_size=4), batchsize=st.integers(1, 5))
def test_company_and_padding_change_nothing(judge, asked, batchsize):
    together = EncoderDecoder(judge.model, None, '', batchsize).answer(asked)
    alone = [judge.answer([question])[0] for question in asked]
    assert len(together) == len(asked)
    assert all(map(close, together, alone))


@settings(max_examples=20, deadline=None)
@given(asked=st.lists(questions, min_size=2, max_size=4), seed=st.randoms())
def test_answers_keep_the_order_of_questions(judge, asked, seed):
    places = list(range(len(asked)))
    seed.shuffle(places)
    shuffled = judge.answer([asked[i] for i in places])
    plain = judge.answer(asked)
    assert all(close(shuffled[k], plain[i]) for k, i in enumerate(places))


def test_duplicates_get_the_same_answer(judge):
    question = Question(CONTEXTS[1], (FOLLOWUPS[0], FOLLOWUPS[1], FOLLOWUPS[0]))
    first, second = judge.answer([question, question])
    assert close(first, second)
    assert first.continuations[0] == pytest.approx(first.continuations[2], abs=1e-12)


def test_nothing_asked_nothing_answered(judge):
    assert judge.answer([]) == []


def test_context_without_continuations(judge):
    asked = [Question((5, 6), ()), Question((7,), ((8, 9),))]
    none, some = judge.answer(asked)
    assert none.continuations == ()
    assert close(some, judge.answer(asked[1:])[0])


def test_an_encoder_gives_its_input_no_probability(judge):
    [answer] = judge.answer([Question((5, 6), ((7,),))], with_context=True)
    assert answer.context is None


def test_probabilities_of_all_next_tokens_sum_to_one(judge):
    tokens = range(len(judge.vectorizer.listener.dict))
    asked = [(t,) for t in tokens if t != judge.model.START_IDX]
    [answer] = judge.answer([Question((5, 6, 7), tuple(asked))])
    assert math.fsum(math.exp(row[0]) for row in answer.continuations) == pytest.approx(
        1, abs=1e-9
    )


def uniform_model(dtype, size=3):
    """
    A model that finds all ``size`` tokens equally likely, and counts what it encodes.
    """
    encoded = []

    def encoder(xs):
        encoded.extend(xs.tolist())
        return xs

    return SimpleNamespace(
        NULL_IDX=0,
        encoded=encoded,
        encoder=encoder,
        eval=lambda: None,
        parameters=lambda: iter([torch.zeros(1, dtype=dtype)]),
        reorder_encoder_states=lambda states, rows: states.index_select(0, rows),
        decode_forced=lambda _, ys: (torch.zeros(*ys.shape, size, dtype=dtype), ys),
    )


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_logits_are_normalised_in_float32(dtype):
    # log(1/3) = -1.0986123; the nearest half-precision number is -1.0986328
    judge = EncoderDecoder(uniform_model(dtype), None, '')
    [answer] = judge.answer([Question((1,), ((2,),))])
    assert answer.continuations[0][0] == pytest.approx(-math.log(3), rel=0, abs=1e-6)


def test_double_precision_stays():
    judge = EncoderDecoder(uniform_model(torch.float64), None, '')
    [answer] = judge.answer([Question((1,), ((2,),))])
    assert answer.continuations[0][0] == pytest.approx(-math.log(3), rel=0, abs=1e-15)


def test_each_context_is_encoded_once():
    model = uniform_model(torch.float32)
    judge = EncoderDecoder(model, None, '', batchsize=2)
    judge.answer([Question((i, i), ((1,), (2,), (1, 2))) for i in (1, 2, 3)])
    assert model.encoded == [[1, 1], [2, 2], [3, 3]]


def test_runs_never_part_a_context():
    rows = [(0, 'a'), (0, 'b'), (1, 'c'), (2, 'd'), (2, 'e'), (2, 'f'), (2, 'g')]
    found = [[text for _, text in run] for run in whole_contexts(rows, 3)]
    assert found == [['a', 'b', 'c'], ['d', 'e', 'f', 'g']]
