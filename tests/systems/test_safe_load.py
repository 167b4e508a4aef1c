"""
Malicious model files: each runs code when ParlAI reads it, and none does when guarded;
honest ones, in every form that ParlAI has had, are read as ParlAI reads them.
"""

import argparse
import copyreg
import pickle
import tarfile
import threading
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import parlai.utils.pickle
import pytest
import torch
from parlai.core.agents import create_agent
from parlai.core.opt import Opt
from parlai.core.tod import tod_agents
from parlai.scripts.train_model import TrainModel
from parlai.utils.fp16 import DynamicLossScaler

from parlai_ext import compat
from parlai_ext.core import SystemFailed
from parlai_ext.isolation.policy import trusted_hashes
from parlai_ext.systems.safe import load
from parlai_ext.systems.safe.load import Refused, guarded, read_opt, read_states
from parlai_ext.systems.safe.unpickle import SafeUnpickler
from tests.support.malicious_pickles import (
    EXTENSION,
    FORMATS,
    GADGETS,
    Call,
    gadget,
    in_zip,
    text,
)
from tests.support.talk import write_pairs
from tests.support.tiny_models import (
    SIZES,
    make_generator,
    make_ranker,
    stock_agent,
)
from tests.support.trusted import trusted
from tests.support.user_error import user_error
from tests.support.waiting import comes_true
from tests.support.written import tar_of, written


def read(path):
    """
    Read a model file as ParlAI does (core/torch_agent.py:2083).
    """
    with open(path, 'rb') as file:
        return torch.load(
            file, map_location=lambda cpu, _: cpu, pickle_module=parlai.utils.pickle
        )


def appears(marker):
    """
    True if a marker is made, perhaps a little later by another process.
    """
    return comes_true(marker.exists, 20)


def tried(reader, path):
    """
    Return the error of a reader that may raise, also after code has run.
    """
    try:
        reader(path)
    except Exception as error:
        return error


def refused(reader, path, marker):
    """
    Return the refusal of a file whose code runs when the guard is off, and only then.
    """
    with pytest.raises(Refused) as caught, guarded():
        reader(path)
    assert not marker.exists()
    tried(reader, path)  # the test could fail: the same file, the guard off
    assert appears(marker)
    return caught.value


@pytest.fixture(autouse=True)
def no_extension_left():
    yield
    if EXTENSION in copyreg._inverted_registry:
        copyreg.remove_extension('posix', 'system', EXTENSION)
    copyreg._extension_cache.pop(EXTENSION, None)


@pytest.fixture
def marker(tmp_path):
    return tmp_path / 'marker'


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'model'


@pytest.mark.parametrize('form', FORMATS)
@pytest.mark.parametrize('name', GADGETS)
def test_a_malicious_model_file_runs_unguarded_only(name, form, path, marker):
    path.write_bytes(FORMATS[form](gadget(name, marker)))
    refusal = refused(read, path, marker)
    assert GADGETS[name][1] in refusal.why
    assert f'model_file: {path}: refused: it wants to run' in str(refusal)


