"""
One thread for each test process: tiny models are slower with more.
"""

import gc
import os
import signal
import socket
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from parlai_ext.engines import DATA_FOLDER
from parlai_ext.isolation.policy import note_trust

HOME = Path(__file__).parents[1]
AGENTS = [*HOME.glob('tests/**/*.py'), *HOME.glob('benchmarks/**/*.py')]

# a busy machine is no failure
settings.register_profile('no_deadline', deadline=None)
settings.load_profile('no_deadline')

os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('HF_HUB_OFFLINE', '1')
os.environ.setdefault('TOKENIZERS_PARALLELISM', 'false')
# a shell lets what it starts in the background ignore Ctrl-C, which tests send
signal.signal(signal.SIGINT, signal.default_int_handler)


# what is imported while tests are collected stays; nothing there is to be found
gc.disable()


def pytest_collection_finish():
    gc.enable()


@pytest.fixture(autouse=True, scope='module')
def small_collections():
    """
    Let what is there before a file of tests be out of the collector's way: whoever
    drops a model collects, and would walk through all of torch each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope='session')
def no_power_cuts():
    """
    Skip fsync, which only a power cut would miss.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, 'fsync', lambda handle: None)
        yield


@pytest.fixture
def data_in_tmp_path(tmp_path, monkeypatch):
    """
    Let models and data lie in the folder of the test.
    """
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path))


@pytest.fixture(autouse=True, scope='session')
def own_folders(tmp_path_factory):
    """
    Let tests, and the commands that they start, note and keep nothing in the real home
    folder; agents of tests are trusted, so that a test can look into them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.mktemp('cache')))
        patch.setenv('XDG_CONFIG_HOME', str(tmp_path_factory.mktemp('configuration')))
        note_trust(file for file in AGENTS if 'Agent' in file.read_text('utf-8'))
        yield


@pytest.fixture
def printed(capsys):
    """
    A function that returns what was printed since the last call, or the beginning.
    """
    return lambda: capsys.readouterr().out


@pytest.fixture
def exit_line(capsys):
    """
    A function that returns the one line of an error with which a call leaves, by this
    exit code.
    """

    def line_of(call, *args, code=1):
        with pytest.raises(SystemExit) as left:
            call(*args)
        line = capsys.readouterr().err
        assert line.startswith('error: ') and line.count('\n') == 1
        assert left.value.code == code
        return line

    return line_of


@pytest.fixture
def no_network(monkeypatch):
    """
    Make any attempt to reach the network fail loudly.
    """

    def refuse(*args, **kwargs):
        raise AssertionError('the network was asked')

    monkeypatch.setattr(socket, 'create_connection', refuse)
    monkeypatch.setattr(socket.socket, 'connect', refuse)


@pytest.fixture
def addresses_asked(monkeypatch):
    """
    The addresses that were asked by HTTP; no connection comes about.
    """
    from tests.support.no_network import refuse_connections

    return refuse_connections(monkeypatch)


@pytest.fixture
def uninstalled(monkeypatch):
    """
    A function after which a module cannot be imported, as if it were not installed.
    """
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture(scope='session')
def registered():
    """
    Let ParlAI know our agents, tasks and presets, as at the start of a command.
    """
    from parlai_ext.commands import plugin

    plugin.register()


@pytest.fixture
def models_here(monkeypatch):
    """
    Let models be loaded in this process, as trusted ones are: each process of their own
    would take a second.
    """
    from parlai_ext.systems import parlai_agents

    monkeypatch.setattr(parlai_agents, 'is_trusted', lambda system: True)


@pytest.fixture(scope='module')
def module_folder(tmp_path_factory):
    """
    A folder for what all tests of a file share.
    """
    return tmp_path_factory.mktemp('module')


@pytest.fixture(scope='session')
def gpt2_folder(tmp_path_factory):
    """
    The folder of a tiny GPT-2 with a byte-level tokenizer, which no test changes.
    """
    from tests.support.fed_samples import make_gpt2

    return str(make_gpt2(tmp_path_factory.mktemp('gpt2')))


@pytest.fixture(scope='session')
def encoder_folder(tmp_path_factory):
    """
    The folder of a tiny sentence encoder, which no test changes.
    """
    from tests.support.tiny_trained import make_encoder

    return make_encoder(tmp_path_factory.mktemp('encoder'))


@pytest.fixture(scope='session')
def hf_folder(tmp_path_factory):
    """
    A function that returns the folder of a tiny model of one of Hugging Face's kinds,
    which no test changes; a Llama has a chat template.
    """
    from tests.support.family_hf import TEMPLATE, make_model

    home, templates = tmp_path_factory.mktemp('hf'), {'llama': TEMPLATE}
    return cache(lambda kind: make_model(home, kind, template=templates.get(kind)))


@pytest.fixture(scope='session')
def chat_folder(hf_folder):
    return hf_folder('llama')
