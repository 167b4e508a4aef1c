"""
A model that claims to be larger than its files is refused in one line before it costs
much; so is a tokenizer that takes for ever.
"""

import json

import pytest
import torch

from parlai_ext.core.nouns import System
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.safe import cost, reader
from parlai_ext.systems.safe.cost import bounded_cost
from parlai_ext.systems.safe.load import Refused, read_opt
from parlai_ext.systems.safe.unpickle import BadModelFile
from tests.support import family_hf
from tests.support.tiny_models import make_generator, make_ranker, with_options
from tests.support.user_error import user_error

HUGE = 10**9


@pytest.fixture(autouse=True)
def no_more_parts(monkeypatch):
    monkeypatch.setattr(cost, 'MORE_WEIGHTS', 1_000_000)
    monkeypatch.setattr(cost, 'MOST_MODULES', 3_000)


@pytest.fixture
def empty(tmp_path):
    """
    A model file without content.
    """
    (tmp_path / 'model').touch()
    return tmp_path / 'model'


@pytest.mark.parametrize(
    'option, value',
    [
        ('n_layers', HUGE),
        *((name, 10**6) for name in ('embedding_size', 'ffn_size', 'n_positions')),
    ],
)
def test_options_that_claim_a_larger_model_are_refused(option, value, tmp_path):
    path = make_generator(tmp_path)
    with_options(path, **{option: value})
    with user_error('its options ask for more than .* bytes') as e:
        load_system(System('x', {'model_file': path}), no_cuda=True)
    assert path in str(e.value) and "'x'" in str(e.value)


@pytest.mark.parametrize('option', ['n_layers', 'n_encoder_layers'])
def test_so_are_those_of_a_ranker(option, tmp_path):
    path = make_ranker(tmp_path)
    with_options(path, **{option: HUGE})
    with user_error('its options ask for more than '):
        load_system(System('x', {'model_file': path}), no_cuda=True)


@pytest.mark.parametrize(
    'option',
    ['hidden_size', 'num_hidden_layers', 'vocab_size', 'intermediate_size'],
)
def test_so_is_a_config_of_hugging_faces(option, tmp_path):
    opt = family_hf.chat(tmp_path)
    [file] = tmp_path.rglob('config.json')
    config = json.loads(file.read_text())
    assert option in config
    file.write_text(json.dumps({**config, option: HUGE}))
    with user_error('ask for more than .* its files have'):
        load_system(System('x', opt), no_cuda=True)


@pytest.mark.parametrize('option', ['beam_size', 'label_truncate', 'beam_min_length'])
def test_what_a_reply_costs_is_for_the_roster_to_say(option, tmp_path):
    path = make_generator(tmp_path)
    with_options(path, **{option: HUGE})
    with pytest.raises(Refused, match=f'its own {option} is {HUGE}'):
        read_opt(f'{path}.opt')
    assert read_opt(f'{path}.opt', roster_opt={option: HUGE})[option] == HUGE


def test_a_model_of_as_many_weights_as_its_file_holds_is_built(empty):
    n = 100_000
    torch.save({'w': torch.zeros(n, dtype=torch.int8)}, empty)
    with bounded_cost(empty):
        torch.nn.Linear(4 * n, 1)  # 2 bits each
    cost.MORE_WEIGHTS = 0  # the fixture puts it back
    with pytest.raises(BadModelFile), bounded_cost(empty):
        torch.nn.Linear(5 * n, 1)


def test_a_weight_in_the_place_of_another_is_counted_once(empty):
    with bounded_cost(empty):
        layer = torch.nn.Linear(700_000, 1, bias=False)
        for _ in range(3):
            layer.weight = torch.nn.Parameter(layer.weight.data)
    # four layers, each in a place of its own, are too many
    with pytest.raises(BadModelFile), bounded_cost(empty):
        [torch.nn.Linear(700_000, 1, bias=False) for _ in range(4)]


def test_other_threads_and_what_comes_after_are_not_counted(empty):
    with bounded_cost(empty):
        pass
    assert torch.nn.Linear(2_000_000, 1).weight.numel() == 2_000_000


def tokenizer_file(tmp_path, pattern):
    opt = family_hf.plain(tmp_path)
    [file] = tmp_path.rglob('tokenizer.json')
    data = json.loads(file.read_text())
    split = {'type': 'Split', 'behavior': 'Isolated', 'invert': False}
    data['pre_tokenizer'] = {**split, 'pattern': {'Regex': pattern}}
    file.write_text(json.dumps(data))
    return opt, file


def test_a_tokenizer_whose_pattern_fails_is_refused(tmp_path):
    opt, file = tokenizer_file(tmp_path, '(a+)+$')
    with user_error('its patterns fail on a plain text') as e:
        load_system(System('x', opt), no_cuda=True)
    assert str(file) in str(e.value)


def test_a_tokenizer_that_needs_all_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, 'MEMORY', 2**30)
    opt, file = tokenizer_file(tmp_path, 'a')
    data = json.loads(file.read_text())
    longer = {'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'a' * 10**6}
    data['normalizer'] = {'type': 'Sequence', 'normalizers': [longer] * 3}
    file.write_text(json.dumps(data))
    with user_error(r'takes more than 61 seconds or 1\.0 GiB'):
        load_system(System('x', opt), no_cuda=True)


def test_a_damaged_tokenizer_is_left_to_its_reader(tmp_path):
    opt, file = tokenizer_file(tmp_path, 'a')
    file.write_text('{')
    with user_error('the tokenizer in .* cannot be read: '):
        load_system(System('x', opt), no_cuda=True)
