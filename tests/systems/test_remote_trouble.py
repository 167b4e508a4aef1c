"""
An endpoint that fails: what passes is waited for, how long; the rest is one line. What
was answered is in the cache, whatever happened to the process.
"""

import random
import sqlite3
import time
from email.utils import formatdate

import pytest

from parlai_ext.systems.remote.endpoint import Pace, ReplyCache, delay
from parlai_ext.systems.remote.settings import RemoteReply
from tests.support.chat_server import control, received
from tests.support.remote_samples import PINNED, chat_reply, hellos
from tests.support.user_error import error_line, user_error

pytest_plugins = ['tests.support.remote_samples']


@pytest.mark.parametrize(
    'trouble',
    [
        {'status': 500},
        {'status': 429},
        {'status': 200, 'body': {'error': {'message': 'upstream is ill'}}},
        'garbage',
        'reset',
        'cut',
    ],
)
def test_what_passes_is_waited_for_twice_as_long_each_time(
    url, replies_of, waits, trouble
):
    control(url, trouble, trouble)
    [answer] = replies_of()
    assert answer.text == chat_reply('hello 0')
    first, second = waits
    assert 0.5 <= first <= 1 and 1 <= second <= 2


@pytest.mark.parametrize(
    'header, least, most',
    [
        ('37', 37, 37),
        *(
            (header, 0.5, 1)  # as without one
            for header in ('soon', '-3', 'Thu, 01 Jan 1970 00:00:00 GMT')
        ),
        ('in 590 s', 50, 590),  # as a date
    ],
)
def test_the_wait_that_the_server_asks_for_is_kept(
    url, replies_of, waits, header, least, most
):
    if header == 'in 590 s':
        header = formatdate(time.time() + 590, usegmt=True)
    control(url, {'status': 429, 'headers': {'Retry-After': header}})
    replies_of()
    [wait] = waits
    assert least <= wait <= most


@pytest.mark.parametrize(
    'status, error, line',
    [
        (400, {'message': 'bad top_k'}, 'remote_url: .* refuses the request .*top_k'),
        (401, {'message': 'who?'}, 'remote_key_env: .* asks for a key, .* .401: who'),
        (404, {'message': 'no model tiny'}, 'remote_model: .* does not know tiny'),
        (404, {'message': 'no page'}, r'remote_url: .* refuses .*404: no page'),
        (429, {'code': 'insufficient_quota'}, 'remote_url: .* refuses the request'),
        (429, {}, r'remote_url: .*asks to wait 86400 s \(429'),
    ],
)
def test_what_does_not_pass_is_one_line_at_once(
    url, replies_of, waits, status, error, line
):
    more = {'headers': {'Retry-After': '86400'}, 'body': {'error': error}}
    control(url, {'status': status, **more})
    with user_error(line):
        replies_of()
    assert waits == []


def test_a_page_of_words_is_shortened(url, replies_of):
    control(url, {'status': 400, 'body': {'error': 'why ' * 500}})
    assert len(error_line(replies_of)) < 400


@pytest.mark.parametrize('act', ['hang', 'drip', 'drip head'])
def test_an_answer_that_takes_too_long_is_a_failure(url, endpoint, act):
    control(url, act, act)
    system = endpoint(remote_timeout=0.3, remote_retries=1, **PINNED)
    line = r'gives no answer after 2 tries \(no answer within 0.3 s\)'
    with user_error(line):
        system.replies(hellos(1))
    # both may have to be paid for: 'hello 0' is two tokens, and 128 the longest reply
    usage = system.usage
    assert (usage['prompt_tokens'], usage['completion_tokens']) == (4, 256)


def test_half_characters_of_an_endpoint_are_replaced(url, endpoint):
    message = {'content': 'half \ud83d', 'role': 'assistant'}
    body = {'choices': [{'message': message}], 'model': 'm \udc00'}
    control(url, *[{'status': 200, 'body': body}] * 2)
    system = endpoint()
    [reply] = system.replies(hellos(1))
    assert (reply.text, system.dated_name()) == ('half \ufffd', 'm \ufffd')


def test_an_endpoint_that_answers_in_another_format_is_not_out_of_reach(
    url, replies_of
):
    control(url, *[{'status': 200, 'body': {'you': 'sent'}}] * 2)
    line = r'gives no answer after 2 tries \(it answers in another format'
    with user_error(line):
        replies_of(remote_retries=1)


def test_what_was_answered_before_it_went_down_is_not_asked_again(
    url, endpoint, replies_of
):
    control(url, 'reply', 'reply', {'status': 400})
    with user_error():
        replies_of(4, remote_concurrency=1)
    control(url)
    again = endpoint(**PINNED)
    replies = [reply.text for reply in again.replies(hellos(4))]
    assert replies == [chat_reply(f'hello {i}') for i in range(4)]
    assert len(received(url)) == again.usage['requests'] == again.usage['cached'] == 2


def test_a_conversation_that_is_too_long_ends_alone(url, replies_of):
    error = {'code': 'context_length_exceeded', 'message': 'at most 8 tokens'}
    control(url, {'status': 400, 'body': {'error': error}})
    found = replies_of(2, remote_concurrency=1)
    assert [a.text is None for a in found] == [True, False]


@pytest.mark.parametrize('attempt, longest', [(6, 32), (9, 60)])
def test_waits_double_up_to_a_minute(attempt, longest):
    found = [delay(attempt, None) for _ in range(200)]
    assert longest / 2 <= min(found) <= max(found) <= longest
    assert len(set(found)) > 10  # so that many do not come back at once


def test_waiting_draws_no_number_of_those_that_are_seeded():
    random.seed(1)
    state = random.getstate()
    delay(3, None)
    assert random.getstate() == state


def test_after_a_pause_there_is_nothing_to_wait_for():
    clock = iter([0.0, 50.0])
    pace = Pace(30, clock=lambda: next(clock))
    assert [pace.reserve(1), pace.reserve(1)] == [0, 0]


def test_tokens_take_their_share_of_a_minute():
    # 100 of 600 tokens a minute are ten seconds
    pace = Pace(600, clock=lambda: 0.0)
    assert [pace.reserve(100), pace.reserve(1)] == [0, 10]


def test_of_two_answers_the_first_stays(tmp_path):
    # written for all at once, also for other processes, which have their own connection
    one, other = (ReplyCache(str(tmp_path / 'new' / 'c.sqlite')) for _ in range(2))
    one.put('k', RemoteReply('first'))
    assert other.put('k', RemoteReply('second')) == RemoteReply('first')


def test_a_file_that_is_no_cache_is_one_line(tmp_path):
    path = tmp_path / 'c.sqlite'
    path.write_text('not a database, and long enough to be taken for one' * 20)
    for place in (path, path / 'c.sqlite'):
        with user_error('remote_cache: .*c.sqlite cannot be used'):
            ReplyCache(str(place))


@pytest.mark.parametrize('row', ['', '[', '7', '{"nothing": 1}'])
def test_a_row_that_is_no_answer_is_one_line(tmp_path, row):
    path = str(tmp_path / 'c.sqlite')
    ReplyCache(path).put('k', RemoteReply('hi'))
    with sqlite3.connect(path) as file:
        file.execute('UPDATE answers SET answer = ?', (row,))
    with user_error('remote_cache: .*cannot be used'):
        ReplyCache(path).get('k')
