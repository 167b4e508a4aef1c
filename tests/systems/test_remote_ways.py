"""
The way to an endpoint: redirects, proxies, cookies.
"""

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.systems.remote.endpoint import Endpoint
from parlai_ext.systems.remote.settings import Settings
from tests.support.family_remote import control, make_remote, received
from tests.support.remote_samples import PINNED, chat_reply, hellos

pytest_plugins = ['tests.support.remote_samples']


@pytest.mark.parametrize('status', [302, 307, 308])
def test_redirects_are_not_followed(url, endpoint, status):
    moved = {'status': status, 'headers': {'Location': f'{url}/elsewhere'}}
    control(url, script=[moved])
    with pytest.raises(UserError, match=f'redirects to {url}/elsewhere'):
        endpoint(**PINNED).replies(hellos(1))
    assert len(received(url)) == 1


def test_the_proxy_of_the_environment_is_asked(tmp_path, url, monkeypatch):
    monkeypatch.setenv('http_proxy', url)
    monkeypatch.delenv('no_proxy', raising=False)
    monkeypatch.delenv('NO_PROXY', raising=False)
    opt = make_remote(tmp_path, 'http://chat.example', **PINNED).opt
    Endpoint(Settings.from_options(opt)).replies(hellos(1))
    assert received(url)[0]['path'] == 'http://chat.example/v1/chat/completions'


def test_a_server_on_this_machine_is_asked_without_the_proxy(endpoint, monkeypatch):
    monkeypatch.setenv('http_proxy', 'http://127.0.0.1:9')
    monkeypatch.delenv('no_proxy', raising=False)
    monkeypatch.delenv('NO_PROXY', raising=False)
    system = endpoint(remote_retries=0, **PINNED)
    assert system.replies(hellos(1))[0].text == chat_reply('hello 0')


def test_cookies_are_not_sent_back(url, endpoint):
    set_cookie = {'status': 500, 'headers': {'Set-Cookie': 'who=me'}}
    control(url, script=[set_cookie])
    endpoint(**PINNED).replies(hellos(1))
    assert [request['cookie'] for request in received(url)] == [None, None]
