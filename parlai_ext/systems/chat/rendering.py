"""
Chat templates are rendered in a process of its own, with limits on memory and time.

A template is a program that comes with a model. jinja's sandbox lets it reach nothing,
but it may loop for ever, or make a text that no memory holds, in one step of C code
that nothing in this process could stop. The other process renders as transformers does,
for all models of this one, and ends with it.
"""

import functools
import os
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.isolation.confinement import is_confined
from parlai_ext.isolation.fork_server import ForkedTask, Worker, answer_requests
from parlai_ext.systems.chat.messages import ChatTurn

SECONDS = 60  # for one text, also of processor time
MEMORY = 2 * 2**30  # bytes of address space of the process that renders
LONGEST_TEXT = 10_000_000  # characters
COSTLY = 'TooCostly'  # the kind of a problem
WORKER = f'{__name__}:render_requests'


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
    more: Mapping[str, Any] | None = None,
) -> str:
    """
    Return what `tokenizer.apply_chat_template` does of messages, as text.

    :param more: further values for the template.
    :raises TemplateProblem: when it refuses the messages, or costs too much.
    """
    values = {**tokenizer.special_tokens_map, **(more or {})}
    request = {
        'conversations': [list(messages)],
        'chat_template': template,
        'add_generation_prompt': add_generation_prompt,
        **values,
    }
    text, kind = _render(request) if is_confined() else _rendered_elsewhere(request)
    if kind:
        raise TemplateProblem(kind, text)
    return text


_lock = threading.Lock()


def _rendered_elsewhere(request: Mapping[str, Any]) -> tuple[str, str]:
    """
    Return a rendered text and '', or what is wrong and the kind of error.
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


@functools.cache
def _renderer(owner: int) -> Worker:
    """
    Start the process that renders.

    :param owner: the process that asks; a fork must not share its channel.
    """
    return Worker(ForkedTask(WORKER, {}, MEMORY))


def render_requests(channel: socket.socket, missing: Sequence[str]) -> int:
    """
    Answer requests until nobody is left to ask; run in the other process.
    """
    return answer_requests(channel, lambda _: _render)


def _render(request: Mapping[str, Any]) -> tuple[str, str]:
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        rendered: Any = render_jinja_template(**request)
        [text], _ = rendered
    except Exception as error:  # a template may raise anything
        return ' '.join(str(error).split())[:1000], type(error).__name__
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


def control_tokens(tokenizer: Any) -> re.Pattern[str] | None:
    """
    Return a pattern of the tokens by which a tokenizer marks turns and roles.
    """
    added = tokenizer.added_tokens_decoder.values()
    marks = {token.content for token in added if token.special}
    marks |= set(tokenizer.all_special_tokens)
    # a mark of one or two characters may be a word
    long = sorted((m for m in marks if len(m) > 2), key=lambda m: (-len(m), m))
    return re.compile('|'.join(map(re.escape, long))) if long else None


def without_control_tokens(
    conversation: Sequence[ChatTurn], control: re.Pattern[str] | None
) -> list[ChatTurn]:
    """
    Return the turns without control tokens: an utterance must not end a turn, or begin
    one in another's name.
    """
    turns = []
    for turn in conversation:
        text, n = turn.text, 1 if control else 0
        while n and control:  # what is left may be a token again
            text, n = control.subn('', text)
        turns.append(ChatTurn(turn.mine, text))
    return turns
