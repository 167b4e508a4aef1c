"""
Remote systems against a real server in a process of its own: replies, the way to the
endpoint (redirects, proxies, cookies), the model's name, tokens and money.
"""

import json
import logging
import os
import random
import re
import signal
import sqlite3
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from email.utils import formatdate
from multiprocessing import get_context

import pytest

from parlai_ext.commands.command import fail
from parlai_ext.core import System, UserError, Utterance, name_secret
from parlai_ext.engines import data_in
from parlai_ext.store import RunFolder
from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn, messages
from parlai_ext.systems.families import Remote
from parlai_ext.systems.identity import resolve
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.remote import openai, plain
from parlai_ext.systems.remote.endpoint import Pace, ReplyCache, delay
from parlai_ext.systems.remote.settings import UNTOLD, RemoteReply, Settings
from tests.support.chat_server import control, most_at_once, received
from tests.support.lockstep_play import play, row
from tests.support.remote_samples import (
    NAME,
    NO_CACHE,
    PINNED,
    chat_reply,
    hellos,
    make_remote,
)
from tests.support.store_samples import first_shard, sample_dialogue, sample_manifest
from tests.support.talk import heard
from tests.support.user_error import error_line, user_error

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


# ---- An endpoint that fails: what passes is waited for, how long; the rest is one
# line. What was answered is in the cache, whatever happened to the process.


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


# ---- The key goes to the endpoint, and nowhere else.

KEY = 'sk-proj-Zq81xkT0rVbN5d'
KEYED = {'remote_key_env': 'TRY_REMOTE_KEY', 'remote_retries': 1, **PINNED}


@pytest.fixture(autouse=True)
def remote_key(monkeypatch):
    """
    The key, where the options say that it is.
    """
    monkeypatch.setenv('TRY_REMOTE_KEY', KEY)


def test_without_a_variable_no_key_is_sent(url, replies_of, tmp_path, monkeypatch):
    # requests would take this one
    (tmp_path / 'netrc').write_text('machine 127.0.0.1 login me password pw\n')
    monkeypatch.setenv('NETRC', str(tmp_path / 'netrc'))
    replies_of()
    assert received(url)[0]['key'] is None


def test_a_new_key_is_taken_up_while_the_run_goes_on(url, endpoint, monkeypatch):
    system = endpoint(**KEYED)
    system.replies(hellos(1))
    monkeypatch.setenv('TRY_REMOTE_KEY', 'sk-another-one')
    system.replies(hellos(2))
    assert received(url)[1]['key'] == 'Bearer sk-another-one'


TROUBLES = {
    'whole': {'status': 401, 'body': {'error': {'message': f'wrong key: {KEY}'}}},
    'masked': {'status': 401, 'body': {'error': f'wrong key: {KEY[:7]}****5d.'}},
    'no JSON': {'status': 500, 'body': f'you sent Bearer {KEY}'},
    'another format': {'status': 200, 'body': {'you sent': KEY}},
    'in the way': {'status': 302, 'headers': {'Location': f'http://x/?key={KEY}'}},
    'reset': 'reset',
}


@pytest.mark.parametrize('trouble', TROUBLES.values(), ids=TROUBLES)
def test_no_line_about_a_failure_holds_the_key(url, replies_of, caplog, trouble):
    caplog.set_level(logging.DEBUG)
    control(url, trouble, trouble)
    with user_error() as raised:
        replies_of(**KEYED)
    words = ''.join(traceback.format_exception(raised.value)) + caplog.text
    assert KEY[:7] not in words.replace('TRY_REMOTE_KEY', '')


def test_a_server_that_says_the_key_aloud_does_not_get_it_into_the_cache(
    url, replies_of, tmp_path
):
    message = {'content': f'You are {KEY}, are you?'}
    body = {'choices': [{'message': message}], 'model': PINNED['remote_dated_model']}
    control(url, {'status': 200, 'body': body})
    [answer] = replies_of(**KEYED)
    assert answer.text == 'You are $TRY_REMOTE_KEY, are you?'
    files = [path for path in tmp_path.rglob('*') if path.is_file()]
    assert files
    assert not any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize(
    'option, value',
    [
        ('remote_url', f'http://localhost/{KEY.replace("-", "%2D")}'),
        ('remote_model', KEY),
        ('remote_extra', {'user': [f'me {KEY}']}),
        ('remote_cache', f'/tmp/{KEY}.sqlite'),
    ],
)
def test_an_option_that_holds_the_key_is_refused(option, value, endpoint):
    with user_error(rf'^{option}: .*\$TRY_REMOTE_KEY') as raised:
        endpoint(**{**KEYED, option: value})
    assert KEY not in str(raised.value)


