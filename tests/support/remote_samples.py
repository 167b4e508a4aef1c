"""
Systems that a server of the tests plays (`tests.support.chat_server`), and what they
are told.
"""

import pytest

from parlai_ext.core import System
from parlai_ext.systems import remote
from parlai_ext.systems.chat.messages import ChatTurn
from parlai_ext.systems.remote.endpoint import Endpoint
from parlai_ext.systems.remote.settings import Settings
from tests.support.chat_server import control, running_server, words_for

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


def hellos(n):
    """
    Return ``n`` different conversations of one turn.
    """
    return [(ChatTurn(False, f'hello {i}'),) for i in range(n)]


def chat_reply(text):
    """
    Return what the server replies to a conversation of this turn alone.
    """
    return words_for([('user', text)])


@pytest.fixture
def replies_of(endpoint):
    """
    A function that returns the replies of a system to so many conversations; its model
    is pinned unless the options say otherwise.
    """
    return lambda n=1, **opt: endpoint(**{**PINNED, **opt}).replies(hellos(n))


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
