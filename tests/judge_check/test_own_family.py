"""
Systems of the judge's own family of models, by names and configs.
"""

import json
from types import SimpleNamespace

import pytest

from parlai_ext.core.nouns import System
from parlai_ext.judge_check.check_run import own_family
from parlai_ext.systems.model_origin import family_name, model_origin


@pytest.mark.parametrize(
    'name, family',
    [
        ('HuggingFaceTB/SmolLM2-360M-Instruct', 'smollm'),
        ('smollm2-135m-q4', 'smollm'),
        ('meta-llama/Meta-Llama-3-8B', 'llama'),
        ('gpt-4o-2024-08-06', 'gpt'),
        ('microsoft/DialoGPT-medium', 'dialogpt'),
        ('', None),
        (None, None),
    ],
)
def test_the_family_of_a_name(name, family):
    assert family_name(name) == family


def folder_of_type(path, model_type, **config):
    path.mkdir()
    (path / 'config.json').write_text(json.dumps({'model_type': model_type, **config}))
    (path / 'model.safetensors').write_bytes(b'')
    return str(path)


def hf(model):
    return {'model': 'ext:hf', 'hf_model': model}


def remote(model, **opt):
    return {'model': 'ext:remote', 'remote_model': model, **opt}


def judge_of(name, kind='likelihood'):
    models = SimpleNamespace(loaded={(kind, name): None})
    return SimpleNamespace(models=models, datapath=None)


def test_systems_of_the_judges_family_are_named():
    systems = {
        'large': hf('HuggingFaceTB/SmolLM2-1.7B-Instruct'),
        'served': remote('smollm2'),
        'other': hf('Qwen/Qwen2.5-0.5B'),
        'zoo': {'model_file': 'zoo:blender/blender_90M/model'},
    }
    assert set(own_family(judge_of('smollm2-135m-q4'), systems)) == {'large', 'served'}


def test_an_endpoint_is_of_the_family_that_it_calls_itself():
    judge = judge_of('http://127.0.0.1:1/v1,remote_model=qwen2.5-7b', 'chat')
    systems = {
        'same': hf('Qwen/Qwen2.5-0.5B'),
        'dated': remote('default', remote_dated_model='qwen3'),
        'else': remote('gpt-4o'),
    }
    assert set(own_family(judge, systems)) == {'same', 'dated'}


def test_a_folder_without_a_name_is_of_its_architecture(tmp_path):
    judge = judge_of(folder_of_type(tmp_path / 'judge', 'llama'))
    systems = {
        'twin': hf(folder_of_type(tmp_path / 'one', 'llama')),
        'gpt2': hf(folder_of_type(tmp_path / 'two', 'gpt2')),
    }
    assert own_family(judge, systems) == {'twin': 'both are of the type llama'}


def test_a_folder_that_knows_its_name_is_of_that_family(tmp_path):
    path = folder_of_type(tmp_path / 'x', 'llama', _name_or_path='org/Vicuna-7b')
    assert model_origin(System('s', hf(path))).name == 'vicuna'


def test_an_encoder_has_no_family_to_favour():
    assert own_family(judge_of('minilm', 'embedder'), {'s': hf('x/minilm')}) == {}
