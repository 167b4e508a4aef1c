"""
Hugging Face encoder-decoders as judges: the same numbers as one pass a continuation.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood import encoder_decoder
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.models.likelihood.seq2seq import Seq2Seq, check_seq2seq
from parlai_ext.models.parlai_likelihood import load_judge
from tests.support.family_hf import make_model

TURNS = ('i like tea', 'you saw rain', 'we want bread today')
REPLIES = ('you saw rain again', 'you saw', 'i like the song')
tokens = st.integers(3, 30)
replies = st.lists(st.lists(st.integers(3, 6), max_size=5).map(tuple), max_size=5)
questions = st.builds(
    Question, st.lists(tokens, min_size=1, max_size=9).map(tuple), replies.map(tuple)
)


@pytest.fixture(scope='module', params=['t5', 't5 tied', 'bart'])
def built(request, tmp_path_factory):
    kind, _, tied = request.param.partition(' ')
    folder = tmp_path_factory.mktemp('model')
    return make_model(folder, kind, tie_word_embeddings=bool(tied))


@pytest.fixture(scope='module')
def judge(built):
    return load_judge(f'hf:{built}', dtype='float64', no_cuda=True)


@pytest.fixture(scope='module')
def alone(built):
    """
    Token log-probabilities by the model's own forward pass, without padding.
    """
    model = AutoModelForSeq2SeqLM.from_pretrained(built, dtype=torch.float64).eval()
    start = model.config.decoder_start_token_id

    def one_by_one(context, continuation):
        if not continuation:
            return []
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([context]),
                decoder_input_ids=torch.tensor([[start, *continuation[:-1]]]),
            ).logits[0]
        found = logits.log_softmax(-1)
        return [found[t, y].item() for t, y in enumerate(continuation)]

    return one_by_one


def close(answers, others):
    rows = [row for one in answers for row in one.continuations]
    more = [row for one in others for row in one.continuations]
    return all(
        a == pytest.approx(b, rel=0, abs=1e-12) for a, b in zip(rows, more, strict=True)
    )


@settings(max_examples=15, deadline=None)
@given(asked=st.lists(questions, max_size=4))
def test_every_continuation_equals_its_own_pass(judge, alone, asked):
    for question, answer in zip(asked, judge.answer(asked), strict=True):
        for row, found in zip(
            question.continuations, answer.continuations, strict=True
        ):
            expected = alone(question.context, row)
            assert found == pytest.approx(expected, rel=0, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(asked=st.lists(questions, max_size=4), budget=st.integers(1, 90))
def test_company_order_and_padding_change_nothing(judge, asked, budget):
    engine = EncoderDecoder(judge.model, None, '', Budget(budget))
    single = [judge.answer([question])[0] for question in asked]
    assert close(engine.answer(asked[::-1])[::-1], single)


@settings(max_examples=10, deadline=None)
@given(asked=st.lists(questions, max_size=3), limit=st.integers(1, 8))
def test_several_trees_of_a_context_equal_one(judge, asked, limit):
    one = judge.answer(asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_decoder, 'LARGEST_TREE', limit)
        several = EncoderDecoder(judge.model, None, '').answer(asked)
    assert close(several, one)


def test_turns_are_lines_and_a_reply_ends(judge, alone, built):
    tokenizer = AutoTokenizer.from_pretrained(built)
    context = tokenizer('\n'.join(TURNS))['input_ids']
    [answer] = judge.answer([Question(TURNS, REPLIES)])
    for text, found in zip(REPLIES, answer.continuations, strict=True):
        ids = tokenizer(text)['input_ids']
        assert ids[-1] == tokenizer.eos_token_id
        assert found == pytest.approx(alone(context, ids), rel=0, abs=1e-9)


def test_keys_and_values_are_made_once_a_context(judge):
    made = []
    names = ('EncDecAttention.k', 'encoder_attn.k_proj')
    hooks = [
        module.register_forward_hook(lambda _, given, __: made.append(given[0].shape))
        for name, module in judge.model.model.named_modules()
        if name.endswith(names)
    ]
    judge.answer([Question((5, 6), ((7, 2), (8, 2))), Question((9, 6), ((7, 2),))])
    for hook in hooks:
        hook.remove()
    assert len(hooks) == 2 and [tuple(one[:2]) for one in made] == [(2, 2)] * 2


def test_a_long_context_loses_whole_turns_and_they_are_counted(built):
    judge = load_judge(f'hf:{built},hf_context_tokens=9', no_cuda=True)
    ids, cut = judge.vectorizer.context(TURNS)
    # words 3 + 3 + 4 and the end token; without the first turn they are 8
    assert (len(ids), cut) == (8, 3)


def test_a_long_turn_keeps_its_end(built):
    judge = load_judge(f'hf:{built},hf_context_tokens=4', no_cuda=True)
    ids, cut = judge.vectorizer.context(TURNS)
    assert ids == judge.vectorizer.context(('want bread today',))[0]
    assert cut == 11 - 4


def test_separator_limit_and_precision_are_in_the_signature(built):
    plain = load_judge(f'hf:{built}', no_cuda=True).signature
    changes = ('hf_turn_separator= there ', 'hf_context_tokens=9', 'hf_dtype=bfloat16')
    others = {load_judge(f'hf:{built},{c}', no_cuda=True).signature for c in changes}
    assert len(others | {plain}) == 4


def test_a_model_whose_numbers_differ_is_refused(built):
    model = AutoModelForSeq2SeqLM.from_pretrained(built).eval()
    asked = Seq2Seq(model, (model.config.decoder_start_token_id,))
    asked.scale *= 2
    with pytest.raises(UserError, match='are off by'):
        check_seq2seq(asked)


def test_the_whole_string_has_no_probability(judge):
    [answer] = judge.answer([Question(TURNS, REPLIES)], with_context=True)
    assert answer.context is None
