"""
A remote system against a real server in a process of its own: replies, the way to the
endpoint (redirects, proxies, cookies), the model's name, tokens and money.
"""

import os
import signal
import time
from contextlib import suppress
from multiprocessing import get_context

import pytest

from parlai_ext.systems.families import Remote
from parlai_ext.systems.remote.settings import UNTOLD
from tests.support.chat_server import control, most_at_once, received
from tests.support.remote_samples import (
    NAME,
    NO_CACHE,
    PINNED,
    chat_reply,
    hellos,
    make_remote,
)
from tests.support.user_error import user_error

pytest_plugins = ['tests.support.remote_samples']
pin, contents = Remote().pin, Remote().contents


def test_as_many_requests_as_allowed_are_under_way_at_once(url, replies_of):
    control(url, hold=4)
    replies_of(12, remote_concurrency=4)
    assert most_at_once(url) == 4


def test_the_same_conversation_is_the_same_bytes(url, replies_of):
    for extra in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'):
        replies_of(remote_extra=extra, remote_cache='none')
    first, second = received(url)
    assert first['body'] == second['body']


def test_an_empty_reply_is_asked_for_again(url, replies_of):
    control(url, 'empty')
    assert [reply.text for reply in replies_of()] == ['']
    assert [reply.text for reply in replies_of()] == [chat_reply('hello 0')]


@pytest.mark.parametrize('opt, n', [(PINNED, 1), (NO_CACHE, 3)])
def test_with_a_cache_equal_conversations_are_asked_once(url, endpoint, opt, n):
    found = endpoint(**opt).replies(hellos(1) * 3)
    assert len(received(url)) == n
    assert [a.text for a in found] == [chat_reply('hello 0')] * 3


def test_the_rate_holds_for_every_request(url, replies_of, waits):
    control(url, {'status': 500})
    replies_of(remote_rate=1e-6, remote_concurrency=1)
    back_off, turn = waits
    # 60 seconds a minute / 1e-6 a minute, less what has passed
    assert back_off <= 1 and turn == pytest.approx(6e7, rel=1e-3)


def test_ctrl_c_waits_for_no_answer(url, endpoint):
    # the server holds its answers back for ten times as long as we are ready to wait
    control(url, *['hang'] * 20)
    system = endpoint(remote_timeout=600, **NO_CACHE)

    def ask():
        with suppress(KeyboardInterrupt):
            system.replies(hellos(20))

    child = get_context('fork').Process(target=ask)
    child.start()
    try:
        while most_at_once(url) < 8 and child.is_alive():
            time.sleep(0.02)
        assert child.is_alive()
        os.kill(child.pid, signal.SIGINT)
        child.join(15)
    finally:
        child.kill()
    assert child.exitcode == 0


def test_redirects_are_not_followed(url, replies_of):
    control(url, {'status': 307, 'headers': {'Location': f'{url}/elsewhere'}})
    with user_error(f'redirects to {url}/elsewhere'):
        replies_of()
    assert len(received(url)) == 1


@pytest.fixture
def proxy(monkeypatch):
    """
    Sets the proxy of the environment.
    """
    for name in ('no_proxy', 'NO_PROXY'):
        monkeypatch.delenv(name, raising=False)
    return lambda address: monkeypatch.setenv('http_proxy', address)


def test_the_proxy_of_the_environment_is_asked(url, replies_of, proxy):
    proxy(url)
    replies_of(remote_url='http://chat.example/v1')
    assert received(url)[0]['path'] == 'http://chat.example/v1/chat/completions'


def test_a_server_on_this_machine_is_asked_without_the_proxy(replies_of, proxy):
    proxy('http://127.0.0.1:9')
    [reply] = replies_of(remote_retries=0)
    assert reply.text == chat_reply('hello 0')


def test_cookies_are_not_sent_back(url, replies_of):
    control(url, {'status': 500, 'headers': {'Set-Cookie': 'who=me'}})
    replies_of()
    assert [request['cookie'] for request in received(url)] == [None, None]


@pytest.mark.parametrize(
    'model, shown', [('tiny-2024-08-06', 'tiny-2024-08-06'), (None, '.untold.')]
)
def test_a_change_of_model_in_mid_run_is_refused(url, endpoint, model, shown):
    system = endpoint()
    system.replies(hellos(2))
    control(url, model=model)
    line = f'remote_model: the endpoint now answers as {shown}, this run began '
    with user_error(f'{line}with {NAME}'):
        system.replies(hellos(3))


def test_answers_of_another_model_or_address_are_not_taken_from_the_cache(
    url, endpoint
):
    endpoint().replies(hellos(1))
    control(url, model='tiny-2024-08-06')
    for address in ('v1', 'v2'):
        endpoint(remote_url=f'{url}/{address}').replies(hellos(1))
    assert len(received(url)) == 4  # their names, and a reply of each


def test_a_run_on_another_day_begins_with_the_name_of_that_day(tmp_path, url):
    opt = make_remote(tmp_path, url).opt
    pinned = pin(opt)
    control(url, model='tiny-2024-08-06')
    # the pinned name is not asked for
    assert pin(pinned) == pinned and contents(pinned) == {'remote_model': NAME}
    assert received(url) == []
    assert contents(opt) == {'remote_model': 'tiny-2024-08-06'}
    assert contents(pin(opt)) == contents(opt)


def test_a_service_without_a_name_is_its_address(tmp_path, url):
    control(url, model=None)
    opt = make_remote(tmp_path, url, remote_format='plain').opt
    assert pin(opt)['remote_dated_model'] == UNTOLD
    assert contents(pin(opt)) == {'remote_url': f'{url}/reply'}


@pytest.mark.parametrize('counted', [True, False])
def test_tokens_are_those_that_the_server_counts_or_estimated(url, endpoint, counted):
    control(url, usage=counted)
    # dollars a token: 1 and 10
    prices = {'remote_price_prompt': 1e6, 'remote_price_completion': 1e7}
    system = endpoint(**PINNED, **(prices if counted else {}))
    system.replies(hellos(1))
    # words, or a quarter of the characters, rounded up: 'hello 0' has two and seven
    reply = chat_reply('hello 0')
    n = len(reply.split()) if counted else (len(reply) + 3) // 4
    usage = system.usage
    assert (usage['prompt_tokens'], usage['completion_tokens']) == (2, n)
    assert usage['cost'] == (pytest.approx(2 + 10 * n) if counted else None)


COST = {'remote_price_prompt': 0, 'remote_price_completion': 1e6, **PINNED}  # $1 a word


@pytest.mark.parametrize('width', [1, 4])
def test_max_cost_is_not_passed(endpoint, width):
    opt = {'max_cost': 30, 'reply_max_tokens': 6, 'remote_concurrency': width, **COST}
    system = endpoint(**opt)
    with user_error(r'max_cost: \$.* of \$30 are spent'):
        system.replies(hellos(50))
    assert 24 < system.usage['cost'] <= 30
    if width == 1:
        spent = count = 0
        while spent + 6 <= 30:  # a reply is begun only if the longest one would fit
            spent += len(chat_reply(f'hello {count}').split())
            count += 1
        assert (system.usage['requests'], system.usage['cost']) == (count, spent)