def in_path(url, key):
    return {'remote_url': f'{url}/hook/{key}/v1'}


@pytest.mark.parametrize('key', [KEY, 'tea', 'hunter2', 'a/b', 'x'])
def test_a_key_in_the_path_is_posted_and_shown_by_its_name(
    url, endpoint, monkeypatch, tmp_path, key
):
    # a short one is hidden where it is a whole part of the path
    monkeypatch.setenv('TRY_REMOTE_KEY', key)
    system = endpoint(**KEYED, **in_path(url, f'{key}/teas'))
    shown = f'{url}/hook/$TRY_REMOTE_KEY/teas/v1/chat/completions'
    assert system.settings.endpoint == shown
    named = endpoint(**KEYED, **in_path(url, '$TRY_REMOTE_KEY/teas'))
    assert named.settings == system.settings
    control(url, {'status': 404})
    with user_error(re.escape(f'remote_url: {shown} refuses')):
        system.replies(hellos(1))
    assert received(url)[0]['path'] == f'/hook/{key}/teas/v1/chat/completions'
    opt = {**make_remote(tmp_path, url, **KEYED).opt, **in_path(url, key)}
    assert pin(opt)['remote_url'] == f'{url}/hook/$TRY_REMOTE_KEY/v1'


@pytest.fixture
def named_secret(monkeypatch):
    """
    A secret with characters that JSON spells otherwise.
    """
    monkeypatch.setenv('ANOTHER_KEY', 'sk-"quoted"-012')
    name_secret('ANOTHER_KEY')
    return 'sk-"quoted"-012'


def test_a_named_secret_is_in_no_file_of_a_run(tmp_path, named_secret):
    hidden = 'https://x/$ANOTHER_KEY/v1'
    manifest = sample_manifest()
    manifest.systems['a'] = {'remote_url': f'https://x/{named_secret}/v1'}
    run = RunFolder.open(tmp_path, manifest)
    assert RunFolder.existing(tmp_path).manifest.systems['a']['remote_url'] == hidden
    told = Utterance('p1', f'my key is {named_secret}')
    shard = first_shard(run)
    made = [sample_dialogue(run.pairings[0], one) for one in run.openers[: shard.stop]]
    dialogues = [replace(one, utterances=(*one.utterances, told)) for one in made]
    run.write_dialogues(shard, dialogues)
    assert run.read_dialogues(shard)[0].utterances[-1].text == 'my key is $ANOTHER_KEY'
    run.write_json('some.json', {'why': [named_secret]})
    run.write_text('report.html', f'<p>{named_secret}</p>')
    for path in tmp_path.rglob('*'):
        assert path.is_dir() or b'quoted' not in path.read_bytes(), path


def test_a_named_secret_is_in_no_line(named_secret, caplog, capsys):
    assert str(UserError(f'at {named_secret}/v1')) == 'at $ANOTHER_KEY/v1'
    logging.getLogger('anybody').warning('url %s', named_secret)
    assert caplog.messages[-1] == 'url $ANOTHER_KEY'
    with pytest.raises(SystemExit):
        fail(f'it is {named_secret}')
    assert capsys.readouterr().err == 'error: it is $ANOTHER_KEY\n'


def test_a_short_key_is_a_word_like_others(endpoint, monkeypatch):
    monkeypatch.setenv('TRY_REMOTE_KEY', 'tea')  # as "EMPTY" and "ollama" are
    assert endpoint(**KEYED).settings.without_key('a cup of tea') == 'a cup of tea'


# ---- Options of a remote system: what cannot be meant, or is not safe, is one line;
# requests and answers of both formats.

LOCAL = {'remote_url': 'http://localhost:8000/v1', 'remote_model': 'm'}


