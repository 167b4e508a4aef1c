"""
Model files of others. Malicious ones run code when ParlAI reads them, none does when
guarded; honest ones, in every form that ParlAI has had, are read as ParlAI reads them.
"""

import argparse
import copyreg
import errno
import functools
import io
import os
import pickle
import resource
import signal
import struct
import tarfile
import threading
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import parlai.utils.pickle
import pytest
import torch
from parlai.core.agents import create_agent
from parlai.core.opt import Opt
from parlai.core.tod import tod_agents
from parlai.scripts.train_model import TrainModel
from parlai.utils.fp16 import DynamicLossScaler
from tokenizers import Tokenizer, models

from parlai_ext import compat
from parlai_ext.core import System, SystemFailed
from parlai_ext.engines import Machine
from parlai_ext.files.zip_file import MOST_MEMBERS
from parlai_ext.isolation import fork_server
from parlai_ext.isolation.policy import trusted_hashes
from parlai_ext.models.handle import ModelHandle
from parlai_ext.systems.parlai_agents import load_on
from parlai_ext.systems.safe import load, read, unpickle
from parlai_ext.systems.safe.load import (
    Refused,
    bounded_cost,
    convert_states,
    count_parameters,
    guarded,
    read_opt,
    read_states,
)
from parlai_ext.systems.safe.read import disk_errors, read_in_child, write_states
from parlai_ext.systems.safe.unpickle import BadModelFile, SafeUnpickler
from tests.support import family_hf
from tests.support.forked import said_in_child
from tests.support.malicious_pickles import (
    EXTENSION,
    FORMATS,
    GADGETS,
    Call,
    gadget,
    in_zip,
    text,
)
from tests.support.reader_work import crash, facts, sleep
from tests.support.talk import loaded, write_pairs
from tests.support.tiny_models import (
    SIZES,
    make_generator,
    make_ranker,
    stock_agent,
    with_options,
)
from tests.support.trusted import trusted
from tests.support.user_error import user_error
from tests.support.waiting import comes_true
from tests.support.written import changed_json, safetensors_of, tar_of, written, zip_of


