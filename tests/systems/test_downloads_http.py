"""
A file from a server that is slow, broken, lying, or sends us elsewhere.
"""

import gzip
import hashlib
import json
import random
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.systems.fetch.archives import SPARE_DISK
from parlai_ext.systems.fetch.http_file import (
    FileDownload,
    Unreachable,
    WrongFile,
    check_redirect,
)
from tests.support.download_server import QUICK, serving

BODY = random.Random(0).randbytes(300_000)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    with serving() as spec:
        spec.files['/a/file.bin'] = BODY
        yield spec


@pytest.fixture
def get(server, tmp_path):
    """
    Fetch a path of the server and return the bytes that came.
    """

    def got(path='/a/file.bin', size_known=False, **options):
        settings = replace(QUICK, **options)
        download = FileDownload(server.url + path, tmp_path, size_known, settings)
        entry = download.run()
        data = download.data.read_bytes()
        assert entry.sha256 == hashlib.sha256(data).hexdigest()
        assert entry.size == len(data)
        return data

    return got


def test_what_is_served_is_what_comes(get):
    assert get() == BODY


def test_a_file_that_is_here_is_not_asked_for_again(get, server):
    get()
    assert get() == BODY
    assert len(server.asked) == 1


def test_a_cut_connection_goes_on_where_it_was(get, server):
    server.cuts = [100_000]
    assert get() == BODY
    assert server.ranges_asked() == [None, 'bytes=100000-']
    assert sum(server.sent) == len(BODY)  # no byte travelled twice


def test_another_run_goes_on_where_the_last_one_was(get, server):
    server.cuts = [100_000, 0, 0]
    with pytest.raises(UserError, match='another run continues after 100,000 bytes'):
        get()
    assert get() == BODY
    assert server.ranges_asked()[-1] == 'bytes=100000-'
    assert sum(server.sent) == len(BODY)


def test_a_server_without_ranges_sends_all_again(get, server):
    server.cuts, server.ranges = [100_000], False
    assert get() == BODY
    assert server.sent == [100_000, len(BODY)]


def cut_once(get, server):
    server.cuts = [100_000, 0, 0]
    with pytest.raises(UserError):
        get()
    server.asked.clear()


@pytest.mark.parametrize('honest', [True, False])
def test_two_versions_are_never_mixed(get, server, honest):
    cut_once(get, server)
    server.files['/a/file.bin'] = BODY[::-1]
    server.etag = '"two"'
    if not honest:  # it ignores If-Range, as some do
        server.modified = '"one"'
    assert get() == BODY[::-1]


@pytest.mark.parametrize('etag, modified', [(None, None), ('W/"one"', None)])
def test_without_a_version_to_go_by_it_starts_anew(get, server, etag, modified):
    server.etag, server.modified = etag, modified
    cut_once(get, server)
    assert get() == BODY
    assert server.ranges_asked() == [None]


def test_a_date_serves_where_there_is_no_etag(get, server):
    server.etag, server.modified = None, 'Wed, 21 Oct 2015 07:28:00 GMT'
    cut_once(get, server)
    assert get() == BODY
    assert server.ranges_asked() == ['bytes=100000-']


@pytest.mark.parametrize('statuses', [[503], [429], [500]])
def test_a_server_in_trouble_is_asked_again(get, server, statuses):
    server.statuses = statuses
    assert get() == BODY


@pytest.mark.parametrize('status', [401, 403, 404, 410, 451])
def test_a_refusal_is_one_line_and_no_file(get, server, tmp_path, status):
    server.statuses = [status]
    with pytest.raises(UserError, match=f'/a/file.bin answers {status} ') as caught:
        get()
    assert '\n' not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert len(server.asked) == 1


def test_trouble_that_stays_is_one_line(get, server):
    server.statuses = [503] * 9
    with pytest.raises(UserError, match='answers 503 Service Unavailable$'):
        get()


@pytest.mark.parametrize('name', ['x.tgz', 'x.tar.gz', 'x.zip', 'x.bin', 'x.opt'])
@pytest.mark.parametrize(
    'page',
    [
        b'<!DOCTYPE html><p>Sign in',
        b'\n <html><body>403',
        b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
    ],
)
def test_a_page_that_says_200_is_no_model(get, server, tmp_path, name, page):
    server.files[f'/a/{name}'] = page
    with pytest.raises(WrongFile, match='a web page'):
        get(f'/a/{name}')
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('content', [b'', b'{"error": "quota"}', BODY])
def test_an_archive_must_look_like_one(get, server, tmp_path, content):
    server.files['/a/x.tgz'] = content
    with pytest.raises(WrongFile, match='x.tgz gives '):
        get('/a/x.tgz')
    assert list(tmp_path.iterdir()) == []


