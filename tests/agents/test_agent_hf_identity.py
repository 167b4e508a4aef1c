"""
What an ``ext:hf`` model is: the content of its files, wherever they are.
"""

import json
import shutil
from types import SimpleNamespace

import pytest

from parlai_ext.core.nouns import System
from parlai_ext.systems import hub
from parlai_ext.systems.families import FAMILIES
from parlai_ext.systems.identity import identity
from parlai_ext.systems.resolve import resolve
from tests.support.user_error import user_error

pytest_plugins = ['tests.support.family_hf']
REPO = 'someone/tiny'
COMMIT = '0123456789abcdef0123456789abcdef01234567'

HF = FAMILIES['hugging_face']


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """
    A hub cache and no network.
    """
    from huggingface_hub import constants

    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path / 'cache'))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    return tmp_path / 'cache'


def cached(cache, model):
    """
    Put a folder's files into the cache as a repository's `main`.
    """
    home = cache / 'models--someone--tiny'
    (home / 'refs').mkdir(parents=True)
    (home / 'refs' / 'main').write_text(COMMIT)
    shutil.copytree(model, home / 'snapshots' / COMMIT)


def seat(model, **opt):
    return System('seat', {'model': 'ext:hf', 'hf_model': str(model), **opt})


def test_a_model_that_moves_stays_what_it_is(model, tmp_path):
    before = identity(seat(model))
    model.rename(tmp_path / 'elsewhere')
    assert identity(seat(tmp_path / 'elsewhere')) == before


def test_a_model_in_the_hubs_cache_is_the_same_as_in_a_folder(model, cache):
    cached(cache, model)
    here = identity(seat(model))
    assert identity(seat(REPO)) == identity(seat(REPO, hf_revision=COMMIT)) == here


@pytest.mark.parametrize(
    'name',
    [
        'model.safetensors',
        'config.json',
        'generation_config.json',
        'tokenizer.json',
        'tokenizer_config.json',
        'chat_template.jinja',
    ],
)
def test_each_file_that_changes_replies_changes_the_identity(name, model):
    before = identity(seat(model))
    with open(model / name, 'ab') as file:
        file.write(b' ')
    assert identity(seat(model)) != before


def test_a_file_that_changes_no_reply_does_not(model):
    before = identity(seat(model))
    (model / 'README.md').write_text('read me')
    (model / 'own.py').write_text('pass')
    assert identity(seat(model)) == before


def test_code_counts_where_it_is_run(model):
    before = identity(seat(model, hf_trust_code=True))
    (model / 'own.py').write_text('pass')
    assert identity(seat(model, hf_trust_code=True)) != before


@pytest.mark.parametrize(
    'opt', [{'system_prompt': 'x'}, {'hf_dtype': 'float16'}, {'stop': ['x']}]
)
def test_options_that_change_replies_change_the_identity(opt, model):
    assert identity(seat(model, **opt)) != identity(seat(model))


def test_the_device_is_no_part_of_the_identity(model):
    assert identity(seat(model, hf_device='cpu')) == identity(seat(model))


def sharded(model):
    """
    Split the weights into two files with an index.
    """
    from safetensors.torch import load_file, save_file

    tensors = load_file(model / 'model.safetensors')
    names = sorted(tensors)
    where = {}
    for i, some in enumerate((names[:5], names[5:]), start=1):
        file = f'model-0000{i}-of-00002.safetensors'
        content = {name: tensors[name].contiguous() for name in some}
        save_file(content, model / file, metadata={'format': 'pt'})
        where |= dict.fromkeys(some, file)
    index = {'metadata': {}, 'weight_map': where}
    (model / 'model.safetensors.index.json').write_text(json.dumps(index))
    (model / 'model.safetensors').unlink()


def test_weights_in_several_files_are_found_read_and_hashed(model):
    from parlai_ext.systems.parlai_agents import load_system

    n_bytes = load_system(seat(model, no_cuda=True)).n_bytes
    sharded(model)
    assert hub.cached_weights(str(model)) == model / 'model.safetensors.index.json'
    assert load_system(seat(model, no_cuda=True)).n_bytes == n_bytes
    before = identity(seat(model))
    with open(model / 'model-00002-of-00002.safetensors', 'ab') as file:
        file.write(b' ')
    assert identity(seat(model)) != before


