"""
Chat messages, worked out with a pencil for every first-turn policy; what of a model's
text is its reply; and templates, rendered as transformers does, at small cost.
"""

import pytest

from parlai_ext.commands import plugin
from parlai_ext.core import add_declared
from parlai_ext.isolation import fork_server
from parlai_ext.systems.chat import messages as rendering
from parlai_ext.systems.chat.messages import (
    FIRST_TURNS,
    TODAY,
    ChatStyle,
    ChatTurn,
    TemplateProblem,
    fix_date,
    messages,
    render_chat,
    reply_from,
)
from tests.support.family_hf import TEMPLATE, make_tokenizer
from tests.support.forked import said_in_child
from tests.support.user_error import user_error

ME, YOU = True, False


TOLD = 'You began this conversation by saying:'


FIRST = [ChatTurn(ME, 'my dog died'), ChatTurn(YOU, 'oh no')]


def chat(*lines):
    """
    Return the messages that are written as `role: content`.
    """
    pairs = [line.split(': ', 1) for line in lines]
    return [{'role': role, 'content': content} for role, content in pairs]


@pytest.mark.parametrize(
    'policy, expected',
    [
        ('ask', chat('user: Begin!', 'assistant: my dog died', 'user: oh no')),
        ('system', chat(f'system: {TOLD} my dog died', 'user: oh no')),
        ('drop', chat('user: oh no')),
        ('keep', chat('assistant: my dog died', 'user: oh no')),
    ],
)
def test_a_first_turn_of_ones_own(policy, expected):
    style = ChatStyle(first_turn=policy, first_turn_ask='Begin!')
    assert messages(FIRST, style) == expected


@pytest.mark.parametrize('policy', FIRST_TURNS)
def test_no_policy_touches_a_conversation_that_the_other_began(policy):
    expected = chat(
        'system: Be brief.', 'user: hi', 'assistant: hello', 'user: you ok?'
    )
    turns = [ChatTurn(YOU, 'hi'), ChatTurn(ME, 'hello'), ChatTurn(YOU, 'you ok?')]
    assert messages(turns, ChatStyle('Be brief.', policy)) == expected


def test_a_moved_first_turn_follows_the_system_prompt():
    style = ChatStyle('Be brief.', 'system')
    [moved] = chat(f'system: Be brief.\n\n{TOLD} my dog died')
    assert messages(FIRST, style)[0] == moved


@pytest.mark.parametrize('policy', FIRST_TURNS)
def test_there_always_is_a_users_message(policy):
    style = ChatStyle(first_turn=policy, first_turn_ask='Begin!')
    for turns in ([], FIRST[:1]):
        assert chat('user: Begin!')[0] in messages(turns, style)


def test_neighbours_of_one_role_are_one_message():
    turns = [ChatTurn(*turn) for turn in zip((YOU, YOU, ME, ME), 'abcd', strict=True)]
    assert messages(turns, ChatStyle()) == chat('user: a\nb', 'assistant: c\nd')


@pytest.mark.parametrize(
    'text, reply',
    [
        (' fine, and you? ', 'fine, and you?'),
        ('fine User: hi\nbye', 'fine'),
        ('User: hi', ''),
        ('<think>User: sad?\n</think>\n\nfine\nbye', 'fine'),
        ('<think>sad? User: </think>fine\nUser: hi', 'fine'),
        ('so the User: is sad</think> fine', 'fine'),
        ('<think>and so on, until the cap', None),
        ('I <think> so', 'I <think> so'),
    ],
)
def test_a_reply_ends_at_the_first_stop_string_after_the_thoughts(text, reply):
    read = reply_from(text, ChatStyle(stop=('\n', 'User:')))
    assert read.text == reply
    assert ('reply_max_tokens' in str(read.reason)) == (reply is None)


def parser():
    from parlai.core.params import ParlaiParser

    plugin.register()
    made = ParlaiParser(False, False)
    add_declared(made, [ChatStyle])
    return made


@pytest.mark.parametrize(
    'given, stop',
    [
        (['\n', 'User:'], ('\n', 'User:')),
        ('User:', ('User:',)),
        ('["Oh, no", "--"]', ('Oh, no', '--')),
        ('[INST]', ('[INST]',)),
    ],
)
def test_stop_strings_of_a_roster_file(given, stop):
    assert ChatStyle.from_options(parser().parse_kwargs(stop=given)).stop == stop


