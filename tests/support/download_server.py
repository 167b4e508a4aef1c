"""
A real HTTP server on this machine that misbehaves on request, a zoo whose models it
serves, and a data folder for them.
"""

import hashlib
import importlib
import io
import re
import signal
import sys
import tarfile
import threading
from multiprocessing import get_context

import parlai.zoo
import pytest

from parlai_ext.engines import DATA_FOLDER
from parlai_ext.systems import zoo
from parlai_ext.systems.fetch import checked_downloads
from tests.support.http_server import QuietHandler, serving

QUICK = {'CONNECT': 5, 'STALL': 5, 'LEAST': 1024, 'TRIES': 2, 'PAUSE': 0.01}


class Server:
    """
    What is served and how; every request is written down.

    :ivar statuses: answered instead, one a request, until the list is empty.
    :ivar cuts: bytes after which the connection is closed, one a request.
    :ivar holds: bytes after which nothing comes any more.
    :ivar drips: bytes after which the rest comes one by one.
    :ivar slow_head: send a header that never ends.
    :ivar length: 'true', 'none' or 'chunked'.
    :ivar asked: pairs of a path and its Range or `None`.
    :ivar sent: bytes of each answer.
    """

    def __init__(self):
        self.files = {}
        self.statuses, self.cuts, self.asked, self.sent = [], [], [], []
        self.holds = self.drips = self.modified = None
        self.slow_head, self.ranges = False, True
        self.etag, self.length, self.location = '"one"', 'true', ''
        self.half, self.over = threading.Event(), threading.Event()

    def ranges_asked(self):
        return [asked for _, asked in self.asked]


class Handler(QuietHandler):
    def do_GET(self):
        serve = self.server.spec
        self.close_connection = True
        wanted = self.headers.get('Range')
        serve.asked.append((self.path, wanted))
        if serve.slow_head:
            self.wfile.write(b'HTTP/1.1 200 OK\r\nX-Long: ')
            return self.drip(b'x' * 1000)
        status = serve.statuses.pop(0) if serve.statuses else 200
        body = serve.files.get(self.path)
        if body is None:
            status = 404
        if status != 200:
            body = b'<!DOCTYPE html><p>an error page'
        start = 0
        if status == 200 and wanted and serve.ranges:
            start = self.first(wanted, serve)
        self.send_response(206 if start else status)
        if start:
            whole = len(body)
            self.send_header('Content-Range', f'bytes {start}-{whole - 1}/{whole}')
        if status in (301, 302, 307):
            self.send_header('Location', serve.location)
        for name, value in (('ETag', serve.etag), ('Last-Modified', serve.modified)):
            if value:
                self.send_header(name, value)
        self.send_header('Connection', 'close')
        self.body(body[start:], serve)

    def first(self, wanted, serve):
        known = {serve.etag, serve.modified} - {None}
        if self.headers.get('If-Range', serve.etag) not in known:
            return 0
        return int(re.fullmatch(r'bytes=(\d+)-', wanted)[1])

    def body(self, rest, serve):
        if serve.length == 'true':
            self.send_header('Content-Length', str(len(rest)))
        if serve.length == 'chunked':
            self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        cut = serve.cuts.pop(0) if serve.cuts else None
        part = rest[: cut if cut is not None else serve.holds or serve.drips]
        serve.sent.append(len(part))
        if serve.length == 'chunked':
            part = b'%x\r\n%b\r\n0\r\n\r\n' % (len(part), part)
        self.wfile.write(part)
        serve.half.set()
        if serve.holds:
            serve.over.wait(30)
        if serve.drips:
            self.drip(rest[serve.drips :])


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def tar_of(files, mode='w:gz'):
    """
    Return a tar file with these contents, by name.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


ZOO_MODULE = """
from parlai.core.build_data import download_models

def download(datapath):
    opt = {{'datapath': datapath, 'model_type': {name!r}}}
    download_models(
        opt, {files!r}, 'fake', version={version!r}, path={url!r}, flatten_tar={flat!r}
    )
"""


@pytest.fixture
def server(monkeypatch):
    """
    A server on a port of this machine.
    """
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    with serving(Handler) as server:
        server.spec = spec = Server()
        spec.url = server.url
        yield spec
        spec.over.set()


@pytest.fixture
def zoo_home(registered, tmp_path, monkeypatch):
    """
    Give a folder whose ``fake`` package is part of ParlAI's zoo during the test.
    """
    home = tmp_path / 'zoo'
    home.mkdir()
    monkeypatch.setattr(parlai.zoo, '__path__', [*parlai.zoo.__path__, str(home)])
    importlib.invalidate_caches()
    forget()
    yield home
    forget()


def forget():
    """
    Let the zoo's modules of this test be imported anew.
    """
    for name in [n for n in sys.modules if n.startswith('parlai.zoo.fake')]:
        del sys.modules[name]
    if hasattr(parlai.zoo, 'fake'):
        del parlai.zoo.fake


@pytest.fixture
def add_model(zoo_home, server):
    """
    Give a function that writes a zoo module as ParlAI's are, its files on our server.
    """
    fake = zoo_home / 'fake'

    def add(name, files=('m.tgz',), version='v1.0', flat=False):
        fake.mkdir(exist_ok=True)
        (fake / '__init__.py').touch()
        url, names = f'{server.url}/a', list(files)
        text = ZOO_MODULE.format(
            name=name, files=names, version=version, url=url, flat=flat
        )
        (fake / f'{name}.py').write_text(text)

    return add


@pytest.fixture
def data(tmp_path, monkeypatch):
    """
    Give a data folder that is not there yet, which is used; downloads are quick.
    """
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path / 'data'))
    for name, value in QUICK.items():
        monkeypatch.setattr(checked_downloads, name, value)
    return tmp_path / 'data'


@pytest.fixture
def fetch_model(data):
    """
    Give a function that fetches ``zoo:fake/NAME/model``.
    """
    return lambda name: zoo.fetch_path(f'zoo:fake/{name}/model')


def fetching(fetch, *deadly):
    """
    Begin to fetch in another process: a fork, for a fresh one would import torch first.

    :param deadly: a module and the name of its function that kills the process.
    """

    def work():
        if deadly:
            setattr(*deadly, lambda *_, **__: signal.raise_signal(signal.SIGKILL))
        fetch()

    process = get_context('fork').Process(target=work, daemon=True)
    process.start()
    return process


def exit_code(process):
    """
    Return the exit code of a process once it has ended.
    """
    process.join(100)
    return process.exitcode


def seen(folder):
    """
    Return what is in a data folder, what is not complete apart.
    """
    files = [p.relative_to(folder) for p in folder.rglob('*') if p.is_file()]
    models = [f for f in files if 'partial' not in str(f)]
    return sorted(map(str, models)), sorted(map(str, set(files) - set(models)))
