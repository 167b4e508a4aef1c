"""
Options of a remote system: what cannot be meant, or is not safe, is one line; requests
and answers of both formats.
"""

import json

import pytest

from parlai_ext.core import System
from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn, messages
from parlai_ext.systems.identity import resolve
from parlai_ext.systems.remote import openai, plain
from parlai_ext.systems.remote.settings import RemoteReply, Settings
from tests.support.user_error import error_line, user_error

LOCAL = {'remote_url': 'http://localhost:8000/v1', 'remote_model': 'm'}


KEY = 'sk-proj-0123456789abcdef'


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
    monkeypatch.setenv('TRY_KEY', f'{KEY}\n')
    made = settings(remote_key_env='TRY_KEY')
    assert made.key() == KEY and KEY not in repr(made)


@pytest.mark.parametrize(
    'is_confined, line', [(False, 'is not set'), (True, 'is kept from .*--datapath')]
)
def test_a_variable_without_a_key_is_one_line(is_confined, line, monkeypatch):
    monkeypatch.delenv('TRY_KEY', raising=False)
    place = 'parlai_ext.systems.remote.settings.is_confined'
    monkeypatch.setattr(place, lambda: is_confined)
    with user_error(rf'remote_key_env: \$TRY_KEY {line}'):
        settings(remote_key_env='TRY_KEY')


@pytest.mark.parametrize('key', ['sk-proj-123456', 'gsk_abcDEF123456', 'abcdef'])
def test_a_key_in_the_place_of_its_variable_is_not_repeated(key):
    line = error_line(settings, remote_key_env=key)
    assert 'remote_key_env' in line and key not in line


@pytest.mark.parametrize('key', ['two words', 'línea', 'tab\tbed'])
def test_a_key_that_no_header_can_hold_is_not_repeated(monkeypatch, key):
    monkeypatch.setenv('TRY_KEY', key)
    line = error_line(settings, remote_key_env='TRY_KEY')
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
def test_the_key_leaves_the_machine_encrypted(monkeypatch, url, insecure, fine):
    monkeypatch.setenv('TRY_KEY', KEY)
    opt = {'remote_url': url, 'remote_key_env': 'TRY_KEY', 'remote_insecure': insecure}
    found = resolve(System('x', {'model': 'ext:remote', **LOCAL, **opt}))
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
