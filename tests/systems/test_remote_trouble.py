"""
An endpoint that fails: what passes is waited for, the rest is one line.
"""

import time

import pytest

from parlai_ext.systems.remote.endpoint import Endpoint
from parlai_ext.systems.remote.settings import Settings
from tests.support.chat_server import words_for
from tests.support.family_remote import control, make_remote, received, running_server
from tests.support.remote_samples import (
    NO_CACHE,
    PINNED,
    chat_reply,
    hellos,
    recorded,
    replies_of,
)
from tests.support.user_error import user_error

pytest_plugins = ['tests.support.remote_samples']


@pytest.mark.parametrize(
    'trouble',
    [
        {'status': 500},
        {'status': 503, 'body': {'error': {'message': 'overloaded'}}},
        {'status': 408},
        {'status': 429},
        {'status': 200, 'body': {'error': {'message': 'upstream is ill'}}},
        'garbage',
        'reset',
        'cut',
    ],
)
def test_what_passes_is_waited_for_twice_as_long_each_time(
    url, endpoint, waits, trouble
):
    control(url, script=[trouble, trouble])
    [answer] = replies_of(endpoint)
    assert answer.text == chat_reply('hello 0')
    first, second = waits
    assert 0.5 <= first <= 1 and 1 <= second <= 2


def test_the_wait_that_the_server_asks_for_is_kept(url, endpoint, waits):
    control(url, script=[{'status': 429, 'headers': {'Retry-After': '37'}}])
    replies_of(endpoint)
    assert waits == [37.0]


def test_a_server_that_asks_for_a_day_is_not_waited_for(url, endpoint, waits):
    control(url, script=[{'status': 429, 'headers': {'Retry-After': '86400'}}])
    with user_error(r'remote_url: .*asks to wait 86400 s \(429'):
        replies_of(endpoint)
    assert waits == []


@pytest.mark.parametrize(
    'status, error, line',
    [
        (400, {'message': 'bad top_k'}, 'remote_url: .* refuses the request .*top_k'),
        (401, {'message': 'who?'}, 'remote_key_env: .* not accept no key .401: who'),
        (404, {'message': 'no model tiny'}, 'remote_model: .* does not know tiny'),
        (404, {'message': 'no page'}, r'remote_url: .* refuses .*404: no page'),
        (429, {'code': 'insufficient_quota'}, 'remote_url: .* refuses the request'),
    ],
)
def test_what_does_not_pass_is_one_line_at_once(
    url, endpoint, waits, status, error, line
):
    control(url, script=[{'status': status, 'body': {'error': error}}])
    with user_error(line):
        replies_of(endpoint)
    assert waits == []


def test_a_page_of_words_is_shortened(url, endpoint):
    control(url, script=[{'status': 400, 'body': {'error': 'why ' * 500}}])
    with user_error() as raised:
        replies_of(endpoint)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize('act', ['hang', 'drip', 'drip head'])
def test_an_answer_that_takes_too_long_is_a_failure(url, endpoint, waits, act):
    control(url, script=[act] * 2)
    system = endpoint(remote_timeout=0.3, remote_retries=1, **PINNED)
    line = r'cannot be reached after 2 tries \(no answer within 0.3 s\)'
    with user_error(line):
        system.replies(hellos(1))
    # both may have to be paid for: 'hello 0' is two tokens, and 128 the longest reply
    usage = system.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (4, 256)


def test_after_an_answer_that_took_too_long_another_try_succeeds(url, endpoint, waits):
    control(url, script=['drip head', 'reply', 'drip head'])
    system = endpoint(remote_timeout=0.5, remote_retries=1, **PINNED)
    begun = time.monotonic()
    replies = system.replies(hellos(1)) + system.replies(hellos(2))
    assert time.monotonic() - begun < 10  # both drip for 20 s
    assert [r.text for r in replies] == [chat_reply(f'hello {i}') for i in (0, 0, 1)]
    # of two lost requests and two answers; 'hello 0' comes from the cache again
    assert (system.usage.requests, system.usage.cached) == (4, 1)


def test_half_characters_of_an_endpoint_are_replaced(url, endpoint, tmp_path):
    message = {'content': 'half \ud83d', 'role': 'assistant'}
    body = {'choices': [{'message': message}], 'model': 'm \udc00'}
    control(url, script=[{'status': 200, 'body': body}] * 2)
    [reply] = endpoint().replies(hellos(1))
    assert (reply.text, reply.model) == ('half \ufffd', 'm \ufffd')
    control(url, script=[{'status': 400, 'body': {'error': 'no \ud83d'}}])
    with user_error('no \ufffd'):
        endpoint(**NO_CACHE).replies(hellos(1))


def test_an_endpoint_that_answers_in_another_format_is_not_out_of_reach(url, endpoint):
    control(url, script=[{'status': 200, 'body': {'you': 'sent'}}] * 2)
    line = r'gives no answer after 2 tries \(it answers in another format'
    with user_error(line):
        replies_of(endpoint, remote_retries=1)


def test_a_server_that_goes_down_is_one_line(tmp_path, waits):
    with running_server(down_after=3) as url:
        opt = make_remote(tmp_path, url, remote_concurrency=1, **PINNED).opt
        system = Endpoint(Settings.from_options(opt), wait=recorded(waits))
        line = (
            'remote_url: http://127.0.0.1:.* cannot be reached after 6 tries .*refused'
        )
        with user_error(line):
            system.replies(hellos(6))
    assert len(waits) == 5


def test_what_was_answered_before_it_went_down_is_not_asked_again(tmp_path, url, waits):
    opt = make_remote(tmp_path, url, remote_concurrency=1, **PINNED).opt
    control(url, script=['reply', 'reply', {'status': 400}])
    with user_error():
        Endpoint(Settings.from_options(opt)).replies(hellos(4))
    control(url)
    Endpoint(Settings.from_options(opt)).replies(hellos(4))
    assert len(received(url)) == 2


def test_a_conversation_that_is_too_long_ends_alone(url, endpoint):
    error = {'code': 'context_length_exceeded', 'message': 'at most 8 tokens'}
    control(url, script=[{'status': 400, 'body': {'error': error}}])
    found = replies_of(endpoint, 2, remote_concurrency=1)
    assert [a.text is None for a in found] == [True, False]


def test_an_error_of_a_plain_service_ends_one_conversation(url, endpoint):
    control(url, script=['filter'])
    system = endpoint(remote_format='plain', remote_concurrency=1, **PINNED)
    first, second = system.replies(hellos(2))
    assert (first.text, first.reason) == (None, 'I will not say')
    assert second.text == words_for([('other', 'hello 1')])