def test_stop_can_be_repeated_on_a_command_line():
    opt = parser().parse_args(['--stop', 'A:', '--stop', 'B:'])
    assert ChatStyle.from_options(opt).stop == ('A:', 'B:')


@pytest.mark.parametrize(
    'opt', [{'first_turn': 'never'}, {'first_turn_ask': ' '}, {'stop': ['a', '']}]
)
def test_a_style_that_cannot_be_meant_is_refused(opt):
    [option] = opt
    with user_error(f'^{option}: '):
        ChatStyle.from_options(opt)


MESSAGES = [
    {'role': 'system', 'content': 'Be kind.'},
    {'role': 'user', 'content': 'tea? \u2028 \U0001f600 <b>&amp;</b> \ud83d'},
    {'role': 'assistant', 'content': ' warm\n'},
    {'role': 'user', 'content': 'rain'},
]


@pytest.fixture(scope='module')
def tokenizer():
    return make_tokenizer(['tea', 'rain'])


@pytest.fixture
def rendered(tokenizer):
    """
    A function that returns the messages in a template.
    """
    return lambda template, opens=True, **more: render_chat(
        tokenizer, MESSAGES, template, add_generation_prompt=opens, more=more
    )


@pytest.mark.parametrize(
    'template',
    [
        TEMPLATE,
        '{{ messages | tojson }}',
        '{%- for m in messages -%}\n  {% generation %}{{ m.content | trim }}'
        '{% endgeneration %}\n{% if loop.last %}{% break %}{% endif %}{% endfor %}',
        '{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}'
        '{% endfor %}{{ ns.n }}{{ eos_token }}{{ extra }}{{ add_generation_prompt }}',
        fix_date('{{ strftime_now("%d %b %Y") }}', TODAY),
    ],
)
@pytest.mark.parametrize('opens', [True, False])
def test_a_text_is_that_of_transformers(template, opens, tokenizer, rendered):
    text = rendered(template, opens, extra=[1, 'x'])
    assert text == tokenizer.apply_chat_template(
        MESSAGES,
        chat_template=template,
        tokenize=False,
        add_generation_prompt=opens,
        extra=[1, 'x'],
    )


def test_a_template_that_refuses_or_fails_is_told_apart(rendered):
    with pytest.raises(TemplateProblem, match='^no tea$') as caught:
        rendered("{{ raise_exception('no tea') }}")
    assert caught.value.kind == 'TemplateError'
    with pytest.raises(TemplateProblem) as caught:
        rendered('{% for %}')
    assert caught.value.kind == 'TemplateSyntaxError'


LOOP = '{% for a in range(99999) %}' * 3 + '{% endfor %}' * 3


DOUBLED = (
    '{% set ns = namespace(x="ab") %}{% for i in range(60) %}'
    '{% set ns.x = ns.x ~ ns.x %}{% endfor %}'
)


@pytest.mark.parametrize(
    'template',
    [
        LOOP,  # time
        DOUBLED,  # memory
        "{{ 'a' * 20000000 }}",  # a text that no model reads
    ],
)
def test_a_template_that_costs_without_end_is_stopped(template, rendered, monkeypatch):
    assert rendered('{{ bos_token }}')  # the process is there
    monkeypatch.setattr(rendering, 'SECONDS', 0.4)
    with pytest.raises(TemplateProblem) as caught:
        rendered(template)
    assert '\n' not in str(caught.value)
    monkeypatch.undo()
    assert rendered('{{ bos_token }}') == '<s>'  # for the next one


@pytest.mark.slow
def test_a_fork_has_a_process_of_its_own(rendered):
    assert rendered('a') == 'a'
    assert said_in_child(lambda: rendered('c')) == 'c'
    assert rendered('d') == 'd'


def test_an_interrupted_question_leaves_no_answer_for_the_next(rendered, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    assert rendered('a') == 'a'
    monkeypatch.setattr(fork_server.ForkedWorker, '_answer', interrupted)
    with pytest.raises(KeyboardInterrupt):
        rendered('b')
    monkeypatch.undo()
    assert rendered('c') == 'c'
