"""
What is wrong with an ``ext:hf`` entry is one line with the option in it; and a model is
data: nothing in it is run.
"""

import json
import pickle
from pathlib import Path

import pytest
import torch

from parlai_ext.core.nouns import System
from parlai_ext.systems import pretrained
from parlai_ext.systems.hf.generate import load_model
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.resolve import resolve
from tests.support.family_hf import OPT, make_model
from tests.support.no_network import refuse_connections
from tests.support.user_error import user_error

pytest_plugins = ['tests.support.family_hf']


def load(model, **opt):
    return load_system(System('seat', {**OPT, 'hf_model': str(model), **opt}))


def refused(model, **opt):
    with user_error() as caught:
        load(model, **opt)
    line = str(caught.value)
    assert line.startswith("system 'seat': ")
    return line.removeprefix("system 'seat': ")


def as_bin(model, content):
    """
    Replace the weights by a `pytorch_model.bin`.
    """
    (model / 'model.safetensors').unlink()
    torch.save(content, model / 'pytorch_model.bin')


class Trap:
    """
    Touches a file when it is unpickled.
    """

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_weights_in_a_pickle_run_nothing(model, tmp_path):
    marker = tmp_path / 'marker'
    as_bin(model, {'lm_head.weight': Trap(marker)})
    line = refused(model)
    assert line.startswith(f'hf_model: {model}/pytorch_model.bin: refused: ')
    assert not marker.exists()
    pickle.loads(pickle.dumps(Trap(marker)))  # the trap does snap
    assert marker.exists()


def test_weights_in_a_pickle_run_nothing_without_a_guard_around(model, tmp_path):
    as_bin(model, {'lm_head.weight': Trap(tmp_path / 'marker')})
    with user_error('^hf_model: .*refused: it wants to run'):
        load_model(ModelOptions(model=str(model), device='cpu'))
    assert not (tmp_path / 'marker').exists()


def test_harmless_weights_in_a_pickle_are_read(model):
    as_bin(model, load(model).agent.model.state_dict())
    assert load(model).n_bytes > 0


def with_code(model, tmp_path):
    """
    Let the config name a class in a file of the model's own, as the hub has it.
    """
    marker = tmp_path / 'marker'
    code = f"open({str(marker)!r}, 'w').close()\nfrom transformers import LlamaConfig\n"
    code += "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
    (model / 'own.py').write_text(code, encoding='utf-8')
    path = model / 'config.json'
    config = json.loads(path.read_text(encoding='utf-8'))
    config |= {'model_type': 'own', 'auto_map': {'AutoConfig': 'own.OwnConfig'}}
    path.write_text(json.dumps(config), encoding='utf-8')
    return marker


def test_code_that_comes_with_a_model_is_not_run(model, tmp_path):
    marker = with_code(model, tmp_path)
    assert 'hf_trust_code: true would run that' in refused(model)
    assert not marker.exists()


@pytest.mark.parametrize('key', ['attn_implementation', 'experts_implementation'])
@pytest.mark.parametrize('kernel', ['a/kernel', 'paged|kernels-community/flash'])
def test_a_kernel_that_a_config_names_is_not_asked_for(key, kernel, model, monkeypatch):
    # transformers fetches and runs it, whatever trust_remote_code says
    asked = []
    monkeypatch.setattr(
        'transformers.modeling_utils.PreTrainedModel._check_and_adjust_attn_implementation',
        lambda *args, **more: asked.append(args) or 'eager',
    )
    path = model / 'config.json'
    config = json.loads(path.read_text(encoding='utf-8'))
    path.write_text(json.dumps({**config, key: kernel}), encoding='utf-8')
    line = refused(model)
    assert f'asks for the kernel {kernel!r}' in line and 'hf_trust_code: true' in line
    assert not asked


def test_code_that_comes_with_a_model_runs_when_that_is_asked(
    model, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        'transformers.dynamic_module_utils.HF_MODULES_CACHE', str(tmp_path / 'cache')
    )
    marker = with_code(model, tmp_path)
    refused(model, hf_trust_code=True)  # no model class goes with that config
    assert marker.exists()


