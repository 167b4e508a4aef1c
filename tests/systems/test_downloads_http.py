"""
A file from a server that is slow, broken, lying, or sends us elsewhere; and the lock
file that says what an address gave first.
"""

import gzip
import random
import shutil
from types import SimpleNamespace

import httpx2
import pytest

from parlai_ext.systems.fetch import checked_downloads
from parlai_ext.systems.fetch.archives import SPARE_DISK
from parlai_ext.systems.fetch.checked_downloads import (
    Entry,
    FileDownload,
    LockFile,
    fetch_pinned,
)
from tests.support.download_server import seen, sha256
from tests.support.user_error import error_line, user_error
from tests.support.written import written

pytestmark = pytest.mark.usefixtures('data')

pytest_plugins = ['tests.support.download_server']


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
        monkeypatch.setattr(checked_downloads, name, 0.15)
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
