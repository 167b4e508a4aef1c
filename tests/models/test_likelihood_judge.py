"""
A ParlAI generator as judge: it reads what the agent itself would have read.
"""

import math
import shutil

import pytest
import torch
import yaml
from parlai.core.agents import create_agent_from_model_file

from parlai_ext.core.nouns import Question
from parlai_ext.models.parlai_likelihood import (
    AgentVectorizer,
    keep_double_attention,
    load_judge,
)
from tests.support.no_network import refuse_connections
from tests.support.tiny_models import make_generator, sentences
from tests.support.user_error import user_error

TEXTS = tuple(sentences(12, seed=3))
HISTORIES = {
    'plain': {},
    'two spaces': {'delimiter': '  '},
    'a word between': {'delimiter': ' rain '},
    'person tokens': {'person_tokens': True},
    'end token': {'history_add_global_end_token': 'end'},
    'last two': {'history_size': 2},
    'reversed': {'history_reversed': True},
    'split lines': {'split_lines': True},
    'truncated': {'text_truncate': 9},
    'reversed and truncated': {'history_reversed': True, 'text_truncate': 9},
}


def load(model_file):
    return create_agent_from_model_file(
        model_file, {'datatype': 'valid', 'no_cuda': True}
    )


def listened(model_file, context):
    """
    The token ids that a fresh agent holds after it has observed these turns.
    """
    agent = load(model_file)
    for text in context:
        seen = agent.observe({'text': text, 'episode_done': False})
    return seen['text_vec'].tolist(), seen['context_truncated_length']


@pytest.mark.parametrize('name', HISTORIES)
def test_context_is_what_the_agent_would_have_heard(tmp_path, name):
    model_file = make_generator(tmp_path, **HISTORIES[name])
    vectorizer = AgentVectorizer(load(model_file))
    texts = (*TEXTS[:3], f'{TEXTS[3]}\n{TEXTS[4]}', *TEXTS[5:])
    # growing, repeated, another dialogue, back again, shorter
    asked = [texts[:1], texts[:4], texts[:4], texts[5:7], texts, texts[:2]]
    found = [vectorizer.context(context) for context in asked]
    assert found == [listened(model_file, context) for context in asked]


def test_the_last_tokens_are_kept_and_those_cut_are_counted(tmp_path):
    judge = load_judge(make_generator(tmp_path, text_truncate=5), no_cuda=True)
    context = ('i like tea', 'you saw rain today')
    [answer] = judge.answer([Question(context, ())])
    assert answer.num_truncated == 3 + 1 + 4 - 5  # one token for the newline
    kept, _ = judge.vectorizer.context(context)
    words = judge.vectorizer.listener.dict
    assert words.vec2txt(kept) == '__unk__ you saw rain today'


def test_continuation_is_the_agents_label(tmp_path):
    text = 'you saw rain today again'
    model_file = make_generator(tmp_path, label_truncate=4)
    expected = load(model_file).observe(
        {'text': 'i', 'eval_labels': [text], 'episode_done': True}
    )['eval_labels_vec']
    vectorizer = AgentVectorizer(load(model_file))
    vectorizer.context(('i like tea',))
    assert vectorizer.continuation(text) == tuple(expected.tolist())
    # a shorter one ends with the end token
    agent = vectorizer.speaker
    expected = (*agent.dict.txt2vec('you saw rain'), agent.END_IDX)
    assert vectorizer.continuation('you saw rain') == expected


def test_an_empty_context_does_not_depend_on_its_company(tmp_path):
    judge = load_judge(make_generator(tmp_path), no_cuda=True, dtype='float64')
    empty = Question(('',), ('you saw rain',))
    [alone] = judge.answer([empty])
    [_, beside] = judge.answer([Question(TEXTS, ('i',)), empty])
    assert beside.continuations[0] == pytest.approx(alone.continuations[0], abs=1e-12)