def settings(**opt):
    return Settings.from_options({**LOCAL, **opt})


@pytest.mark.parametrize(
    'url, posted',
    [
        ('https://api.example/v1/', 'https://api.example/v1/chat/completions'),
        (
            'https://api.example/v1/chat/completions',
            'https://api.example/v1/chat/completions',
        ),
        ('http://[::1]:1/v1?v=2', 'http://[::1]:1/v1/chat/completions?v=2'),
    ],
)
def test_the_chat_path_is_added_once(url, posted):
    assert settings(remote_url=url).endpoint == posted


@pytest.mark.parametrize(
    'opt',
    [
        {'remote_url': None},
        {'remote_url': 'file:///etc/passwd'},
        {'remote_url': 'localhost:8000/v1'},
        {'remote_url': 'http://host:99999/'},
        {'remote_url': 'http://'},
        {'remote_model': None},
        {'remote_temperature': -1},
        {'remote_extra': '[1]'},
        {'remote_extra': '{'},
        {'remote_extra': {'x': float('nan')}},
        {'remote_insecure': 'maybe'},
        {'max_cost': 1},
    ],
)
def test_what_cannot_be_meant_is_one_line_with_its_option(opt):
    [option] = opt
    assert error_line(settings, **opt).startswith(f'{option}: ')


@pytest.mark.parametrize('spelled', ['{"a": null, "b": 2}', "{'b': 2, 'a': None}"])
def test_extra_is_json_or_what_parlai_makes_of_a_mapping(spelled):
    assert settings(remote_extra=spelled) == settings(remote_extra={'a': None, 'b': 2})


@pytest.mark.parametrize(
    'url',
    [
        'https://me:secret@api.example/v1',
        'https://api.example/v1?api_key=secret',
        'https://api.example/v1?x=1&access_token=secret',
    ],
)
def test_a_secret_in_the_url_is_refused_and_not_repeated(url):
    line = error_line(settings, remote_url=url)
    assert line.startswith('remote_url: there is a key') and 'secret' not in line


@pytest.mark.parametrize(
    'opt, place',
    [
        ({}, '/data/parlai_ext/remote_cache.sqlite'),
        ({'remote_cache': 'None'}, None),
    ],
)
def test_the_cache_is_in_the_data_folder_unless_none_is_asked_for(opt, place):
    assert settings(**opt, datapath='/data').cache == place


def test_the_key_comes_from_the_environment_and_stays_there(monkeypatch):
    monkeypatch.setenv('TRY_REMOTE_KEY', f'{KEY}\n')
    made = settings(remote_key_env='TRY_REMOTE_KEY')
    assert made.key() == KEY and KEY not in repr(made)


@pytest.mark.parametrize(
    'is_confined, line', [(False, 'is not set'), (True, 'is kept from .*--datapath')]
)
def test_a_variable_without_a_key_is_one_line(is_confined, line, monkeypatch):
    monkeypatch.delenv('TRY_REMOTE_KEY', raising=False)
    place = 'parlai_ext.systems.remote.settings.is_confined'
    monkeypatch.setattr(place, lambda: is_confined)
    with user_error(rf'remote_key_env: \$TRY_REMOTE_KEY {line}'):
        settings(remote_key_env='TRY_REMOTE_KEY')


@pytest.mark.parametrize('key', ['sk-proj-123456', 'gsk_abcDEF123456', 'abcdef'])
def test_a_key_in_the_place_of_its_variable_is_not_repeated(key):
    line = error_line(settings, remote_key_env=key)
    assert 'remote_key_env' in line and key not in line


@pytest.mark.parametrize('key', ['two words', 'línea', 'tab\tbed'])
def test_a_key_that_no_header_can_hold_is_not_repeated(monkeypatch, key):
    monkeypatch.setenv('TRY_REMOTE_KEY', key)
    line = error_line(settings, remote_key_env='TRY_REMOTE_KEY')
    assert 'holds no key' in line and key not in line


