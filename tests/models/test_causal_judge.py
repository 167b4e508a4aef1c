"""
Causal models of Hugging Face's as judges: named, loaded; reading as their agents do.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from parlai_ext.core.nouns import Question, System
from parlai_ext.models.hf_likelihood import TurnFormat, TurnVectorizer
from parlai_ext.models.judge_names import is_hugging_face, judge_system
from parlai_ext.models.likelihood.causal import Causal
from parlai_ext.models.parlai_likelihood import load_judge
from parlai_ext.systems.parlai_agents import load_system
from tests.support.causal_models import one_by_one
from tests.support.families import FAMILIES
from tests.support.family_hf import make_model
from tests.support.tiny_models import sentences
from tests.support.user_error import user_error

TEXTS = sentences(40, seed=4)
CONTEXT = tuple(TEXTS[:3])
FOLLOWUPS = tuple(TEXTS[30:34])


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp('hf'), 'gpt2')


def judge_of(folder):
    return load_judge(f'hf:{folder}', no_cuda=True)


@pytest.fixture(scope='module')
def dialogpt(tmp_path_factory):
    return FAMILIES['dialogpt'](tmp_path_factory.mktemp('dialogpt'))


@pytest.mark.parametrize('kind', ['gpt2', 'llama', 'mistral', 'qwen2'])
def test_texts_equal_passes_over_turns_closed_by_the_end_token(tmp_path, kind):
    folder = make_model(tmp_path, kind)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    end = (tokenizer.eos_token_id,)

    def ids(text):
        return (*tokenizer.encode(text, add_special_tokens=False), *end)

    judge = load_judge(f'hf:{folder}', no_cuda=True, dtype='float64')
    [answer] = judge.answer([Question(CONTEXT, FOLLOWUPS)])
    context = sum((ids(text) for text in CONTEXT), ())
    for text, found in zip(FOLLOWUPS, answer.continuations, strict=True):
        expected = one_by_one(model, context, ids(text))
        assert found == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize(
    'form', ['hf:{}', '{}', 'agent:ext:hf,hf_model={}', 'hf:{},hf_format=plain', 'yaml']
)
def test_a_judge_may_be_named_in_each_way(folder, tmp_path, form):
    name = form.format(folder)
    if form == 'yaml':
        name = str(tmp_path / 'judge.yaml')
        Path(name).write_text(
            f'name: mine\nopt: {{model: "ext:hf", hf_model: "{folder}"}}\n',
            encoding='utf-8',
        )
    found = load_judge(name, no_cuda=True)
    assert isinstance(found, Causal)
    assert found.signature == judge_of(folder).signature


@pytest.mark.parametrize(
    ('name', 'opt'),
    [
        ('hf:a/b@v1', {'model': 'ext:hf', 'hf_model': 'a/b', 'hf_revision': 'v1'}),
        (
            'hf:a/b,hf_dtype=bfloat16,hf_context_tokens=99',
            {'model': 'ext:hf', 'hf_model': 'a/b', 'hf_dtype': 'bfloat16'}
            | {'hf_context_tokens': 99},
        ),
        (
            'agent:hugging_face/dialogpt,gpt2_size=large',
            {'model': 'hugging_face/dialogpt', 'gpt2_size': 'large'},
        ),
        ('zoo:mini/judge/model', {'model_file': 'zoo:mini/judge/model'}),
        ('/a,b/model', {'model_file': '/a,b/model'}),
    ],
)
def test_a_judges_name_means_these_options(name, opt):
    assert judge_system(name).opt == opt


def test_model_files_are_left_to_parlai():
    assert not is_hugging_face(judge_system('zoo:blender/blender_9B/model'))
    assert not is_hugging_face(System('x', {'model': 'transformer/generator'}))
    assert is_hugging_face(judge_system('agent:hugging_face/dialogpt'))


def test_dialogpt_reads_what_its_agent_reads(dialogpt):
    spec = f'agent:hugging_face/dialogpt,model_name={dialogpt["model_name"]}'
    judge = load_judge(f'{spec},text_truncate=96', no_cuda=True)
    agent = load_system(System('stock', dialogpt), no_cuda=True).agent.clone()
    for n, text in enumerate(TEXTS[:20]):
        seen = agent.observe({'text': text, 'episode_done': False})
        ids, cut = judge.vectorizer.context(tuple(TEXTS[: n + 1]))
        assert ids == seen['text_vec'].tolist()
        assert cut == seen['context_original_length'] - len(ids)
    assert cut > 0


def test_dialogpt_is_cut_as_its_agent_says_unless_told_otherwise(dialogpt):
    spec = f'agent:hugging_face/dialogpt,model_name={dialogpt["model_name"]}'
    # 768 of ParlAI, but the tiny model has 128 positions, a quarter of them kept free
    whole = load_judge(spec, no_cuda=True).vectorizer
    assert whole.format == TurnFormat(None, False, 96)
    short = load_judge(f'{spec},text_truncate=50', no_cuda=True)
    assert short.vectorizer.format.limit == 50
    # an end token that is typed ends nothing
    end = whole.tokenizer
    ids = whole.continuation(f'tea {end.eos_token} rain')
    assert ids.count(end.eos_token_id) == 1


def reader(folder, **form):
    return TurnVectorizer(AutoTokenizer.from_pretrained(folder), TurnFormat(**form))


def test_long_contexts_are_cut_at_their_beginning(folder):
    turns = tuple(TEXTS[:6])
    everything = reader(folder)
    ids, _ = everything.context(turns)
    sizes = [len(everything.continuation(text)) for text in turns]
    kept = sum(sizes[3:])
    limit = kept + sizes[2] - 1
    cut_turns = reader(folder, limit=limit).context(turns)
    assert cut_turns == (ids[-kept:], len(ids) - kept)
    cut_tokens = reader(folder, limit=9, whole_turns=False).context(turns)
    assert cut_tokens == (ids[-9:], len(ids) - 9)
    # of one turn that is too long the end is kept
    ids, _ = everything.context((' '.join(TEXTS),))
    found = reader(folder, limit=9).context((' '.join(TEXTS),))
    assert found == (ids[-9:], len(ids) - 9)


def test_a_turn_of_its_own_separator(folder):
    with_separator = reader(folder, separator=' tea')
    tokenizer = with_separator.tokenizer
    expected = tokenizer.encode('rain tea', add_special_tokens=False)
    assert with_separator.continuation('rain') == tuple(expected)
    assert with_separator.context(('rain', 'rain'))[0] == expected * 2


def test_long_contexts_are_counted(folder):
    judge = load_judge(f'hf:{folder},hf_context_tokens=10', no_cuda=True)
    everything, _ = reader(folder).context(tuple(TEXTS[:6]))
    [answer] = judge.answer([Question(tuple(TEXTS[:6]), FOLLOWUPS)])
    kept, cut = judge.vectorizer.context(tuple(TEXTS[:6]))
    assert answer.num_truncated == cut == len(everything) - len(kept) > 0


def test_the_signature_is_of_weights_and_options_and_not_of_the_folder(
    folder, tmp_path
):
    moved = shutil.copytree(folder, tmp_path / 'elsewhere')
    other = make_model(tmp_path / 'other', 'gpt2', seed=7)
    one = judge_of(folder).signature
    assert judge_of(moved).signature == one
    changes = ('hf_context_tokens=40', 'hf_dtype=float64', 'hf_turn_separator=tea')
    specs = [other, *(f'{folder},{change}' for change in changes)]
    assert len({one, *(judge_of(spec).signature for spec in specs)}) == 5


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16', 'float64'])
def test_weights_have_the_asked_precision(folder, dtype):
    judge = load_judge(f'hf:{folder},hf_dtype={dtype}', no_cuda=True)
    assert judge.model.dtype == getattr(torch, dtype)
    assert f'dtype:{dtype}' in judge.signature


@pytest.mark.parametrize(
    ('options', 'line'),
    [
        ('hf_dtype=int4', "hf_dtype: 'int4'"),
        ('hf_quantisation=3bit', "hf_quantisation: '3bit'"),
        ('hf_quantisation=4bit', 'hf_quantisation: 4bit needs a GPU'),
        ('hf_format=chat', 'hf_format: chat: a judge reads turns'),
        ('hf_format=x', "hf_format: 'x' is none of auto, plain"),
        ('hf_dtyp=float32', 'hf_dtyp: there is no such option; .*hf_dtype'),
        ('hf_trust_code=true', 'hf_trust_code: a judge that brings code'),
    ],
)
def test_a_wrong_option_is_one_line(folder, options, line):
    with user_error(line) as e:
        load_judge(f'hf:{folder},{options}', no_cuda=True)
    assert str(e.value).startswith(f'judge {folder}: ')


@pytest.mark.parametrize('kind', ['gpt2', 't5'])
def test_a_kernel_of_the_hub_is_not_run(tmp_path, kind):
    judge = make_model(tmp_path / kind, kind)
    path = Path(judge, 'config.json')
    config = json.loads(path.read_text(encoding='utf-8'))
    config['attn_implementation'] = 'a/kernel'
    path.write_text(json.dumps(config), encoding='utf-8')
    line = "asks for the kernel 'a/kernel', code from the hub, which no judge may run"
    with user_error(line):
        load_judge(f'hf:{judge}', no_cuda=True)


@pytest.mark.parametrize(
    ('name', 'line'),
    [
        ('hf:a/b,x', '^judge hf:a/b,x: key=value is expected'),
        ('hf:/no/such/folder', 'there is no folder'),
        ('agent:hugging_face/gpt2,model_name=x', 'ext:hf would do'),
        *((start + 'x' * 5000, '') for start in ('', 'zoo:', 'hf:')),  # no file's name
    ],
    ids=['option', 'folder', 'gpt2 of parlai', 'long', 'long zoo', 'long hf'],
)
def test_a_judge_that_cannot_be_had_is_one_line(name, line):
    with user_error(line):
        load_judge(name, no_cuda=True)
