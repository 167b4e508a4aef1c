"""
A server for the tests of remote systems, the systems that it plays
(`tests.support.chat_server`), and what they are told.
"""

import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from parlai_ext.core import System
from parlai_ext.systems import remote
from parlai_ext.systems.chat.messages import ChatTurn
from parlai_ext.systems.remote.endpoint import Endpoint
from parlai_ext.systems.remote.settings import Settings
from tests.support.chat_server import words_for

ROOT = Path(__file__).parents[2]
NAME = 'tiny-2024-05-13'
PINNED = {'remote_dated_model': NAME}
NO_CACHE = {'remote_cache': 'none', **PINNED}


@pytest.fixture(scope='module')
def process():
    """
    A server that runs as long as a file of tests does.
    """
    with running_server() as url:
        yield url


@pytest.fixture
def url(process):
    """
    The address of a server that has seen nothing yet.
    """
    control(process)
    return process


@pytest.fixture
def waits():
    """
    The seconds that an `endpoint` waited, or would have.
    """
    return []


@pytest.fixture
def endpoint(tmp_path, url, waits, monkeypatch):
    """
    Makes systems on the server that wait for nothing.
    """

    async def wait(seconds, stop):
        waits.append(seconds)

    def make(**opt):
        system = make_remote(tmp_path, url, **opt)
        return Endpoint(Settings.from_options(system.opt))

    monkeypatch.setattr(remote.endpoint, 'wait_unless_stopped', wait)
    return make


def talk(*texts):
    """
    Return a conversation in which the other speaks last.
    """
    mine = [(len(texts) - i) % 2 == 0 for i in range(len(texts))]
    return tuple(ChatTurn(*turn) for turn in zip(mine, texts, strict=True))


def hellos(n):
    """
    Return ``n`` different conversations of one turn.
    """
    return [talk(f'hello {i}') for i in range(n)]


def chat_reply(text):
    """
    Return what the server replies to a conversation of this turn alone.
    """
    return words_for([('user', text)])


def replies_of(endpoint, n=1, **opt):
    """
    Return the replies of a system with a pinned model to so many conversations.
    """
    return endpoint(**PINNED, **opt).replies(hellos(n))


@contextmanager
def running_server():
    """
    Run a server in a process of its own; yield its address, ``http://127.0.0.1:PORT``.
    """
    command = [sys.executable, '-m', 'tests.support.chat_server']
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            url = f'http://127.0.0.1:{int(process.stdout.readline())}'
            yield url
        finally:
            process.kill()


def control(url, **state):
    """
    Let the server forget everything, and behave like this from now on.
    """
    _request(f'{url}/control', json.dumps(state).encode())


def received(url):
    """
    Return the requests that the server got, oldest first: path, body (text) and key.
    """
    return _request(f'{url}/log')['log']


def most_at_once(url):
    """
    Return how many requests the server had at the same time.
    """
    return _request(f'{url}/log')['most']


def _request(url, data=None):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, data, timeout=30) as response:
        return json.load(response)


def make_remote(folder, url, name='remote', **opt):
    """
    Return a system that the server at ``url`` plays; ``folder`` keeps its answers.
    """
    plain = opt.get('remote_format') == 'plain'
    given = {
        'model': 'ext:remote',
        'remote_url': f'{url}/reply' if plain else f'{url}/v1',
        'remote_model': 'tiny',
        'remote_temperature': 0,
        'remote_cache': str(folder / 'remote_cache.sqlite'),
    }
    return System(name, {**given, **opt})
