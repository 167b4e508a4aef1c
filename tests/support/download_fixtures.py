"""
A server, a zoo whose models it serves, and a data folder: for the tests of downloads.
"""

import importlib
import sys
from dataclasses import replace

import parlai.zoo
import pytest

from parlai_ext.commands import plugin
from parlai_ext.systems import zoo
from tests.support.download_server import QUICK, serving


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    with serving() as spec:
        yield spec


@pytest.fixture
def zoo_home(tmp_path, monkeypatch):
    """
    Give a folder whose ``fake`` package is part of ParlAI's zoo during the test.
    """
    plugin.register()
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
def data(tmp_path):
    """
    Give a data folder that is not there yet.
    """
    return tmp_path / 'data'


@pytest.fixture
def fetch_model(data):
    """
    Give a function that fetches ``zoo:fake/NAME/model`` in a hurry.
    """

    def fetched(name, **options):
        settings = replace(QUICK, **options)
        return zoo.fetch_path(f'zoo:fake/{name}/model', str(data), settings)

    return fetched


def seen(folder):
    """
    Return what is in a data folder, what is not complete apart.
    """
    files = [p.relative_to(folder) for p in folder.rglob('*') if p.is_file()]
    models = [f for f in files if 'partial' not in str(f)]
    return sorted(map(str, models)), sorted(map(str, set(files) - set(models)))
