"""
Malicious model files: each runs code when ParlAI reads it, and none does when guarded.
"""

import copyreg
import json
import pickle
import tarfile
import time

import parlai.utils.pickle
import pytest
import torch
from parlai.core.agents import create_agent
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from parlai_ext.core.errors import SystemFailed
from parlai_ext.systems.safe.load import Refused, guarded, read_opt, trusted_hashes
from tests.support.malicious_pickles import (
    EXTENSION,
    FORMATS,
    GADGETS,
    Call,
    gadget,
    in_zip,
)
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error


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
    deadline = time.monotonic() + 20
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return marker.exists()


def tried(reader, path):
    """
    Return the error of a reader that may raise, also after code has run.
    """
    try:
        reader(path)
    except Exception as error:
        return error


@pytest.fixture(autouse=True)
def no_extension_left():
    yield
    if EXTENSION in copyreg._inverted_registry:
        copyreg.remove_extension('posix', 'system', EXTENSION)
    copyreg._extension_cache.pop(EXTENSION, None)


@pytest.fixture
def marker(tmp_path):
    return tmp_path / 'marker'


@pytest.mark.parametrize('form', FORMATS)
@pytest.mark.parametrize('name', GADGETS)
def test_a_malicious_model_file_runs_unguarded_only(name, form, tmp_path, marker):
    path = tmp_path / 'model'
    path.write_bytes(FORMATS[form](gadget(name, marker)))
    with pytest.raises(Refused) as caught, guarded():
        read(path)
    assert not marker.exists()
    assert GADGETS[name][1] in caught.value.what
    assert f'model file {path}: refused: it wants to run' in str(caught.value)
    tried(read, path)  # the test could fail: the same file, the guard off
    assert appears(marker)


@pytest.mark.parametrize('weights_only', [False, True])
@pytest.mark.parametrize('kind', [tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_tar_changes_no_file_and_hangs_nowhere(kind, weights_only, tmp_path):
    path, victim = tmp_path / 'model', tmp_path / 'diary'
    victim.write_text('mine')
    victim.chmod(0o600)
    member = tarfile.TarInfo('storages')
    member.type, member.linkname, member.mode = kind, str(victim), 0o777
    with tarfile.open(path, 'w:') as tar:
        tar.addfile(member)
    with pytest.raises(Refused, match=f'{path}: refused: it is a tar'), guarded():
        torch.load(path, weights_only=weights_only)
    assert victim.stat().st_mode & 0o777 == 0o600
    if kind == tarfile.LNKTYPE:  # the test could fail: the same file, the guard off
        tried(read, path)
        assert victim.stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize('name', GADGETS)
def test_a_malicious_opt_runs_unguarded_only(name, tmp_path, marker):
    path = tmp_path / 'model.opt'
    path.write_bytes(gadget(name, marker))
    with pytest.raises(Refused) as caught, guarded():
        Opt.load(str(path))
    assert GADGETS[name][1] in caught.value.what
    with pytest.raises(Refused):
        read_opt(path)
    assert not marker.exists()
    tried(Opt.load, str(path))
    assert appears(marker)


def test_a_malicious_file_stops_the_making_of_the_agent(tmp_path, marker):
    model = make_generator(tmp_path)
    (tmp_path / 'tiny').write_bytes(in_zip(gadget('system', marker)))

    def make(path):
        given = {'model_file': path, 'no_cuda': True, 'datatype': 'valid'}
        return create_agent(ParlaiParser(True, True).parse_kwargs(**given))

    with pytest.raises(Refused, match=r'posix\.system'), guarded():
        make(model)
    assert not marker.exists()
    tried(make, model)
    assert appears(marker)


def test_options_that_name_no_agent_are_refused(tmp_path, marker, monkeypatch):
    # ParlAI calls the class with the options, and Popen runs their keys
    monkeypatch.chdir(tmp_path)  # which are file names here
    (tmp_path / 'model').touch()
    opt = {'touch': 1, str(marker): 1, 'model': 'subprocess:Popen'}
    optfile = tmp_path / 'model.opt'
    optfile.write_text(json.dumps(opt))
    given = {'model_file': str(tmp_path / 'model'), 'datapath': str(tmp_path)}
    refused = 'refused: it wants to run the agent subprocess:Popen'
    for match, trusted in (refused, ()), ('is no ParlAI agent', [optfile]):
        with user_error(match), guarded(trusted):
            create_agent(Opt(given))
        assert not marker.exists()
    tried(create_agent, Opt(given))
    assert appears(marker)


def test_parlais_unpickler_itself_is_guarded(tmp_path, marker):
    path = tmp_path / 'model'
    path.write_bytes(gadget('exec', marker))
    with pytest.raises(Refused), guarded(), open(path, 'rb') as file:
        parlai.utils.pickle.load(file)
    assert not marker.exists()


def test_arrays_of_objects_are_read_as_data(tmp_path, marker):
    import numpy as np
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
    with pytest.raises(Refused, match=r'builtins\.exec'), guarded():
        load_sparse_csr(path)
    assert not marker.exists()
    tried(load_sparse_csr, path)
    assert appears(marker)


def test_a_torchscript_program_is_refused(tmp_path):
    path = tmp_path / 'model'

    class Doubled(torch.nn.Module):
        def forward(self, x):
            return x + x

    torch.jit.save(torch.jit.script(Doubled()), str(path))
    with pytest.raises(Refused, match='TorchScript'), guarded():
        read(path)


def test_only_the_trusted_file_runs_code(tmp_path):
    paths, markers = zip(
        *((tmp_path / f'model{i}', tmp_path / f'marker{i}') for i in range(2)),
        strict=True,
    )
    for path, marker in zip(paths, markers, strict=True):
        path.write_bytes(in_zip(gadget('exec', marker)))
    link = tmp_path / 'link'
    link.symlink_to(paths[0])
    with guarded(trusted=[str(link)]):
        tried(read, paths[0])
    assert markers[0].exists()
    with pytest.raises(Refused), guarded(trusted=[str(link)]):
        read(paths[1])
    assert not markers[1].exists()


def test_the_innermost_guard_that_says_so_decides_what_is_trusted(tmp_path, marker):
    path = tmp_path / 'model'
    path.write_bytes(in_zip(gadget('exec', marker)))
    with guarded(trusted=[str(path)]), pytest.raises(Refused), guarded(trusted=()):
        read(path)
    assert not marker.exists()
    with guarded(trusted=[str(path)]), guarded():
        tried(read, path)
    assert marker.exists()


def test_a_trusted_opt_runs_code(tmp_path, marker):
    path = tmp_path / 'model.opt'
    path.write_bytes(gadget('exec', marker))
    with guarded([str(path)]):
        tried(read_opt, path)
    assert marker.exists()


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


def test_a_refusal_that_was_hidden_comes_out(tmp_path, marker):
    path = tmp_path / 'model'
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


def test_a_refusal_survives_a_change_of_process():
    error = Refused('a/model', 'posix.system')
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.path, again.what) == (str(error), error.path, error.what)
