"""
Turns of a conversation become messages of a chat model, and its output a reply.

Chat models are trained on conversations that the user opens. Here the system under test
often speaks first (its opener is given), and many chat templates refuse that. What is
done then is a choice that changes replies, so it is an option and part of the
identity of the system.
"""

import contextlib
import functools
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from parlai_ext.core import (
    JsonObject,
    UserError,
    frozen,
    option,
    options_from_opt,
    parse_json,
    shortened,
)
from parlai_ext.isolation.fork_server import ForkedTask, ForkedWorker, is_confined

FIRST_TURNS = ('ask', 'system', 'drop', 'keep')
ASK = 'Hello! Please start a conversation.'
THOUGHTS = ('<think>', '</think>')
ONLY_THOUGHTS = 'thoughts and no reply; a larger reply_max_tokens leaves room for one'
REPLY_MAX_TOKENS = 128  # of a reply, unless an option says otherwise
TOLD = 'You began this conversation by saying:'
# of a chat model: ``[{'role': …, 'content': …}, …]``
Messages = list[dict[str, str]]
# for each token of a text, the tokens that might have stood there as
# ``[token, log-probability]``, the one that does stand there first
Alternatives = list[list[list[Any]]]


def stop_strings(text: str) -> tuple[str, ...]:
    """
    Return the strings of a comma-separated list or of a JSON list.

    ParlAI joins a list in a file with commas on its way to the command line.

    >>> stop_strings('A:,B:'), stop_strings('["A, B"]')
    (('A:', 'B:'), ('A, B',))
    """
    strings: Any = None
    if text.startswith('['):
        with contextlib.suppress(ValueError):
            strings = parse_json(text)
    return tuple(strings if isinstance(strings, list) else text.split(','))


@frozen
class ChatTurn:
    """
    One utterance of a conversation; `mine` when it is the chat model's own.
    """

    mine: bool
    text: str


@frozen
class ChatReply:
    """
    A chat model's reply, or why there is none.

    :param alternatives: `None` where they are not known.
    """

    text: str | None
    reason: str | None = None
    alternatives: Alternatives | None = None


@frozen
class ChatStyle:
    """
    The options of every chat model: how a conversation is put to it.
    """

    title = 'Chat'
    system_prompt: str = option(
        '', help='what the model is told before the conversation'
    )
    first_turn: str = option(
        'ask',
        choices=FIRST_TURNS,
        help='when the model speaks first and its first turn is given: ask = put a '
        "user's message before it, system = move it to the system prompt, "
        'drop = leave it out, keep = let the messages begin with it',
    )
    first_turn_ask: str = option(ASK, help="the user's message of --first-turn ask")
    stop: tuple[str, ...] = option(
        (),
        read=stop_strings,
        help='a reply ends before this string; repeatable; commas separate several, '
        'and a JSON list takes any string: \'["Oh, no", "--"]\'',
    )

    @classmethod
    def from_options(cls, opt: JsonObject) -> 'ChatStyle':
        """
        Read the style from a system's options.

        :raises UserError: ``option: what is wrong``.
        """
        style = options_from_opt(cls, opt)
        if not style.first_turn_ask.strip():
            raise UserError('first_turn_ask: empty; a message or nothing is expected')
        if not all(isinstance(string, str) and string for string in style.stop):
            raise UserError('stop: an empty stop string ends every reply')
        return style


def messages(turns: Sequence[ChatTurn], style: ChatStyle) -> Messages:
    """
    Return what a chat model is sent.

    Roles are ``system`` (at most one, first), then ``user`` and ``assistant`` in turn:
    neighbours of one role become one message, line by line. There always is a
    user's message.
    """
    remaining = list(turns)
    prompt, lead = style.system_prompt, []
    opens = bool(remaining) and remaining[0].mine
    if opens and style.first_turn == 'ask':
        lead = [ChatTurn(False, style.first_turn_ask)]
    elif opens and style.first_turn == 'system':
        prompt = '\n\n'.join(filter(None, [prompt, f'{TOLD} {remaining.pop(0).text}']))
    elif opens and style.first_turn == 'drop':
        remaining.pop(0)
    if all(turn.mine for turn in remaining) and not lead:
        lead = [ChatTurn(False, style.first_turn_ask)]
    joined: Messages = []
    for turn in (*lead, *remaining):
        role = 'assistant' if turn.mine else 'user'
        if joined and joined[-1]['role'] == role:
            joined[-1]['content'] += '\n' + turn.text
        else:
            joined.append({'role': role, 'content': turn.text})
    return [{'role': 'system', 'content': prompt}, *joined] if prompt else joined


def reply_from(
    text: str, style: ChatStyle, alternatives: Alternatives | None = None
) -> ChatReply:
    """
    Return the model's text up to the first stop string, without space around it; where
    there are thoughts alone, that.
    """
    answer = without_thoughts(text)
    reply = answer[: ends_at(answer, style.stop)].strip()
    if text.strip() and not answer:
        return ChatReply(None, ONLY_THOUGHTS)
    return ChatReply(reply, None, alternatives)


def ends_at(text: str, stop: Sequence[str]) -> int | None:
    """
    Return where the first stop string begins in a model's text; `None` without one.

    The place counts from the end of the model's thoughts, if it wrote such.
    """
    text = without_thoughts(text)
    return min((i for string in stop if (i := text.find(string)) >= 0), default=None)