def test_text_may_be_text(get, server):
    server.files['/a/x.opt'] = b'{"model": "transformer/generator"}'
    assert get('/a/x.opt') == server.files['/a/x.opt']


def test_compressed_bytes_stay_as_they_are(get, server):
    server.files['/a/x.gz'] = gzip.compress(b'plain')
    assert gzip.decompress(get('/a/x.gz')) == b'plain'


def test_without_a_length_only_a_hash_tells_that_it_is_whole(get, server):
    server.length = 'none'
    with pytest.raises(WrongFile, match='does not say how long'):
        get()
    assert get(size_known=True) == BODY


def test_chunks_say_where_they_end(get, server):
    server.length = 'chunked'
    assert get() == BODY


@pytest.mark.parametrize('kind', ['holds', 'drips'])
def test_a_server_that_holds_back_is_left(get, server, kind):
    setattr(server, kind, 1000)
    words = {'holds': 'breaks off .ReadTimeoutError', 'drips': 'bytes in 0.4 seconds'}
    with pytest.raises(UserError, match=words[kind]):
        get(stall=0.4)


def test_headers_that_never_end_are_left(get, server):
    server.slow_head = True
    with pytest.raises(UserError, match='does not finish its headers'):
        get(connect=0.2, stall=0.2)


def test_a_redirect_on_the_same_server_is_followed(get, server):
    server.statuses, server.location = [302], '/a/file.bin'
    assert get('/a/file.bin') == BODY


def test_a_redirect_without_end_is_left(get, server):
    server.statuses, server.location = [301] * 20, '/a/file.bin'
    with pytest.raises(UserError, match='5 redirects'):
        get()


@pytest.mark.parametrize(
    'location',
    [
        'file:///etc/passwd',
        'ftp://127.0.0.1/x',
        'http://localhost:{port}/a/file.bin',
        'http://127.0.0.1:1/a/file.bin',
        '//localhost:{port}/a/file.bin',
        'gopher://x',
    ],
)
def test_a_redirect_elsewhere_is_refused(get, server, tmp_path, location):
    server.statuses, server.location = [302], location.format(port=server.port)
    with pytest.raises(UserError, match='redirects to .* not followed'):
        get()
    assert len(server.asked) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    'at, location, follows',
    [
        ('https://a.org/x', 'http://a.org/x', False),
        ('https://a.org/x', 'https://b.org/y', True),
        ('http://a.org/x', 'https://b.org/y', True),
        ('https://a.org/x', 'https://a.org/y', True),
        ('https://a.org/x', 'file:///x', False),
    ],
)
def test_where_a_redirect_may_lead(at, location, follows):
    if follows:
        check_redirect(at, location)
    else:
        with pytest.raises(UserError, match=f'{at} redirects to {location}'):
            check_redirect(at, location)


def test_only_http_is_asked(tmp_path):
    with pytest.raises(UserError, match='no http or https address'):
        FileDownload('file:///etc/passwd', tmp_path).run()


def test_no_network_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    with pytest.raises(Unreachable, match='cannot be reached .no network'):
        FileDownload('http://127.0.0.1:9/x', tmp_path).run()


def test_a_full_disk_is_seen_before_the_first_byte(get, server, monkeypatch, tmp_path):
    usage = SimpleNamespace(free=SPARE_DISK + 299_999)
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: usage)
    with pytest.raises(UserError, match='needs 300,000 bytes; .* has room for 299,999'):
        get()
    assert not (tmp_path / 'file.part').exists()


def test_a_body_without_end_does_not_fill_the_disk(get, server, monkeypatch, tmp_path):
    server.length = 'chunked'
    usage = SimpleNamespace(free=SPARE_DISK + 1000)
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: usage)
    with pytest.raises(WrongFile, match='does not end'):
        get()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    'note', ['', '[]', '{', '{"size": 5}', '{"url": 1, "version": "x", "size": 99}']
)
def test_a_damaged_note_means_starting_anew(get, server, tmp_path, note):
    (tmp_path / 'file.part').write_bytes(b'rubbish that is long enough')
    (tmp_path / 'file.json').write_text(note)
    assert get() == BODY


def test_words_of_a_server_are_fit_for_a_terminal(get, server):
    server.statuses, server.location = [302], 'file:///\x1b[2J'
    with pytest.raises(UserError) as caught:
        get()
    assert '\x1b' not in str(caught.value)


def test_the_progress_bar_has_bytes_and_rate(get, capsys):
    get(progress=True)
    shown = capsys.readouterr().err
    assert 'a/file.bin' in shown and '293k/293k' in shown and 'B/s' in shown


def test_what_the_server_said_is_noted_for_the_next_run(get, server, tmp_path):
    cut_once(get, server)
    about = json.loads((tmp_path / 'file.json').read_text())
    assert (about['version'], about['size']) == ('"one"', 300_000)
