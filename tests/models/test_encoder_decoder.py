"""
Encoder-decoders as judges: the same numbers as one pass of their library's own model
for each continuation, of what their agents read.
"""

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parlai.agents.image_seq2seq.image_seq2seq import ImageSeq2seqAgent
from parlai.core.message import Message
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    T5ForConditionalGeneration,
)
from transformers.models.t5.modeling_t5 import T5LayerNorm

from parlai_ext.core import Question
from parlai_ext.engines import data_in
from parlai_ext.models import likelihood as likelihood_engine
from parlai_ext.models.hf_likelihood import Seq2Seq, check_seq2seq
from parlai_ext.models.parlai_models import AgentVectorizer
from tests.support.causal_models import assert_one_by_one, flat, some_questions
from tests.support.families import FAMILIES, JUDGES
from tests.support.family_hf import make_model
from tests.support.on_cpu import load_judge
from tests.support.talk import loaded
from tests.support.tiny_models import make_generator, sentences
from tests.support.user_error import user_error
from tests.support.written import changed_json

FOLLOWUPS = tuple(sentences(5, seed=2))
HUGGING_FACE = ('t5', 't5 tied', 'bart of hf')


@pytest.fixture(scope='module')
def model_file(module_folder):
    return make_generator(module_folder, text_truncate=20)


@pytest.fixture(scope='module')
def judge(model_file):
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


def test_a_context_is_encoded_once_and_a_prediction_made_once(judge, monkeypatch):
    encoded, predicted = [], []
    encode, logits = judge.encode, judge.logits

    def note_encoded(xs, keys_values):
        encoded.extend(xs.tolist())
        return encode(xs, keys_values)

    def note_predicted(hidden):
        predicted.extend(hidden)
        return logits(hidden)

    monkeypatch.setattr(judge, 'encode', note_encoded)
    monkeypatch.setattr(judge, 'logits', note_predicted)
    three = Question((9, 9), ((5, 6, 2), (5, 7, 2), (2,)))
    judge.answer([three, Question((8, 8), ((2,),)), Question((9, 9), ((2,),))])
    assert sorted(encoded) == [[8, 8], [9, 9]]
    # what follows the start of either, and after 9 9 what follows 5, 5 6 and 5 7
    assert len(predicted) == 2 + 3


def test_an_encoder_gives_its_input_no_probability(judge):
    [answer] = judge.answer([Question((5, 6), ((7,),))], with_context=True)
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
                Question(tuple(texts[i - 3 : i + 1]), (*FOLLOWUPS, texts[i]))
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

TURNS = ('i like tea', 'you saw rain', 'we want bread today')
REPLIES = ('you saw rain again', 'you saw', 'i like the song')


@pytest.fixture(scope='module', params=['t5', 'bart of hf'])
def folder(request, tmp_path_factory):
    return built(request.param, tmp_path_factory.mktemp('model'))


def test_turns_are_lines_and_a_reply_ends(folder):
    judge, tokenizer = load_judge(f'hf:{folder}'), AutoTokenizer.from_pretrained(folder)
    context, *replies = tokenizer(['\n'.join(TURNS), *REPLIES])['input_ids']
    assert {ids[-1] for ids in replies} == {tokenizer.eos_token_id}
    as_ids = Question(tuple(context), tuple(map(tuple, replies)))
    assert judge.answer([Question(TURNS, REPLIES)]) == judge.answer([as_ids])


def test_a_long_context_loses_whole_turns_and_a_long_turn_keeps_its_end(folder):
    judge = load_judge(f'hf:{folder},hf_context_tokens=9')
    ids, cut = judge.vectorizer.context(TURNS)
    # words 3 + 3 + 4 and the end token; without the first turn they are 8
    assert (len(ids), cut) == (8, 3)
    judge = load_judge(f'hf:{folder},hf_context_tokens=4')
    ids, cut = judge.vectorizer.context(TURNS)
    last = judge.vectorizer.context(('want bread today',))
    assert (ids, cut) == (last[0], 11 - 4)


def test_a_model_whose_numbers_differ_is_refused(folder):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    judge = Seq2Seq(model, load_judge(f'hf:{folder}').vectorizer, '')
    judge.scale *= 2
    with user_error('are off by'):
        check_seq2seq(judge)