@pytest.mark.parametrize(
    'url, insecure, fine',
    [
        ('https://api.example/v1', False, True),
        ('http://localhost/v1', False, True),
        ('http://127.0.0.5:1/v1', False, True),
        ('http://[::1]/v1', False, True),
        ('http://api.example/v1', False, False),
        ('http://10.0.0.7/v1', False, False),
        ('http://localhost.example/v1', False, False),
        ('http://api.example/v1', True, True),
    ],
)
def test_the_key_leaves_the_machine_encrypted(url, insecure, fine):
    opt = {**LOCAL, **KEYED, 'remote_url': url, 'remote_insecure': insecure}
    found = resolve(System('x', {'model': 'ext:remote', **opt}))
    assert (found.status == 'present') == fine
    assert fine or found.reason.startswith('remote_url: ')


@pytest.mark.parametrize(
    'extra, name',
    [
        ({'a': [{'headers': {'Authorization': 'Bearer x'}}]}, 'Authorization'),
        ({'headers': {'X-API-Key': 'x'}}, 'X-API-Key'),
        *(
            ({name: 'x'}, name)
            for name in ('api_key', 'password', 'client_secret', 'token', 'accessToken')
        ),
    ],
)
def test_a_secret_is_no_extra(extra, name):
    line = error_line(settings, remote_extra=extra)
    assert line.startswith(f'remote_extra: {name} would be written to the run folder')
    assert 'remote_key_env' in line and 'Bearer x' not in line


def test_words_like_a_secrets_are_extras():
    extra = {'max_tokens': 5, 'eos_token': 'x', 'logit_bias': {'1': 2}, 'api_key': None}
    extra |= {'max_completion_tokens': 5, 'stop_token_ids': [1], 'keyword': 'x'}
    assert settings(remote_extra=extra).extra


TURNS = [
    ChatTurn(False, 'What did you do today?'),
    ChatTurn(True, 'I baked bread.'),
    ChatTurn(False, 'Oh nice, what kind?'),
]


def documented(begin):
    """
    Return the JSON object of the plain format's page that begins like this.
    """
    page = plain.__doc__
    return json.JSONDecoder().raw_decode(page[page.index(begin) :])[0]


def test_a_chat_request_in_full():
    style = ChatStyle(system_prompt='Be kind.', stop=('A', 'B', 'C', 'D', 'E'))
    opt = {'remote_temperature': 0, 'remote_top_p': 0.9, 'remote_seed': 3}
    assert openai.request(TURNS, style, settings(**opt)) == {
        'model': 'm',
        'messages': messages(TURNS, style),
        'max_tokens': 128,
        'temperature': 0,
        'top_p': 0.9,
        'seed': 3,
        'stop': ['A', 'B', 'C', 'D'],
    }


def test_extra_adds_fields_and_null_takes_them_out():
    extra = {'max_tokens': None, 'max_completion_tokens': 50}
    body = openai.request(TURNS, ChatStyle(), settings(remote_extra=extra))
    assert sorted(body) == ['max_completion_tokens', 'messages', 'model']


def test_the_page_of_the_plain_format_shows_a_real_request():
    asked = Settings.from_options({'remote_url': 'http://h/', 'remote_format': 'plain'})
    assert plain.request(TURNS, ChatStyle(), asked) == documented('{"id"')


def test_the_page_of_the_plain_format_shows_a_real_answer():
    found = plain.reply(documented('{"text"'))
    assert found == RemoteReply('Sourdough!', None, None, 'bakerbot 2024-05-01', 21, 3)


def test_a_request_follows_the_request_whose_reply_it_hears():
    style, asked = ChatStyle(), settings(remote_format='plain')
    first = plain.request(TURNS[:1], style, asked)
    later = plain.request(TURNS, style, asked)
    assert 'follows' not in first
    assert later['follows'] == first['id']


@pytest.mark.parametrize(
    'data, text, reason',
    [
        ({'text': 'Hi.'}, 'Hi.', None),
        ({'text': None}, None, 'no text'),
        ({'error': 'no\nwords'}, None, 'no words'),
        ({'error': {'message': 'ill'}}, None, 'ill'),
    ],
)
def test_plain_answers(data, text, reason):
    assert plain.reply(data) == RemoteReply(text, reason)


