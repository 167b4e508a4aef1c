"""
Hugging Face encoder-decoders as judges: how they read turns, and what is refused.
"""

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.seq2seq import Seq2Seq, check_seq2seq
from parlai_ext.models.parlai_likelihood import load_judge
from tests.models.test_likelihood_encoder_decoder import (
    HUGGING_FACE,
    built,
    own_pass,
)
from tests.support.user_error import user_error

TURNS = ('i like tea', 'you saw rain', 'we want bread today')
REPLIES = ('you saw rain again', 'you saw', 'i like the song')


@pytest.fixture(scope='module', params=HUGGING_FACE)
def folder(request, tmp_path_factory):
    return built(request.param, tmp_path_factory.mktemp('model'))


@pytest.fixture(scope='module')
def judge(folder):
    return load_judge(f'hf:{folder}', dtype='float64', no_cuda=True)


def test_turns_are_lines_and_a_reply_ends(judge, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    context = tokenizer('\n'.join(TURNS))['input_ids']
    alone = own_pass(judge.model.model)
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


def test_a_long_context_loses_whole_turns_and_they_are_counted(folder):
    judge = load_judge(f'hf:{folder},hf_context_tokens=9', no_cuda=True)
    ids, cut = judge.vectorizer.context(TURNS)
    # words 3 + 3 + 4 and the end token; without the first turn they are 8
    assert (len(ids), cut) == (8, 3)


def test_a_long_turn_keeps_its_end(folder):
    judge = load_judge(f'hf:{folder},hf_context_tokens=4', no_cuda=True)
    ids, cut = judge.vectorizer.context(TURNS)
    assert ids == judge.vectorizer.context(('want bread today',))[0]
    assert cut == 11 - 4


def test_separator_limit_and_precision_are_in_the_signature(folder):
    plain = load_judge(f'hf:{folder}', no_cuda=True).signature
    changes = ('hf_turn_separator= there ', 'hf_context_tokens=9', 'hf_dtype=bfloat16')
    others = {load_judge(f'hf:{folder},{c}', no_cuda=True).signature for c in changes}
    assert len(others | {plain}) == 4


def test_a_model_whose_numbers_differ_is_refused(folder):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    asked = Seq2Seq(model, (model.config.decoder_start_token_id,))
    asked.scale *= 2
    with user_error('are off by'):
        check_seq2seq(asked)
