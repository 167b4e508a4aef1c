"""
check_roster --download fetches what it can, and says of the rest why not; the tokenizer
of BART and R2C2 among it.
"""

import re
import shutil

import pytest
from parlai.core import build_data
from parlai.utils.bpe import Gpt2BpeHelper

from parlai_ext.commands.command import run_directly
from parlai_ext.core import System
from parlai_ext.systems import hub
from parlai_ext.systems.downloads import download_systems
from parlai_ext.systems.fetch.checked_downloads import (
    Entry,
    LockFile,
    checked_downloads,
)
from parlai_ext.systems.identity import resolve
from parlai_ext.systems.parlai_agents import load_system
from tests.support import families
from tests.support.download_server import seen, sha256, tar_of
from tests.support.store_samples import files_under
from tests.support.user_error import user_error
from tests.support.written import written

pytestmark = pytest.mark.usefixtures('data')

pytest_plugins = ['tests.support.download_server']


AGENT = 'repeat_query'


LOCK = 'models/parlai_ext.lock.json'


@pytest.fixture
def models(server, add_model):
    """
    Put a good and a forbidden model into the zoo.
    """
    server.files['/a/good.tgz'] = tar_of({'model': b'weights'})
    add_model('good', ['good.tgz'])
    add_model('bad', ['bad.tgz'])


def system(name, model, **opt):
    path = f'zoo:fake/{model}/model'
    return System(name, {'model_file': path, 'model': AGENT, **opt})


def test_what_failed_is_not_asked_for_again(models, server):
    results = download_systems([system('A', 'bad'), system('B', 'bad')])
    assert len(server.asked) == 1
    assert [f.reason.partition(': ')[2] for f in results][0] in results[1].reason


def test_a_silent_server_is_asked_once(models, addresses_asked):
    results = download_systems([system('A', 'bad'), system('B', 'good')])
    assert len(addresses_asked) == 1
    assert all('cannot be reached' in f.reason for f in results)


@pytest.mark.parametrize(
    'option, value',
    [
        ('model_file', '/none/x'),
        ('dict_file', '/none/x'),
        ('model_file', 'zoo:no/x'),
        ('dict_file', 'zoo:fake/bad/model'),
    ],
)
def test_a_reason_names_its_option_once(models, option, value):
    [result] = download_systems([system('A', 'good', **{option: value})])
    # the model that the roster names besides is fetched
    assert result.files == (('zoo:fake/good/model',) if option == 'dict_file' else ())
    assert re.match(rf"system 'A': {option}: (?!{option})\w", result.reason)


def test_an_archive_without_the_model_is_said(models):
    path = 'zoo:fake/good/modle'
    results = download_systems([System('A', {'model_file': path, 'model': AGENT})])
    assert f'{path}: the download has no file' in results[0].reason


def test_what_the_hubs_client_brings_is_recorded_too(data, tmp_path, monkeypatch):
    folder = tmp_path / 'models--a--b' / 'snapshots' / 'abc'
    folder.mkdir(parents=True)
    file = folder / 'model.safetensors'
    monkeypatch.setattr(
        hub, 'cached_weights', lambda *a: file if file.exists() else None
    )

    def bring(repo, *rest):
        return written(folder, file.name, b'weights')

    monkeypatch.setattr(hub, 'fetch_weights', bring)
    opt = {'model': 'hugging_face/dialogpt'}
    assert download_systems([System('A', opt)])[0].files == (
        'microsoft/DialoGPT-small',
    )
    url = (
        'https://huggingface.co/microsoft/DialoGPT-small/resolve/abc/model.safetensors'
    )
    assert LockFile(data / LOCK).entries() == {url: Entry(sha256(b'weights'), 7)}


