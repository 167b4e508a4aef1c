"""
Requests and answers of both formats.
"""

import json

import pytest

from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn
from parlai_ext.systems.remote import openai, plain
from parlai_ext.systems.remote.replies import (
    Malformed,
    RemoteReply,
    estimated_tokens,
    shortened,
)
from parlai_ext.systems.remote.settings import Settings

TURNS = [
    ChatTurn(False, 'What did you do today?'),
    ChatTurn(True, 'I baked bread.'),
    ChatTurn(False, 'Oh nice, what kind?'),
]


def settings(**opt):
    return Settings.from_options(
        {'remote_url': 'http://h/v1', 'remote_model': 'm', **opt}
    )


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
        'messages': [
            {'role': 'system', 'content': 'Be kind.'},
            {'role': 'user', 'content': 'What did you do today?'},
            {'role': 'assistant', 'content': 'I baked bread.'},
            {'role': 'user', 'content': 'Oh nice, what kind?'},
        ],
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


def test_who_said_it_is_part_of_the_id():
    swapped = [ChatTurn(not turn.mine, turn.text) for turn in TURNS]
    assert plain.conversation_id(TURNS) != plain.conversation_id(swapped)


@pytest.mark.parametrize(
    'data, text, reason',
    [
        ({'text': 'Hi.'}, 'Hi.', None),
        ({'text': ''}, '', None),
        ({'text': None}, None, 'no text'),
        ({'error': 'no\nwords'}, None, 'no words'),
        ({'error': {'message': 'ill'}}, None, 'ill'),
    ],
)
def test_plain_answers(data, text, reason):
    assert plain.reply(data) == RemoteReply(text, reason)


@pytest.mark.parametrize('data', [[], 'Hi.', {}, {'text': 3}, {'text': ['Hi.']}])
def test_what_is_no_plain_answer(data):
    with pytest.raises(Malformed):
        plain.reply(data)


@pytest.mark.parametrize(
    'choice, text, reason',
    [
        ({'message': {'content': 'Hi.'}, 'finish_reason': 'stop'}, 'Hi.', None),
        (
            {'message': {'content': 'Hi, the'}, 'finish_reason': 'length'},
            'Hi, the',
            None,
        ),
        (
            {'message': {'content': ''}, 'finish_reason': 'content_filter'},
            None,
            'no text: content filter',
        ),
        (
            {'message': {'content': None, 'refusal': 'No.'}, 'finish_reason': 'stop'},
            None,
            'no text: refused: No.',
        ),
        (
            {'message': {'content': None}, 'finish_reason': 'tool_calls'},
            None,
            'no text: it ended by tool_calls',
        ),
    ],
)
def test_chat_answers(choice, text, reason):
    assert openai.reply({'choices': [choice]}) == RemoteReply(text, reason)


@pytest.mark.parametrize(
    'data',
    [
        [],
        {'choices': []},
        {'choices': [{'text': 'Hi.'}]},
        {'choices': [{'message': {'content': [{'type': 'text'}]}}]},
        {'error': {'message': 'ill'}},
    ],
)
def test_what_is_no_chat_answer(data):
    with pytest.raises(Malformed):
        openai.reply(data)


@pytest.mark.parametrize('code', ['content_filter', 'context_length_exceeded'])
def test_some_errors_concern_one_conversation(code):
    assert openai.refusal({'error': {'code': code}})
    assert not openai.refusal({'error': {'code': 'model_not_found'}})


def test_four_characters_are_a_token():
    assert [estimated_tokens('x' * n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_long_words_are_one_short_line():
    assert shortened('a\n b') == 'a b'
    assert len(shortened('word ' * 999)) == 200
