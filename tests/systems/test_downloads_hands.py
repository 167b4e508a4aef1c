"""
Modules that download in ways of their own do it by our hands, and only meanwhile.
"""

import gzip

import pytest
from parlai.core import build_data

from parlai_ext.core.errors import UserError
from parlai_ext.systems import zoo
from parlai_ext.systems.fetch import trusted
from tests.support.download_fixtures import seen
from tests.support.download_server import HASTY, add_model, tar_of

pytest_plugins = ['tests.support.download_fixtures']
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


def test_a_module_with_ways_of_its_own_is_in_our_hands_too(
    fetch_model, data, server, zoo_home
):
    # as parlai/zoo/hallucination/wiki_passages.py
    server.files['/a/model.gz'] = gzip.compress(MODEL)
    add_model(zoo_home, server, 'm')
    url = f'{server.url}/a/model.gz'
    (zoo_home / 'fake' / 'own.py').write_text(PLAIN.format(url=url))
    assert zoo.needed_downloads('zoo:fake/own/model', str(data)) == [url]
    assert not data.exists()
    server.statuses = [403]
    with pytest.raises(UserError, match='answers 403'):
        fetch_model('own')
    assert seen(data) == ([], [])
    assert fetch_model('own').read_bytes() == MODEL
    assert url in (data / LOCK).read_text()


def test_our_hands_are_gone_afterwards(fetch_model, server, zoo_home, tmp_path):
    server.files['/a/m.tgz'] = tar_of({'model': MODEL})
    add_model(zoo_home, server, 'm')
    before = build_data.download
    with trusted.trusted_downloads(str(tmp_path / 'other'), limits=HASTY):
        ours = build_data.download
        fetch_model('m')
        assert build_data.download is ours
    assert build_data.download is before
    # a module that was imported meanwhile still has the name, and gets ParlAI's
    server.files['/a/x'] = b'<html>'
    ours(f'{server.url}/a/x', str(tmp_path), 'x')
    assert (tmp_path / 'x').read_bytes() == b'<html>'
