"""
The family of remote systems, for tests that seat one member of each family: a chat
endpoint, played by `tests.support.chat_server`.
"""

import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from parlai_ext.core.nouns import System

ROOT = Path(__file__).parents[2]


@contextmanager
def running_server(**state):
    """
    Run a server in a process of its own; yield its address, ``http://127.0.0.1:PORT``.

    :param state: how it is to behave (`tests.support.chat_server.State`).
    """
    command = [sys.executable, '-m', 'tests.support.chat_server']
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            url = f'http://127.0.0.1:{int(process.stdout.readline())}'
            control(url, **state)
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