def without_thoughts(text: str) -> str:
    """
    Return a model's text after its thoughts, which are no part of the reply.

    Their end may come without a beginning, which then was in the prompt; thoughts that
    do not end leave no reply.
    """
    _, end, reply = text.rpartition(THOUGHTS[1])
    if end:
        return reply.lstrip()
    return '' if text.lstrip().startswith(THOUGHTS[0]) else text


# --- the text that a chat template makes of messages ----------------------------------
# Chat templates are rendered in a process of its own, with limits on memory and time.
#
# A template is a program that comes with a model. jinja's sandbox lets it reach
# nothing, but it may loop for ever, or make a text that no memory holds, in one step
# of C code that nothing in this process could stop. The other process renders as
# transformers does, for all models of this one, and ends with it.

SECONDS = 60  # for one text, also of processor time
MEMORY = 2 * 2**30  # bytes of address space of the process that renders
LONGEST_TEXT = 10_000_000  # characters
COSTLY = 'TooCostly'  # the kind of a problem
WORKER = f'{__name__}:renderer'


class TemplateProblem(Exception):
    """
    A chat template that makes no text of some messages.

    :param kind: the exception that it raises; ``TemplateError`` where it refuses them.
    """

    def __init__(self, kind: str, problem: str):
        super().__init__(problem)
        self.kind = kind


def render_chat(
    tokenizer: Any,
    messages: Sequence[Mapping[str, str]],
    template: str,
    *,
    add_generation_prompt: bool,
    more: JsonObject | None = None,
) -> str:
    """
    Return what `tokenizer.apply_chat_template` does of messages, as text.

    :param more: further values for the template.
    :raises TemplateProblem: when it refuses the messages, or costs too much.
    """
    request = {
        'conversations': [list(messages)],
        'chat_template': template,
        'add_generation_prompt': add_generation_prompt,
        **tokenizer.special_tokens_map,
        **(more or {}),
    }
    render = _render if is_confined() else render_apart
    text, kind = render(request)
    if kind:
        raise TemplateProblem(kind, text)
    return text


def render_apart(request: JsonObject) -> tuple[str, str]:
    """
    Return the text of a request and '', or what is wrong and its kind, as the other
    process says.
    """
    with _lock:
        worker = _renderer(os.getpid())
        if worker.ended:
            _renderer.cache_clear()
            worker = _renderer(os.getpid())
        try:
            text, kind = worker.ask(request, SECONDS)
        except UserError:
            limits = f'{SECONDS} seconds or {MEMORY / 2**30:.0f} GiB'
            return f'it takes more than {limits}', COSTLY
        return text, kind


_lock = threading.Lock()


@functools.cache
def _renderer(owner: int) -> ForkedWorker:
    """
    Start the process that renders.

    :param owner: the process that asks; a fork must not share its channel.
    """
    return ForkedWorker(ForkedTask(WORKER, {}, MEMORY))


def renderer(*_: Any) -> Callable[[JsonObject], tuple[str, str]]:
    """
    Return what answers requests in the other process.
    """
    return _render


def _render(request: Mapping[str, Any]) -> tuple[str, str]:
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        rendered: Any = render_jinja_template(**request)
        [text], _ = rendered
    except Exception as error:  # a template may raise anything
        return shortened(str(error), 1000), type(error).__name__
    if len(text) > LONGEST_TEXT:
        return f'its text has more than {LONGEST_TEXT:,} characters', COSTLY
    return text, ''


# --- what is done to a template and to the texts that it is given ---------------------

DATE_PARTS = [f'%{letter}' for letter in 'aAbBdmyYjUwHIMSpxXc']
# the date for templates that ask for today's, whenever they are run
TODAY = date(2024, 7, 26)


def fix_date(template: str, day: date) -> str:
    """
    Return a chat template that always takes ``day`` for today: otherwise the same run
    would give other replies tomorrow.
    """
    if 'strftime_now' not in template:
        return template
    parts = ''.join(
        f"|replace('{part}', '{day.strftime(part)}')" for part in DATE_PARTS
    )
    macro = f'{{% macro strftime_now(format) %}}{{{{ format{parts} }}}}'
    return f'{macro}{{% endmacro +%}}{template}'


def control_tokens(tokenizer: Any) -> re.Pattern[str]:
    """
    Return a pattern of the tokens by which a tokenizer marks turns and roles.
    """
    added = tokenizer.added_tokens_decoder.values()
    marks = {token.content for token in added if token.special}
    marks |= set(tokenizer.all_special_tokens)
    # a mark of one or two characters may be a word
    long = sorted((m for m in marks if len(m) > 2), key=lambda m: (-len(m), m))
    return re.compile('|'.join(map(re.escape, long)) or '(?!)')  # which is nowhere


def without_control_tokens(
    conversation: Sequence[ChatTurn], tokenizer: Any
) -> list[ChatTurn]:
    """
    Return the turns without control tokens: an utterance must not end a turn, or begin
    one in another's name.
    """
    turns, control = [], control_tokens(tokenizer)
    for turn in conversation:
        text, n = turn.text, 1
        while n:  # what is left may be a token again
            text, n = control.subn('', text)
        turns.append(ChatTurn(turn.mine, text))
    return turns
