"""
Honest model files, in every form that ParlAI has had, are read as ParlAI reads them.
"""

import argparse
import pickle
import sys
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from types import ModuleType

import numpy as np
import parlai.utils.pickle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parlai.core.agents import create_agent
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.scripts.train_model import TrainModel
from parlai.utils.fp16 import DynamicLossScaler

import parlai_ext
from parlai_ext import compat
from parlai_ext.systems.safe.load import (
    count_parameters,
    guarded,
    read_opt,
    read_states,
)
from tests.support.malicious_pickles import FORMATS, in_legacy, in_zip
from tests.support.tiny_models import SIZES, make_generator, make_ranker, sentences
from tests.support.user_error import user_error

MINI = sorted((Path(parlai_ext.__file__).parent / 'mini' / 'zoo').glob('*/model'))


def read_unguarded(path):
    with open(path, 'rb') as file:
        return torch.load(file, 'cpu', parlai.utils.pickle)


def saved(states, path, **options):
    torch.save(states, path, **options)
    return path


def agent_of(path):
    given = {'model_file': str(path), 'no_cuda': True, 'datatype': 'valid'}
    return create_agent(ParlaiParser(True, True).parse_kwargs(**given))


def same(one, other):
    """
    Tell whether two states are the same, type by type and bit by bit.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize('make', [make_generator, make_ranker])
def test_a_model_has_the_weights_that_it_has_unguarded(make, tmp_path):
    path = make(tmp_path)
    unguarded = agent_of(path).model.state_dict()
    with guarded():
        found = agent_of(path).model.state_dict()
    assert same(found, unguarded)


@pytest.mark.parametrize('path', MINI, ids=lambda path: path.parent.name)
def test_the_mini_zoo_is_read(path):
    assert same(read_states(path), read_unguarded(path))


@pytest.mark.parametrize(
    'scheduler, optimizer',
    [('invsqrt', 'adam'), ('reduceonplateau', 'sgd'), ('cosine', 'adafactor')],
)
def test_a_model_in_training_is_read_with_all_of_its_state(
    scheduler, optimizer, tmp_path
):
    compat.apply()
    lines = (f'text:{s}\tlabels:{s}\tepisode_done:True\n' for s in sentences(4))
    (tmp_path / 'data.txt').write_text(''.join(lines))
    path = str(tmp_path / 'model')
    TrainModel.main(
        **{k: v for k, v in SIZES.items() if k != 'datatype'},
        model='transformer/generator',
        task='fromfile:parlaiformat',
        fromfile_datapath=str(tmp_path / 'data.txt'),
        fromfile_datatype_extension=False,
        model_file=path,
        max_train_steps=3,
        validation_every_n_epochs=1,
        lr_scheduler=scheduler,
        max_lr_steps=10,
        warmup_updates=2,
        optimizer=optimizer,
        verbose=False,
    )
    found = read_states(path)
    assert {'optimizer', 'lr_scheduler', 'warmup_scheduler'} <= set(found)
    assert found['number_training_updates'] >= 3
    assert same(found, read_unguarded(path))
    with guarded():
        assert same(dict(agent_of(path).model.state_dict()), dict(found['model']))


def tied_states():
    weight = torch.randn(3, 4)
    weights = OrderedDict(a=weight, b=weight, c=weight[1:], d=torch.tensor(2.0))
    weights._metadata = OrderedDict({'': {'version': 1}})
    return {'model': weights, 'longest_label': 7}


@pytest.mark.parametrize('new', [True, False])
def test_new_and_old_torch_formats_keep_what_is_shared(new, tmp_path):
    states = tied_states()
    path = saved(states, tmp_path / 'm', _use_new_zipfile_serialization=new)
    found = read_states(path)
    assert same(found, states)
    assert found['model']._metadata == states['model']._metadata
    found['model']['a'][2, 3] = 99
    assert found['model']['b'][2, 3] == found['model']['c'][1, 3] == 99


def every_kind():
    return {
        'model': {f'{d}': torch.ones(2).to(d) for d in (torch.half, torch.int64)},
        'parameter': torch.nn.Parameter(torch.eye(2), requires_grad=False),
        'about torch': [torch.Size([2, 3]), torch.device('cuda:1'), torch.bfloat16],
        'numbers': [np.float64(1.5), np.int32(-2), np.bool_(True), np.float32('inf')],
        'words': [np.str_('né'), np.bytes_(b'\xff')],
        'arrays': [np.arange(6).reshape(2, 3), np.array(['a', 'bc']), np.array(3.0)],
        'order': np.asfortranarray(np.eye(3)[:2]),
        'objects': np.array([{'a': [1]}, None, 'x'], dtype=object),
        'dicts': [Counter('aab'), defaultdict(list, {1: [2]}), OrderedDict(x=1)],
        'plain': [{1, 2}, frozenset('ab'), bytearray(b'x'), b'\x00y', 1 + 2j, slice(3)],
        'args': argparse.Namespace(arch='bart_large', lr=[0.1]),
        'opt': Opt({'model': 'x', 'n': [1, None, 2.5]}),
    }


def test_new_types_and_foreign_byte_orders_are_read(tmp_path):
    states = {'model': {'a': torch.arange(3).to(torch.uint16)}}
    states['swapped'] = np.arange(4, dtype='>i4')
    found = read_states(saved(states, tmp_path / 'm'))
    assert same(found['model'], states['model'])
    assert found['swapped'].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize('protocol', [2, 4])
@pytest.mark.parametrize('new', [True, False])
def test_every_kind_of_data_is_read(protocol, new, tmp_path):
    states = every_kind()
    options = {'pickle_protocol': protocol, '_use_new_zipfile_serialization': new}
    found = read_states(saved(states, tmp_path / 'm', **options))
    assert same(found, read_unguarded(tmp_path / 'm'))
    assert same(found, states)


def test_what_python_2_wrote_is_read(tmp_path):
    path = tmp_path / 'model'
    words = b"c__builtin__\nset\n((lp0\nS'a'\naS'b'\natR"
    path.write_bytes(in_zip(b'(dS"model"\n(dsS"words"\n' + words + b's.'))
    assert read_states(path)['words'] == {'a', 'b'}


@pytest.fixture
def apex(monkeypatch):
    """
    A module called apex, for as long as a file is written.
    """
    names = ('apex', 'apex.fp16_utils', 'apex.fp16_utils.loss_scaler')
    modules = {name: ModuleType(name) for name in names}
    scaler = type('LossScaler', (), {'__module__': names[-1]})
    modules[names[-1]].LossScaler = scaler
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    yield scaler
    monkeypatch.undo()


def test_loss_scalers_are_read(apex, tmp_path):
    theirs, ours = apex(), DynamicLossScaler(init_scale=8.0)
    theirs.cur_scale = 4.0
    path = saved({'model': {}, 'optimizer': [theirs, ours]}, tmp_path / 'm')
    theirs, ours = read_states(path)['optimizer']
    assert type(theirs) is parlai.utils.pickle.FakeAPEXClass
    assert theirs.cur_scale == 4.0
    assert type(ours) is DynamicLossScaler and ours.loss_scale == 8.0


@pytest.mark.parametrize('protocol', [2, 4])
@pytest.mark.parametrize('kind', [dict, Opt])
def test_options_of_2018_are_read(kind, protocol, tmp_path):
    path = tmp_path / 'model.opt'
    opt = kind({'model': 'seq2seq', 'lr': 0.1, 'datapath': '/gone'})
    path.write_bytes(pickle.dumps(opt, protocol))
    unguarded = dict(Opt.load(str(path)))
    assert read_opt(path) == unguarded == {'model': 'seq2seq', 'lr': 0.1}
    with guarded():
        found = Opt.load(str(path))
    assert type(found) is Opt and found == unguarded


@pytest.mark.parametrize('text', ['', '{"model": ', '[1]', 'model: x'])
def test_damaged_options_are_one_line(text, tmp_path):
    path = tmp_path / 'model.opt'
    path.write_text(text)
    with user_error() as caught:
        read_opt(path)
    assert str(caught.value).startswith(f'model file {path}: it ')


@pytest.mark.parametrize('form', FORMATS)
def test_a_damaged_model_is_one_line(form, tmp_path):
    path = tmp_path / 'model'
    path.write_bytes(FORMATS[form](b'\x80\x02}X\x05\x00\x00')[:-3])
    with user_error('cannot be read') as caught:
        read_states(path)
    assert str(path) in str(caught.value)


def test_a_file_without_weights_is_one_line(tmp_path):
    path = saved({'model_dict': {}}, tmp_path / 'm')
    with user_error('holds no weights'):
        read_states(path)


def test_cached_candidates_are_reused(tmp_path):
    path = make_ranker(tmp_path, fixed_candidate_vecs='reuse')
    unguarded = agent_of(path)  # writes them
    assert list(tmp_path.glob('*.vecs'))
    with guarded():
        found = agent_of(path)
    assert torch.equal(found.fixed_candidate_vecs, unguarded.fixed_candidate_vecs)


@pytest.mark.parametrize('new', [True, False])
def test_parameters_are_counted_in_either_format(new, tmp_path):
    states = {'model': {'a': torch.ones(3, 4), 'n': torch.ones(5)}, 'opt': Opt(x=1)}
    states['model']['tied'] = states['model']['a']
    path = saved(states, tmp_path / 'm', _use_new_zipfile_serialization=new)
    assert count_parameters(path) == 3 * 4 + 5


def test_hugging_face_weights_in_a_pickle_are_read(tmp_path):
    from transformers import GPT2Config, GPT2Model

    model = GPT2Model(GPT2Config(vocab_size=9, n_embd=4, n_layer=1, n_head=1))
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / 'pytorch_model.bin')
    with guarded():
        found = GPT2Model.from_pretrained(tmp_path)
    assert same(dict(found.state_dict()), dict(model.state_dict()))


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inside: (
        st.lists(inside)
        | st.dictionaries(st.text(), inside)
        | st.tuples(inside, inside)
        | st.sets(st.integers() | st.text())
    ),
    max_leaves=10,
)


@settings(deadline=None, max_examples=60)
@given(data=DATA, protocol=st.integers(0, 5))
def test_any_plain_data_is_read(data, protocol, tmp_path_factory):
    path = tmp_path_factory.mktemp('data') / 'm'
    pickled = pickle.dumps({'model': {}, 'data': data}, protocol)
    for write in (in_zip, in_legacy):
        path.write_bytes(write(pickled))
        assert same(read_states(path)['data'], data)