def test_a_repository_that_is_not_in_the_cache(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    line = refused('nobody/nothing')
    assert line.startswith('hf_model: https://huggingface.co/nobody/nothing cannot be')
    assert 'HF_HUB_OFFLINE forbids the network' in line


def test_a_hub_out_of_reach_is_asked_once(tmp_path, monkeypatch):
    from huggingface_hub import constants

    asked = refuse_connections(monkeypatch)
    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', False)
    assert 'the network cannot be reached' in refused('nobody/nothing')
    assert len(asked) == 1


@pytest.mark.parametrize(
    'name, line',
    [
        ('', 'hf_model: not given'),
        ('{folder}/none', 'hf_model: there is no folder {folder}/none'),
        ('./none', 'hf_model: there is no folder ./none'),
        ('{folder}/config.json', 'hf_model: {folder}/config.json is a file'),
        ('no such name', "hf_model: 'no such name' is neither a folder nor a hub"),
    ],
)
def test_a_model_that_can_be_nowhere(name, line, model):
    found = refused(name.format(folder=model))
    assert found.startswith(line.format(folder=model))


def test_a_misspelt_hf_model_is_named():
    seat = System('seat', {'model': 'ext:hf', 'hf_modell': 'x'})
    assert resolve(seat).reason == "hf_modell: unknown; did you mean 'hf_model'?"
    seat = System('seat', {'model': 'ext:hf', 'hf_dtype': 'float32'})
    assert resolve(seat).reason.startswith('hf_model: not given')


def test_a_name_without_an_owner_may_have_meant_a_folder():
    assert refused('nothing').endswith('; there is no folder nothing either')
    assert 'there is no folder' not in refused('nobody/nothing')


def gone(data):
    return None


@pytest.mark.parametrize(
    'files, change, words',
    [
        (
            'model.safetensors',
            lambda data: data[:5000],
            'the model in {} cannot be read',
        ),
        ('model.safetensors', gone, '{} has no weights'),
        ('config.json', gone, 'the config in {} cannot be read'),
        ('tokenizer*', gone, 'tokenizer in {}'),
        (
            'config.json',
            lambda data: b'{"model_type": "nothing"}',
            'the config in {} cannot be read',
        ),
        (
            'config.json',
            lambda data: data.replace(b'"vocab_size": 37', b'"vocab_size": 38'),
            'the model in {} cannot be read',
        ),
        (
            'config.json',
            lambda data: data.replace(b'hidden_layers": 2', b'hidden_layers": 3'),
            '{}: its weights lack 9 of the model, model.layers.2.',
        ),
    ],
)
def test_a_model_that_is_not_whole(files, change, words, model):
    for path in model.glob(files):
        data = change(path.read_bytes())
        path.unlink() if data is None else path.write_bytes(data)
    line = refused(model)
    assert line.startswith('hf_model: ')
    assert words.format(model) in line


@pytest.mark.parametrize(
    'option, opt',
    [
        ('hf_quantisation', {'hf_quantisation': '4bit'}),
        ('hf_device', {'hf_device': 'gpu'}),
        ('hf_device', {'hf_device': 'cuda'}),
        ('hf_dtype', {'hf_dtype': 'int3'}),
        ('inference', {'inference': 'best'}),
        ('beam_size', {'inference': 'beam'}),
        ('topk', {'inference': 'topk', 'topk': 0}),
        ('topp', {'inference': 'nucleus', 'topp': 1.5}),
        ('temperature', {'inference': 'sample', 'temperature': 0.0}),
        ('repetition_penalty', {'repetition_penalty': -1.0}),
        ('beam_min_length', {'beam_min_length': -1}),
        ('reply_max_tokens', {'reply_max_tokens': 256}),
        ('hf_date', {'hf_date': 'today'}),
        ('hf_template_args', {'hf_template_args': 'x'}),
        ('stop', {'stop': ''}),
        ('hf_contxt_tokens', {'hf_contxt_tokens': 3}),
    ],
)
def test_an_option_that_cannot_be_meant(option, opt, chat_folder):
    assert refused(chat_folder, **opt).startswith(f'{option}: ')


def test_a_package_that_is_missing_is_named_with_its_extra(chat_folder, monkeypatch):
    monkeypatch.setattr(pretrained, 'find_spec', lambda name: None)
    line = refused(chat_folder, hf_device_map='auto')
    assert line.startswith('hf_device_map: accelerate is not installed; pip install ')
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 1)
    line = refused(chat_folder, hf_quantisation='8bit', no_cuda=False)
    assert line.startswith('hf_quantisation: bitsandbytes is not installed; pip ')


def test_a_chat_format_needs_a_template(tmp_path):
    path = make_model(tmp_path, 'gpt2')
    assert refused(path, hf_format='chat').startswith('hf_format: chat: the model has')


def test_a_system_prompt_that_fills_the_context(chat_folder):
    player = load(
        chat_folder, hf_context_tokens=6, system_prompt='you like old song again'
    )
    participant = player.join()
    participant.hear('tea', 'other')
    with user_error("^system 'seat': system_prompt: it leaves no"):
        player.respond([participant])