@pytest.mark.parametrize(
    'message, ended, text, reason',
    [
        ({'content': 'Hi.'}, 'stop', 'Hi.', None),
        ({'content': ''}, 'content_filter', None, 'no text: content filter'),
        ({'content': ''}, 'stop', '', None),
        # thoughts took all the tokens
        ({'content': ''}, 'length', None, f'no text: {openai.NO_TEXT["length"]}'),
        ({'content': None, 'refusal': 'No.'}, 'stop', None, 'no text: refused: No.'),
        ({'content': None}, 'tool_calls', None, 'no text: it ended by tool_calls'),
    ],
)
def test_chat_answers(message, ended, text, reason):
    choice = {'message': message, 'finish_reason': ended}
    assert openai.reply({'choices': [choice]}) == RemoteReply(text, reason)


def test_a_reply_that_length_ended_is_cut():
    choice = {'message': {'content': 'I think'}, 'finish_reason': 'length'}
    reply = openai.reply({'choices': [choice]})
    assert (reply.text, reply.is_cut) == ('I think', True)


@pytest.mark.parametrize(
    'form, data',
    [
        *((plain, data) for data in ([], {}, {'text': 3})),
        (openai, []),
        (openai, {'choices': []}),
        (openai, {'choices': [{'message': {'content': [{'type': 'text'}]}}]}),
    ],
)
def test_what_is_no_answer(form, data):
    with pytest.raises(ValueError):
        form.reply(data)


# ---- `ext:remote` takes a seat: an agent like others, whatever is behind its URL.

SAID = [(f'I saw {n} boats today.', 'Did you like them?') for n in '123']
LANES = [*(row('a', 'b', texts) for texts in SAID), row('b', 'a', SAID[0])]


def player(folder, url, name='a', **opt):
    with data_in(str(folder)):
        return load_system(make_remote(folder, url, name, **opt))


def pair(folder, url, **opt):
    """
    Two systems that say different things, since they have different prompts.
    """
    prompts = {'a': 'You are A.', 'b': 'You are B.'}
    return {
        name: player(folder, url, name, system_prompt=prompt, **opt)
        for name, prompt in prompts.items()
    }


@pytest.mark.parametrize('form', ['openai', 'plain'])
def test_twelve_utterances_together_are_those_one_by_one(tmp_path, url, form):
    opt = {'remote_format': form, 'remote_cache': 'none'}
    found = play(LANES, pair(tmp_path, url, **opt), 12)
    assert [(len(d.utterances), d.reason) for d in found] == [(12, None)] * 4
    # what is said depends on what was: no two dialogues go on alike
    assert len({tuple(u.text for u in d.utterances[2:]) for d in found}) == 4
    seated = pair(tmp_path, url, **opt)
    assert [play([one], seated, 12)[0] for one in LANES] == found


def test_a_reply_ends_at_a_stop_string(tmp_path, url):
    control(url, echo=True)
    [participant] = heard(player(tmp_path, url, stop=['train', 'boat']), ['a boat'])
    # the server sends the messages back: [["user", "a boat"]]
    assert participant.agent.act()['text'] == '[["user", "a'


def test_paid_replies_outlive_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv('PARLAI_DATAPATH', raising=False)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    system = System(
        'a',
        {
            'model': 'ext:remote',
            'remote_model': 'm',
            'remote_url': 'http://localhost:9/v1',
        },
    )
    cache = load_system(system).agent.engine.settings.cache
    assert cache == f'{tmp_path}/parlai_ext/parlai_ext/remote_cache.sqlite'


def test_a_conversation_without_an_answer_ends_alone(tmp_path, url):
    seated = pair(tmp_path, url, remote_concurrency=1)
    # the first tells the model's name
    control(url, 'reply', 'filter', 'empty', 'reply')
    found = play(LANES[:3], seated, 4)
    assert [(d.ended_by, d.reason) for d in found] == [
        ('a', 'no text: content filter'),
        ('a', 'empty reply'),
        (None, None),
    ]


def test_spending_is_counted_on_after_an_agent_is_loaded_again(tmp_path, url):
    opt = {'remote_cache': 'none', 'remote_dated_model': 'tiny-2024-05-13'}
    for n in (1, 2):
        seated = player(tmp_path, url, **opt)
        seated.respond(heard(seated, ['Hi.']))
        assert seated.agent.usage['requests'] == n
