"""
ParlAI's download functions are replaced for modules of any kind, and only meanwhile.
"""

import gzip

import pytest
from parlai.core import build_data

from parlai_ext.systems import zoo
from parlai_ext.systems.fetch.checked_downloads import checked_downloads
from tests.support.download_server import add_model, seen
from tests.support.user_error import user_error

pytestmark = pytest.mark.usefixtures('data')

pytest_plugins = ['tests.support.download_server']
MODEL = bytes(range(256)) * 1000
LOCK = 'models/parlai_ext.lock.json'

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
    fetch_model, data, server, zoo_home
):
    # as parlai/zoo/hallucination/wiki_passages.py
    server.files['/a/model.gz'] = gzip.compress(MODEL)
    add_model(zoo_home, server, 'm')
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
    for name in (
        'before',
        'after',
    ):  # which are the same functions: a module may hold one
        function = build_data.download
        with (
            user_error('web page'),
            checked_downloads(),
        ):
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