@pytest.mark.parametrize('weights_only', [False, True])
@pytest.mark.parametrize('kind', [tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_tar_changes_no_file_and_hangs_nowhere(kind, weights_only, path):
    victim = written(path.parent, 'diary', 'mine')
    victim.chmod(0o600)
    path.write_bytes(tar_of(kind, victim))
    with pytest.raises(Refused, match=f'{path}: refused: it is a tar'), guarded():
        torch.load(path, weights_only=weights_only)
    assert victim.stat().st_mode & 0o777 == 0o600
    if kind == tarfile.LNKTYPE:  # the test could fail: the same file, the guard off
        tried(read, path)
        assert victim.stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize('name', ['python 2', 'OBJ', 'mere import', 'nested pickle'])
def test_a_malicious_opt_runs_unguarded_only(name, path, marker):
    path.write_bytes(gadget(name, marker))
    with pytest.raises(Refused):
        read_opt(path)
    assert GADGETS[name][1] in refused(Opt.load, str(path), marker).why


def test_a_malicious_file_stops_the_making_of_the_agent(tmp_path, marker):
    model = make_generator(tmp_path)
    (tmp_path / 'tiny').write_bytes(in_zip(gadget('system', marker)))
    assert 'posix.system' in refused(agent_of, model, marker).why


def test_options_that_name_no_agent_are_refused(tmp_path, marker, monkeypatch):
    # ParlAI calls the class with the options, and Popen runs their keys
    monkeypatch.chdir(tmp_path)  # which are file names here
    (tmp_path / 'model').touch()
    opt = {'touch': 1, str(marker): 1, 'model': 'subprocess:Popen'}
    optfile = written(tmp_path, 'model.opt', opt)
    given = {'model_file': str(tmp_path / 'model'), 'datapath': str(tmp_path)}
    refused = 'refused: it wants to run the agent subprocess:Popen'
    for match, files in (refused, ()), ('is no ParlAI agent', [optfile]):
        with user_error(match), trusted(*files), guarded():
            create_agent(Opt(given))
        assert not marker.exists()
    tried(create_agent, Opt(given))
    assert appears(marker)


def test_arrays_of_objects_are_read_as_data(tmp_path, marker):
    from parlai.agents.tfidf_retriever.utils import load_sparse_csr, save_sparse_csr
    from scipy.sparse import csr_matrix

    path = str(tmp_path / 'index')
    words = csr_matrix(np.eye(3))
    save_sparse_csr(path, words, {'ngram': 2, 'freqs': np.arange(3)})
    with guarded():
        matrix, metadata = load_sparse_csr(path)
    assert (matrix != words).nnz == 0
    assert metadata['ngram'] == 2 and metadata['freqs'].tolist() == [0, 1, 2]
    save_sparse_csr(path, words, Call(exec, f'open({str(marker)!r}, "w")'))
    assert 'builtins.exec' in refused(load_sparse_csr, path, marker).why


def test_a_torchscript_program_is_refused(path):

    class Doubled(torch.nn.Module):
        def forward(self, x):
            return x + x

    torch.jit.save(torch.jit.script(Doubled()), str(path))
    with pytest.raises(Refused, match='TorchScript'), guarded():
        read(path)


def test_trusted_files_are_recorded_by_their_hash(tmp_path):
    files = [tmp_path / folder / 'model' for folder in 'ab']
    for file in files:
        file.parent.mkdir()
        file.write_bytes(b'abc')
    # the SHA-256 of 'abc', from FIPS 180-2
    digest = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    assert trusted_hashes([str(files[0])]) == {'model': digest}
    assert trusted_hashes([str(file) for file in files]) == {
        'a/model': digest,
        'b/model': digest,
    }
    with user_error('there is no file'):
        trusted_hashes([str(tmp_path / 'c')])


def test_a_refusal_that_was_hidden_comes_out(path, marker):
    path.write_bytes(in_zip(gadget('exec', marker)))
    with pytest.raises(Refused), guarded():
        tried(read, path)
    with pytest.raises(Refused), guarded():
        raise RuntimeError('it did not load') from tried(read, path)
    with pytest.raises(Refused), guarded():
        tried(read, path)
        raise SystemFailed('x', 'it cannot be built')
    with pytest.raises(SystemFailed, match=r"system 'x': .*builtins\.exec"), guarded():
        raise SystemFailed('x', str(tried(read, path)))  # which says it all


def test_in_a_process_of_its_own_nothing_is_read_otherwise(path, marker, monkeypatch):
    path.write_bytes(in_zip(gadget('exec', marker)))
    with guarded():
        pass
    monkeypatch.setattr(load, 'is_confined', lambda: True)
    caught = []
    thread = threading.Thread(
        target=lambda: caught.append(pytest.raises(Refused, read, path))
    )
    thread.start()
    thread.join()
    assert len(caught) == 1 and not marker.exists()


def test_pickles_that_are_not_parlais_are_left_alone(path):
    path.write_bytes(pickle.dumps(threading.Thread))
    with guarded(), open(path, 'rb') as file:
        assert pickle.load(file) is threading.Thread


def test_pickles_that_parlai_reads_are_guarded(tmp_path):
    path = tmp_path / 'api.pickle'
    path.write_bytes(pickle.dumps(threading.Thread))
    agent = tod_agents.StandaloneApiAgent
    opt = {'standalone_api_file': str(path), 'exact_api_call': True, 'datatype': 'x'}
    with pytest.raises(Refused, match=r'threading\.Thread'), guarded():
        agent(opt)


DOTTED = b'\x80\x04\x8c\x0bcollections\x8c'


@pytest.mark.parametrize(
    'pickled, what',
    [
        # a way into a class that is allowed
        (DOTTED + b'\x14OrderedDict.__init__\x93.', 'collections.OrderedDict.__init__'),
        (DOTTED + b'\x0babc.Mapping\x93.', 'collections.abc.Mapping'),
        # neighbours of what is allowed
        (b'cbuiltins\ngetattr\n.', 'builtins.getattr'),
        (b'cbuiltins\ntype\n.', 'builtins.type'),
        (b'cargparse\nArgumentParser\n.', 'argparse.ArgumentParser'),
        (b'ctorch\nload\n.', 'torch.load'),
        (b'cparlai.core.agents\ncreate_agent\n.', 'parlai.core.agents.create_agent'),
        (b'capex.amp\nscaler.os\n.', 'apex.amp.scaler.os'),
        # a class or a function is changed
        (b'ccollections\nOrderedDict\n}X\x01\x00\x00\x00aK\x01sb.', 'OrderedDict'),
        (b'ccollections\nOrderedDict\nK\x01a.', 'a change to collections.OrderedDict'),
        (b'ccollections\nOrderedDict\nK\x01K\x01s.', 'a change to collections.Ord'),
        (b'ctorch\nUntypedStorage\nK\x01K\x01s.', 'a change to type'),
        # a class called as the method `append` of an object that has it as attribute
        (
            b'cargparse\nNamespace\n)\x81}X\x06\x00\x00\x00appendctorch\n'
            b'UntypedStorage\nsbK\x08a.',
            'a change to Namespace',
        ),
        (
            b'c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb.',
            'a change to _codecs.encode',
        ),
        (b'ctorch\nUntypedStorage\n}b.', 'a change to type'),
        # a call of what is no function
        (b'K\x01)R.', 'no type of data (int)'),
        (b'ctorch\nUntypedStorage\n)R.', 'no type of data (type)'),
        (b'ccollections\nOrderedDict\n]R.', 'collections.OrderedDict'),
        (b'\x80\x04ccollections\nOrderedDict\n)}K\x01K\x01s\x92.', 'named arguments'),
        # ids of something else than tensors
        (b'K\x01Q.', 'persistent id'),
        (b'P1\n.', 'persistent id'),
    ],
)
def test_what_the_unpickler_refuses(pickled, what, path):
    path.write_bytes(pickled)
    with open(path, 'rb') as file, pytest.raises(Refused) as caught:
        SafeUnpickler(file).load()
    assert what in caught.value.why


@pytest.mark.parametrize(
    'pid',
    [
        ('module', OrderedDict, 'source.py', 'class OrderedDict: pass'),
        ('storage', 'FloatStorage', '0', 'cpu', 1),
        ('storage',),
        ['storage'],
        'x',
    ],
)
def test_a_persistent_id_is_a_tensors_or_refused(pid, path):
    path.write_bytes(in_zip(pickle.dumps(pid, 2)[:-1] + b'Q.'))
    with pytest.raises(Refused, match='persistent id'), guarded():
        torch.load(path)


@pytest.mark.parametrize(
    'code, words',
    [
        # numbers that hide objects, or memory that is too short
        (b'cnumpy\ndtype\n(X\x02\x00\x00\x00V8I00\nI01\ntR', 'of type V8'),
        (b'cnumpy\ndtype\n(](X\x01\x00\x00\x00aX\x01\x00\x00\x00OetR', ''),
        # an encoding is a module that Python imports
        (b'c_codecs\nencode\n(X\x01\x00\x00\x00aX\x04\x00\x00\x00thistR', "'this'"),
        # an object's methods
        (b'cargparse\nNamespace\n)\x81}X\x08\x00\x00\x00__dict__}sb', '__dict__'),
        (b'ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsK\x01sb', 'items'),
        (b'cbuiltins\nset\n(cargparse\nNamespace\n)\x81tR', 'not plain'),
    ],
)
def test_what_cannot_be_read_is_one_line(code, words, path):
    path.write_bytes(in_zip(code + b'.'))
    line = f'^model_file: {path}: it cannot be read: .*{words}[^\n]*$'
    with pytest.raises(Exception, match=line), guarded():
        torch.load(path)


def read_back(states, path, **options):
    torch.save(states, path, **options)
    return read_states(path)


def agent_of(path):
    return stock_agent(model_file=str(path))


def same(one, other):
    """
    Tell whether two states are the same, type by type and bit by bit.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor | np.ndarray):
        is_alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        return is_alike and bool((one == other).all())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize(
    'scheduler, optimizer',
    [
        ('reduceonplateau', 'sgd'),
        pytest.param('invsqrt', 'adam', marks=pytest.mark.slow),
        pytest.param('cosine', 'adafactor', marks=pytest.mark.slow),
    ],
)
def test_a_model_in_training_is_read_with_all_of_its_state(
    scheduler, optimizer, tmp_path, registered
):
    compat.apply()
    path = str(tmp_path / 'model')
    TrainModel.main(
        **SIZES,
        model='transformer/generator',
        task='ext:toxic_prompts',
        toxic_data=str(write_pairs(tmp_path / 'pairs.csv', 'you like tea')),
        model_file=path,
        max_train_steps=3,
        validation_every_n_epochs=1,
        lr_scheduler=scheduler,
        max_lr_steps=10,
        warmup_updates=2,
        skip_generation=True,
        validation_metric='ppl',
        optimizer=optimizer,
    )
    found = read_states(path)
    assert {'optimizer', 'lr_scheduler', 'warmup_scheduler'} <= set(found)
    assert found['number_training_updates'] >= 3
    assert same(found, read(path))
    with guarded():
        assert same(dict(agent_of(path).model.state_dict()), dict(found['model']))


@pytest.mark.parametrize('new', [True, False])
def test_new_and_old_torch_formats_keep_what_is_shared(new, path):
    weight = torch.randn(3, 4)
    weights = OrderedDict(a=weight, b=weight, c=weight[1:], d=torch.tensor(2.0))
    weights._metadata = OrderedDict({'': {'version': 1}})
    states = {'model': weights, 'longest_label': 7}
    found = read_back(states, path, _use_new_zipfile_serialization=new)
    assert same(found, states)
    assert found['model']._metadata == weights._metadata
    found['model']['a'][2, 3] = 99
    assert found['model']['b'][2, 3] == found['model']['c'][1, 3] == 99


def test_new_types_and_foreign_byte_orders_are_read(path):
    new, swapped = torch.arange(3).to(torch.uint16), np.arange(3, dtype='>i4')
    found = read_back({'model': {}, 'new': new, 'swapped': swapped}, path)
    assert same(found['new'], new)
    assert found['swapped'].tolist() == [0, 1, 2]


@pytest.mark.parametrize('protocol', [2, 4, 5])
@pytest.mark.parametrize('new', [True, False])
def test_every_kind_of_data_is_read(protocol, new, path):
    states = {
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
    options = {'pickle_protocol': protocol, '_use_new_zipfile_serialization': new}
    found = read_back(states, path, **options)
    assert same(found, states)
    found['arrays'][0][0] = 7  # it may be written to


def test_what_python_2_wrote_is_read(path):
    words = b"c__builtin__\nset\n((lp0\nS'a'\naS'b'\natR"
    path.write_bytes(in_zip(b'(dS"model"\n(dsS"words"\n' + words + b's.'))
    assert read_states(path)['words'] == {'a', 'b'}


def test_loss_scalers_are_read(path):
    states = {'model': {}, 'optimizer': DynamicLossScaler(init_scale=8.0)}
    ours = read_back(states, path)['optimizer']
    assert type(ours) is DynamicLossScaler and ours.loss_scale == 8.0
    # as apex wrote it, which is not installed
    scaler = b'capex.fp16_utils.loss_scaler\nLossScaler\n)\x81}' + text('cur_scale')
    code = b'(' + text('model') + b'}' + text('optimizer') + scaler + b'K\x04sbd.'
    path.write_bytes(in_zip(code))
    theirs = read_states(path)['optimizer']
    assert type(theirs) is parlai.utils.pickle.FakeAPEXClass
    assert theirs.cur_scale == 4


@pytest.mark.parametrize('protocol', [2, 4])
@pytest.mark.parametrize('kind', [dict, Opt])
def test_options_of_2018_are_read(kind, protocol, tmp_path):
    opt = kind({'model': 'seq2seq', 'lr': 0.1, 'datapath': '/gone'})
    path = written(tmp_path, 'model.opt', pickle.dumps(opt, protocol))
    unguarded = dict(Opt.load(str(path)))
    assert read_opt(path) == unguarded == {'model': 'seq2seq', 'lr': 0.1}
    with guarded():
        found = Opt.load(str(path))
    assert type(found) is Opt and found == unguarded


@pytest.mark.parametrize('text', ['', '{"model": ', '[1]', 'model: x'])
def test_damaged_options_are_one_line(text, path):
    path.write_text(text)
    with user_error(f'^model_file: {path}: it '):
        read_opt(path)


@pytest.mark.parametrize('form', FORMATS)
def test_a_damaged_model_is_one_line(form, path):
    path.write_bytes(FORMATS[form](b'\x80\x02}X\x05\x00\x00')[:-3])
    with user_error(f'{path}.* cannot be read'):
        read_states(path)


def test_cached_candidates_are_reused(tmp_path):
    path = make_ranker(tmp_path, fixed_candidate_vecs='reuse')
    unguarded = agent_of(path)  # writes them
    assert list(tmp_path.glob('*.vecs'))
    with guarded():
        found = agent_of(path)
    assert torch.equal(found.fixed_candidate_vecs, unguarded.fixed_candidate_vecs)
