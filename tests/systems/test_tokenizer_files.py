"""
The tokenizer that BART and R2C2 need beside their model is told of and fetched.
"""

import pytest
from parlai.utils.bpe import Gpt2BpeHelper

from parlai_ext.core.nouns import System
from parlai_ext.systems.downloads import download_systems
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.resolve import resolve
from tests.support import families
from tests.support.user_error import user_error

pytestmark = pytest.mark.usefixtures('data')

pytest_plugins = ['tests.support.download_server']


@pytest.fixture
def bart(tmp_path):
    """
    Return a small BART without its tokenizer, and the tokenizer's files.
    """
    opt = families._bart(tmp_path, 'm')
    home = tmp_path / 'data' / 'gpt2'
    files = {path.name: path.read_bytes() for path in home.iterdir()}
    for path in home.iterdir():
        path.unlink()
    return System('b', opt), files


@pytest.mark.parametrize('named', [True, False])
def test_a_missing_tokenizer_is_to_be_downloaded(bart, named):
    given = bart[0].opt if named else {**bart[0].opt, 'model': None}
    found = resolve(System('b', given))
    assert found.status == 'download'
    assert found.besides[0].startswith('dict_tokenizer: https://dl.fbaipublicfiles')
    assert found.besides[0].endswith('gpt2_bpe/encoder.json')


def test_a_missing_tokenizer_is_fetched(bart, server, monkeypatch, tmp_path):
    system, files = bart
    for name, content in files.items():
        server.files[f'/bpe/{name}'] = content
        key = f'DEFAULT_{name.upper().replace(".", "_")}'
        monkeypatch.setattr(Gpt2BpeHelper, key, f'{server.url}/bpe/{name}')
    [found] = download_systems([system])
    assert found.reason is None and len(found.files) == 2
    home = tmp_path / 'data' / 'gpt2'
    assert {path.name: path.read_bytes() for path in home.iterdir()} == files
    assert resolve(system).status == 'present'
    load_system(system)


def test_a_tokenizer_that_cannot_be_fetched_is_one_line(bart, server, monkeypatch):
    for key in 'DEFAULT_VOCAB_BPE', 'DEFAULT_ENCODER_JSON':
        monkeypatch.setattr(Gpt2BpeHelper, key, f'{server.url}/{key}')
    [found] = download_systems([bart[0]])
    assert found.reason.startswith("system 'b': dict_tokenizer: http")
    with user_error(r"^system 'b': dict_tokenizer: http.*404[^\n]*$"):
        load_system(bart[0])
