"""
A catalogue of one tiny model, with a folder of wheels that pip takes for its index, and
a hub on this machine.
"""

import pytest
from huggingface_hub import constants

from parlai_ext import zoo_configs
from parlai_ext.core import known_values
from parlai_ext.files import model_card, shipped_systems
from parlai_ext.systems.catalogue import fetch_model
from tests.support.download_server import sha256
from tests.support.written import written, zip_of

FILES = {'config.json': b'{}', 'model.safetensors': bytes(range(256)) * 500}
REPOSITORY, REVISION = 'owner/tiny', 'a' * 40


def forget_cards():
    model_card.cache_clear()
    shipped_systems.cache_clear()


class Catalogue:
    """
    Writes cards and wheels; pip finds these wheels and nothing else.
    """

    def __init__(self, home):
        self.home = home
        self.index = home / 'index'
        self.index.mkdir()
        (home / 'models').mkdir()

    def add(self, name, contents=FILES, **changes):
        """
        Write a card of the tiny model, or of other files, as YAML (JSON is YAML).
        """
        files = [
            {'name': name, 'size': len(data), 'sha256': sha256(data)}
            for name, data in contents.items()
        ]
        card = {
            'title': 'tiny',
            'page': 'https://example.org',
            'licence': 'MIT',
            'kinds': ['likelihood', 'chat'],
            'good_for': 'tests',
            'parameters': 10,
            'files': files,
            **changes,
        }
        written(self.home / 'models', f'{name}.yaml', known_values(card))
        forget_cards()

    def wheel(self, project='tiny-model', members=None):
        """
        Write a wheel with these members; return the entry of it in a card.
        """
        members = members or {f'inside/model/{n}': data for n, data in FILES.items()}
        name = project.replace('-', '_')
        info = f'{name}-1.0.dist-info'
        metadata = f'Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n'
        data = zip_of(
            {
                **members,
                # a package that would leave a mark if its code ran
                f'{name}/__init__.py': b'open("imported", "w")',
                f'{info}/METADATA': f'{metadata}Requires-Dist: torch-of-nobody\n',
                f'{info}/WHEEL': 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\n'
                'Tag: py3-none-any\n',
                f'{info}/RECORD': '',
            }.items()
        )
        written(self.index, f'{name}-1.0-py3-none-any.whl', data)
        entry = {'project': project, 'version': '1.0'}
        return {**entry, 'size': len(data), 'sha256': sha256(data)}


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    home = tmp_path / 'zoo_configs'
    home.mkdir()
    monkeypatch.setattr(zoo_configs, 'HOME', home)
    monkeypatch.setattr(fetch_model, 'POLL', 0.05)
    for name in ('PIP_INDEX_URL', 'PIP_EXTRA_INDEX_URL', 'PIP_CONFIG_FILE'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    monkeypatch.setenv('PIP_NO_CACHE_DIR', '1')
    monkeypatch.setenv('PIP_FIND_LINKS', str(home / 'index'))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', False)
    forget_cards()
    yield Catalogue(home)
    forget_cards()