def test_the_command_fails_when_one_is_not_there(models, data, tmp_path, printed):
    targets = [
        {'name': name, 'opt': system(name, model).opt}
        for name, model in (('A', 'bad'), ('B', 'good'))
    ]
    file, lock = written(tmp_path, 'r.yaml', {'targets': targets}), tmp_path / 'lock'
    args = ['--roster', file, '--datapath', data, '--download', '--lock', lock]
    with pytest.raises(SystemExit) as caught:
        run_directly('check_roster', map(str, args))
    assert caught.value.code == 1
    text = printed()
    assert "system 'A': model_file: zoo:fake/bad/model cannot be downl" in text
    assert 'bad.tgz answers 404' in text
    assert 'B: downloaded zoo:fake/good/model' in text
    assert 'good.tgz' in lock.read_text() and 'bad.tgz' not in lock.read_text()
    assert seen(data)[1] == []


def fetch_task_data(server, data, folder, hashcode=None):
    """
    Download an archive as ParlAI's tasks do; return its hash.
    """
    content = server.files['/a/d.tgz'] = tar_of({'d/train.csv': b'a,b'})
    expected = hashcode or sha256(content)
    url = f'{server.url}/a/d.tgz'
    with checked_downloads():
        file = build_data.DownloadableFile(url, 'd.tgz', expected)
        file.download_file(str(folder))
    return expected


@pytest.mark.parametrize('half', [False, True])
def test_task_data_comes_with_parlais_own_checksum(server, data, tmp_path, half):
    folder = tmp_path / 'd'
    if half:  # of another program, which was cut off
        folder.mkdir()
        (folder / 'd.tgz').write_bytes(tar_of({'d/train.csv': b'a,b'})[:50])
    assert fetch_task_data(server, data, folder) in (data / LOCK).read_text()
    assert (folder / 'd/train.csv').read_bytes() == b'a,b'
    assert not (folder / 'd.tgz').exists()


def test_task_data_with_another_checksum_is_refused(server, data, tmp_path):
    with user_error(f'is another file: .* [0-9a-f]{{64}}, not {"0" * 64}'):
        fetch_task_data(server, data, tmp_path / 'd', hashcode='0' * 64)
    assert not (tmp_path / 'd').exists()
    assert seen(data) == ([], [])


@pytest.mark.parametrize(
    'call',
    [
        lambda path: build_data.download_from_google_drive('abc', path),
        lambda path: build_data.DownloadableFile(
            'abc', 'x', 'y', from_google=True
        ).download_file(path),
        lambda path: build_data.download_multiprocess(['http://x'], path),
    ],
)
def test_other_ways_are_refused(call, tmp_path):
    with (
        user_error('Google Drive|way of its own'),
        checked_downloads(),
    ):
        call(str(tmp_path))


@pytest.fixture
def bart(tmp_path):
    """
    Return a small BART without its tokenizer, and the tokenizer's files.
    """
    opt = families._bart(tmp_path)
    home = tmp_path / 'data' / 'gpt2'
    files = files_under(home)
    shutil.rmtree(home)
    return System('b', opt), files


def test_a_missing_tokenizer_is_fetched(bart, server, monkeypatch, tmp_path):
    system, files = bart
    for name, content in files.items():
        server.files[f'/bpe/{name}'] = content
        key = f'DEFAULT_{name.upper().replace(".", "_")}'
        monkeypatch.setattr(Gpt2BpeHelper, key, f'{server.url}/bpe/{name}')
    assert resolve(system).status == 'download'
    [found] = download_systems([system])
    assert found.reason is None and len(found.files) == 2
    home = tmp_path / 'data' / 'gpt2'
    assert files_under(home) == files
    assert resolve(system).status == 'present'
    load_system(system)


def test_a_tokenizer_that_cannot_be_fetched_is_one_line(bart, server, monkeypatch):
    for key in 'DEFAULT_VOCAB_BPE', 'DEFAULT_ENCODER_JSON':
        monkeypatch.setattr(Gpt2BpeHelper, key, f'{server.url}/{key}')
    [found] = download_systems([bart[0]])
    assert found.reason.startswith("system 'b': dict_tokenizer: http")
    with user_error(r"^system 'b': dict_tokenizer: http.*404[^\n]*$"):
        load_system(bart[0])