def test_attention_of_a_float64_model_is_float64():
    from parlai.agents.transformer.modules.attention import MultiHeadAttention

    keep_double_attention()
    layer = MultiHeadAttention({'n_heads': 1, 'embedding_size': 2}, 1, 2).double()
    for linear in (layer.q_lin, layer.k_lin, layer.v_lin, layer.out_lin):
        torch.nn.init.eye_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
    query = torch.tensor([[[0.3, 0.7]]], dtype=torch.float64)
    keys = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    found, *_ = layer(query, keys, mask=torch.ones(1, 2))
    # the keys (1, 0) and (0, 1) get the softmax of 0.3 and 0.7 over sqrt 2
    second = 1 / (1 + math.exp((0.3 - 0.7) / math.sqrt(2)))
    assert found[0, 0, 1].item() == pytest.approx(second, rel=0, abs=1e-12)


def test_signature_is_of_content_not_of_place(tmp_path):
    make_generator(tmp_path, 'a')
    there = tmp_path / 'there'
    there.mkdir()
    for path in tmp_path.glob('a*'):
        shutil.copy(path, there / path.name.replace('a', 'b', 1))
    (there / 'b.opt').write_text((tmp_path / 'a.opt').read_text())
    one = load_judge(str(tmp_path / 'a'), no_cuda=True).signature
    other = load_judge(str(there / 'b'), no_cuda=True).signature
    assert one == other


@pytest.mark.parametrize(
    'change',
    [{'seed': 1}, {'delimiter': '  '}, {'text_truncate': 9}, {'label_truncate': 4}],
    ids=str,
)
def test_signature_tells_judges_apart(tmp_path, change):
    one = load_judge(make_generator(tmp_path, 'one'), no_cuda=True).signature
    other = load_judge(make_generator(tmp_path, 'other', **change), no_cuda=True)
    assert one != other.signature


def described(tmp_path, **opt):
    opt = {'model_file': make_generator(tmp_path), **opt}
    path = tmp_path / 'judge.yaml'
    path.write_text(yaml.safe_dump({'name': 'judge', 'opt': opt}))
    return str(path)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16', 'float64'])
def test_a_file_may_say_the_precision(tmp_path, dtype):
    judge = load_judge(described(tmp_path, judge_dtype=dtype), no_cuda=True)
    assert {w.dtype for w in judge.model.model.parameters()} == {getattr(torch, dtype)}
    assert f'dtype:{dtype}' in judge.signature


def test_a_file_without_a_precision_is_the_model_itself(tmp_path):
    file = described(tmp_path)
    alone = load_judge(str(tmp_path / 'tiny'), no_cuda=True)
    assert load_judge(file, no_cuda=True).signature == alone.signature


@pytest.mark.parametrize('dtype', ['8bit', '4bit', 'int8', 16])
def test_fewer_bits_are_refused_in_one_line(tmp_path, dtype):
    with user_error('judge_dtype: .* is none of float32'):
        load_judge(described(tmp_path, judge_dtype=dtype), no_cuda=True)


def test_a_model_for_several_gpus_judges_without_any(tmp_path):
    one = load_judge(described(tmp_path, model_parallel=True), no_cuda=True)
    other = load_judge(str(tmp_path / 'tiny'), no_cuda=True)
    asked = [Question(TEXTS[:3], TEXTS[3:6])]
    assert one.answer(asked) == other.answer(asked)


@pytest.mark.parametrize(
    ('name', 'line'),
    [
        ('nowhere/model', 'there is no file .*nowhere/model'),
        ('zoo:blender/blender_9B/model', r'cannot be downloaded: \S+BST9B'),
    ],
)
@pytest.mark.usefixtures('data_in_tmp_path')
def test_a_model_that_cannot_be_had_is_one_line(monkeypatch, name, line):
    refuse_connections(monkeypatch)
    with user_error(line):
        load_judge(name)