def test_with_one_of_several_files_missing_there_are_no_weights(model):
    sharded(model)
    (model / 'model-00001-of-00002.safetensors').unlink()
    assert hub.cached_weights(str(model)) is None
    with user_error('has no weights'):
        hub.fetch_weights(str(model))


def test_an_index_that_is_none(model):
    (model / 'model.safetensors').unlink()
    (model / 'model.safetensors.index.json').write_text('[]')
    with user_error('^hf_model: .* is no index of weights'):
        hub.cached_weights(str(model))


@pytest.mark.parametrize(
    'opt, of_its_own',
    [
        ({}, 1),
        ({'hf_dtype': 'float64'}, 2),
        ({'hf_dtype': 'bfloat16'}, 1 / 2),
        ({'hf_quantisation': '8bit'}, 1 / 4),
        ({'hf_quantisation': 'none', 'hf_dtype': 'float16'}, 1 / 2),
    ],
)
def test_the_memory_that_weights_will_take(opt, of_its_own, model):
    stored = (model / 'model.safetensors').stat().st_size  # in float32
    assert HF.weight_bytes(seat(model, **opt)) == pytest.approx(stored * of_its_own)


def test_a_model_not_downloaded_takes_no_memory_yet(cache):
    assert HF.weight_bytes(seat(REPO)) == 0


def test_the_commit_of_what_is_in_the_cache(model, cache):
    assert HF.commit(seat(REPO).opt) is None
    cached(cache, model)
    assert HF.commit(seat(REPO).opt) == COMMIT
    assert HF.commit(seat(model).opt) is None


@pytest.mark.parametrize('place, status', [('folder', 'present'), (REPO, 'download')])
def test_a_roster_check_finds_it(place, status, model, cache):
    found = resolve(seat(model if place == 'folder' else place))
    assert (found.status, found.reason) == (status, None)


def test_a_download_asks_for_one_format_and_what_goes_with_it():
    listed = ['.gitattributes', 'README.md', 'config.json', 'model.safetensors']
    listed += ['pytorch_model.bin', 'onnx/model.onnx', 'tokenizer.json', 'vocab.json']
    listed += ['merges.txt', 'chat_template.jinja', 'tf_model.h5', 'original/x.model']
    assert hub.needed_files(listed) == [
        'chat_template.jinja',
        'config.json',
        'merges.txt',
        'model.safetensors',
        'tokenizer.json',
        'vocab.json',
    ]


def test_without_safetensors_the_other_format_is_asked_for():
    listed = ['pytorch_model-00001-of-00002.bin', 'pytorch_model-00002-of-00002.bin']
    listed += ['pytorch_model.bin.index.json', 'config.json', 'flax_model.msgpack']
    assert hub.needed_files(listed) == ['config.json', *listed[:3]]


def online(monkeypatch, list_files):
    """
    Let the hub be there, with these files.
    """
    import huggingface_hub
    from huggingface_hub import constants

    api = SimpleNamespace(list_repo_files=lambda repo, revision: list_files())
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', False)
    monkeypatch.setattr(hub, 'is_reachable', lambda: True)
    monkeypatch.setattr(huggingface_hub, 'HfApi', lambda: api)
    return huggingface_hub


def test_a_download_goes_through_the_hubs_own_client(model, cache, monkeypatch):
    def snapshot(repo, revision, allow_patterns):
        cached(cache, model)
        assert 'README.md' not in allow_patterns

    names = [path.name for path in model.iterdir()]
    huggingface_hub = online(monkeypatch, lambda: [*names, 'README.md'])
    monkeypatch.setattr(huggingface_hub, 'snapshot_download', snapshot)
    assert hub.fetch_weights(REPO).parent.name == COMMIT


def test_a_download_that_fails_is_one_line(cache, monkeypatch):
    def refuse():
        raise OSError('401 Client Error\nmany lines')

    online(monkeypatch, refuse)
    with user_error() as caught:
        hub.fetch_weights(REPO)
    assert str(caught.value).endswith('cannot be downloaded: 401 Client Error')