def read_as_parlai(path):
    """
    Read a model file (core/torch_agent.py:2083).
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
    """
    An honest model file of a few numbers.
    """
    torch.save({'model': {'w': torch.arange(5.0)}}, tmp_path / 'model')
    return tmp_path / 'model'


@pytest.mark.parametrize('form', FORMATS)
@pytest.mark.parametrize('name', GADGETS)
def test_a_malicious_model_file_runs_unguarded_only(name, form, path, marker):
    path.write_bytes(FORMATS[form](gadget(name, marker)))
    refusal = refused(read_as_parlai, path, marker)
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
        tried(read_as_parlai, path)
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
        read_as_parlai(path)


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
        tried(read_as_parlai, path)
    with pytest.raises(Refused), guarded():
        raise RuntimeError('it did not load') from tried(read_as_parlai, path)
    with pytest.raises(Refused), guarded():
        tried(read_as_parlai, path)
        raise SystemFailed('x', 'it cannot be built')
    with pytest.raises(SystemFailed, match=r"system 'x': .*builtins\.exec"), guarded():
        raise SystemFailed('x', str(tried(read_as_parlai, path)))  # which says it all


def test_in_a_process_of_its_own_nothing_is_read_otherwise(path, marker, monkeypatch):
    path.write_bytes(in_zip(gadget('exec', marker)))
    with guarded():
        pass
    monkeypatch.setattr(load, 'is_confined', lambda: True)
    caught = []
    thread = threading.Thread(
        target=lambda: caught.append(pytest.raises(Refused, read_as_parlai, path))
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
    assert same(found, read_as_parlai(path))
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


# ---- A model file, or what its options claim, may not cost more than an honest one:
# it is refused in one line before it takes all memory, overruns the interpreter's
# stack, or waits for ever.


@pytest.mark.parametrize(
    'data, problem',
    [
        (safetensors_of(b'{"w":' + b'[' * 10**5), 'recursion limit'),
        (safetensors_of(b'{"w":}'), 'column 6'),
        (safetensors_of(b'{"w": "\xff"}'), 'invalid UTF-8'),
        (safetensors_of(b'{}', size=1000), 'header length'),
    ],
)
def test_a_damaged_header_of_safetensors_is_said_to_be_that(path, data, problem):
    path.write_bytes(data)
    with user_error(f'{path}.*header.*{problem}'):
        read_states(path)


@pytest.mark.parametrize('new', [True, False])
def test_one_number_is_not_a_tensor_of_terabytes(new, path):
    weights = {'w': torch.zeros(1).expand(10**12)}
    torch.save({'model': weights}, path, _use_new_zipfile_serialization=new)
    assert path.stat().st_size < 10_000
    with user_error('a tensor of more numbers than are stored'):
        read_states(path)


def test_weights_that_unpack_to_more_than_their_file_are_refused(path):
    torch.save({'model': {'w': torch.zeros(100_000)}}, path)
    with zipfile.ZipFile(path) as zipped:
        members = [(name, zipped.read(name)) for name in zipped.namelist()]
    path.write_bytes(zip_of(members, zipfile.ZIP_DEFLATED))
    with pytest.raises(Refused, match=r'its \d,\d+ bytes unpack to 40\d,\d+'):
        read_states(path)


def test_arrays_may_be_compressed_but_not_a_hundredfold(tmp_path):
    path = tmp_path / 'arrays.npz'
    np.savez_compressed(path, a=np.arange(10_000), o=np.array([None], object))
    with guarded():
        assert np.load(path, allow_pickle=True)['a'].sum() == 9_999 * 5_000
    np.savez_compressed(path, a=np.zeros(10**6), o=np.array([None], object))
    with pytest.raises(Refused, match='unpack to'), guarded():
        np.load(path, allow_pickle=True)


@pytest.mark.parametrize('ending', ['dict', 'opt', 'candidates'])
def test_a_pipe_beside_a_model_is_not_waited_for(ending, tmp_path):
    path = make_generator(tmp_path)
    Path(f'{path}.{ending}').unlink(missing_ok=True)
    os.mkfifo(f'{path}.{ending}')
    with user_error(f'{ending} is a pipe or a device'):
        loaded('x', model_file=path, no_cuda=True)


def test_a_pipe_that_options_name_is_not_waited_for(path):
    lines = path.with_name('lines')
    os.mkfifo(lines)
    path.write_bytes(pickle.dumps({'fixed_candidates_path': str(lines)}))
    with pytest.raises(Refused, match='its own fixed_candidates_path is .*/lines'):
        read_opt(path)


def test_lists_that_hold_each_other_twice_are_counted_as_json_writes_them(path):
    lists = ['tea']
    for _ in range(10):
        lists = [lists, lists]
    path.write_bytes(pickle.dumps({'x': lists}))
    assert read_opt(path)['x'][0][1]  # 2 ** 10 words
    for _ in range(30):
        lists = [lists, lists]
    path.write_bytes(pickle.dumps({'x': lists}))
    with user_error('more than 1,000,000 values'):
        read_opt(path)


TUPLE = b')' + b'2\x86' * 60  # each has the one before it twice


def test_what_nobody_can_hash_ends_its_reader(path, monkeypatch):
    monkeypatch.setattr(read, 'SECONDS', 1)
    path.write_bytes(b'\x80\x04}' + TUPLE + b'K\x01s.')
    assert path.stat().st_size < 3_000
    with user_error(f'model_file: {path}: .*takes more than 1 seconds'):
        read_opt(path)


def test_lists_in_one_another_beside_weights_are_refused(path):
    doubled = b']' + b''.join(b'q%c0](h%ch%ce' % (i, i, i) for i in range(60))
    code = b'}(' + text('model') + b'}' + text('more') + doubled + b'u.'
    path.write_bytes(in_zip(b'\x80\x04' + code))
    with user_error('it holds more than 1,000,000 values'):
        convert_states(path, path.with_name('new'))


def test_a_zip_of_many_members_is_refused(path):
    member = b'PK\x01\x02' + bytes(42)
    n = MOST_MEMBERS + 1
    end = struct.pack('<4s4H2LH', b'PK\x05\x06', 0, 0, 1, 1, n * len(member), 4, 0)
    path.write_bytes(b'PK\x03\x04' + n * member + end)
    with user_error('more than 100,000 members'):
        read_states(path)


HUGE = 10**9


@pytest.fixture(autouse=True)
def no_more_parts(monkeypatch):
    monkeypatch.setattr(load, 'MORE_WEIGHTS', 1_000_000)
    monkeypatch.setattr(load, 'MOST_MODULES', 3_000)


@pytest.mark.parametrize('option, value', [('n_layers', HUGE), ('n_positions', 10**6)])
def test_options_that_claim_a_larger_model_are_refused(option, value, tmp_path):
    path = make_generator(tmp_path)
    with_options(path, **{option: value})
    with user_error(f"'x'.*{path}.*its options ask for more than .* bytes"):
        loaded('x', model_file=path, no_cuda=True)


@pytest.mark.parametrize(
    'option',
    ['num_hidden_layers', 'vocab_size'],
)
def test_so_is_a_config_of_hugging_faces(option, tmp_path):
    opt = family_hf.chat(tmp_path)
    [file] = tmp_path.rglob('config.json')
    assert f'"{option}": ' in file.read_text()
    changed_json(file, **{option: HUGE})
    with user_error('ask for more than .* its files have'):
        loaded(**opt)


@pytest.mark.parametrize('option', ['beam_size', 'label_truncate', 'beam_min_length'])
def test_what_a_reply_costs_is_for_the_roster_to_say(option, tmp_path):
    path = make_generator(tmp_path)
    with_options(path, **{option: HUGE})
    with pytest.raises(Refused, match=f'its own {option} is {HUGE}'):
        read_opt(f'{path}.opt')
    assert read_opt(f'{path}.opt', roster_opt={option: HUGE})[option] == HUGE


def test_a_model_of_as_many_weights_as_its_file_holds_is_built(path):
    n = 100_000
    torch.save({'w': torch.zeros(n, dtype=torch.int8)}, path)
    with bounded_cost(path):
        torch.nn.Linear(4 * n, 1)  # 2 bits each
    load.MORE_WEIGHTS = 0  # the fixture puts it back
    with pytest.raises(BadModelFile), bounded_cost(path):
        torch.nn.Linear(5 * n, 1)
    torch.nn.Linear(5 * n, 1)  # what comes after is not counted


def test_a_weight_in_the_place_of_another_is_counted_once(path):
    with bounded_cost(path):
        layer = torch.nn.Linear(700_000, 1, bias=False)
        for _ in range(3):
            layer.weight = torch.nn.Parameter(layer.weight.data)
    # four layers, each in a place of its own, are too many
    with pytest.raises(BadModelFile), bounded_cost(path):
        [torch.nn.Linear(700_000, 1, bias=False) for _ in range(4)]


# ---- Files of others are read in another process, which has limits and may crash.
# This process opens no pickle.


@pytest.mark.parametrize('work, seconds', [(sleep, 0), (crash, 60)])
def test_a_reader_that_hangs_or_crashes_is_one_line(work, seconds, path, monkeypatch):
    monkeypatch.setattr(read, 'SECONDS', seconds)
    line = f'it crashes the reader, or reading it takes more than {seconds} s'
    with user_error(f'{path}.*{line}'):
        read_in_child(work, path)


def test_a_pickle_that_takes_all_memory_is_one_line(path, monkeypatch):
    monkeypatch.setattr(read, 'MEMORY', 2**20)
    # two million lists of 56 bytes and more
    path.write_bytes(in_zip(b'\x80\x04](' + b']' * 2_000_000 + b'e.'))
    with user_error('or reading it takes more than|cannot be read: .* memory'):
        convert_states(path, path.with_name('new'))


def test_the_reader_has_no_keys_and_has_limits(path):
    environment, (seconds, size, core) = read_in_child(facts, path)
    # of what pytest has set before any reader was started
    assert 'PYTEST_VERSION' in os.environ and 'PYTEST_VERSION' not in environment
    assert 'PATH' in environment
    assert (seconds, core) == (read.SECONDS, 0)
    assert size == read.MEMORY + read.COPIES * path.stat().st_size


def test_no_pickle_is_opened_in_this_process(tmp_path, monkeypatch):
    model = make_generator(tmp_path)
    optfile = tmp_path / 'old.opt'
    optfile.write_bytes(pickle.dumps({'model': 'seq2seq'}))
    monkeypatch.setattr(unpickle.SafeUnpickler, '__init__', None)
    monkeypatch.setattr(unpickle.SafeUnpickler, 'load', None)
    assert count_parameters(model) > 0
    assert load_on(Machine(no_cuda=True), System('x', {'model_file': model}))
    assert ModelHandle(Machine(no_cuda=True)).likelihood(model)
    assert convert_states(model, tmp_path / 'new')
    assert read_opt(optfile) == {'model': 'seq2seq'}


def test_a_server_that_was_killed_is_replaced(monkeypatch):
    # one of its own, which imports no torch
    started = functools.cache(fork_server._server.__wrapped__)
    monkeypatch.setattr(fork_server, '_server', started)
    task = fork_server.ForkedTask('fractions:Fraction', {}, 2**30)
    for _ in range(2):
        with user_error('ended with exit code 1'):  # a socket is no fraction
            fork_server.ForkedWorker(task).ask(1, None)
        started()[1].kill()
        started()[1].wait()


def test_forks_share_the_server(path):
    assert said_in_child(lambda: read_in_child(facts, path)[1][2]) == '0'


def test_tensors_in_memory_are_read(path):
    # torch reads its own tensors so, when they come from another process
    tensor = torch.arange(3)
    with guarded():
        assert torch.equal(pickle.loads(pickle.dumps(tensor)), tensor)
        with open(path, 'rb') as file:
            tensors = torch.load(io.BytesIO(file.read()), weights_only=True)
    assert torch.equal(tensors['model']['w'], torch.arange(5.0))


def test_weights_go_where_the_caller_says(path):
    torch.save({'w': torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    on_gpu = path.read_bytes().replace(b'\x03\0\0\0cpu', b'\x06\0\0\0cuda:0')
    path.write_bytes(on_gpu)
    with guarded():
        for place in ('cpu', lambda storage, place: storage, None):
            assert torch.load(path, place)['w'].sum() == 2
        assert torch.load(path, 'meta')['w'].device.type == 'meta'


# ---- Errors of the disk where Rust writes are the `OSError` that they are.

MOST = 4096  # bytes of a file


@pytest.fixture
def small_files():
    """
    Let no file of this process grow beyond some bytes.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def write_tokenizer(path):
    with disk_errors(path):
        Tokenizer(models.WordLevel({'x' * MOST: 0}, unk_token='x')).save(str(path))


def write_model(path):
    write_states({'model': {'a': torch.zeros(MOST)}}, path)


@pytest.mark.parametrize('write', [write_tokenizer, write_model])
def test_a_disk_that_takes_no_more_is_an_os_error(tmp_path, small_files, write):
    path = tmp_path / 'file'
    with pytest.raises(OSError) as raised:
        write(path)
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(ValueError, match='no such thing'), disk_errors(tmp_path):
        raise ValueError('no such thing')
