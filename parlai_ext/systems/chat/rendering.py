"""
Chat templates are rendered in a process of its own, with limits on memory and time.

A template is a program that comes with a model. jinja's sandbox lets it reach nothing,
but it may loop for ever, or make a text that no memory holds, in one step of C code
that nothing in this process could stop. The other process renders as transformers does,
for all models of this one, and ends with it.
"""

import contextlib
import functools
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from parlai_ext.core.json_text import parse_own_json
from parlai_ext.isolation.processes import lower_limit, start_python
from parlai_ext.systems.chat.messages import ChatTurn

SECONDS = 60  # for one text, also of processor time
MEMORY = 2 * 2**30  # bytes of address space of the process that renders
LONGEST_TEXT = 10_000_000  # characters
COSTLY = 'TooCostly'  # the kind of a problem
CHILD = 'from parlai_ext.systems.chat.rendering import render_requests as run; run()'


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
    text, kind = _answer(request)
    if kind:
        raise TemplateProblem(kind, text)
    return text


_lock = threading.Lock()


def _answer(request: Mapping[str, Any]) -> tuple[str, str]:
    """
    Return a rendered text and '', or what is wrong and the kind of error.
    """
    line = b''
    with _lock:
        process, channel = _renderer(os.getpid())
        if process.poll() is not None:
            _renderer.cache_clear()
            process, channel = _renderer(os.getpid())
        channel.settimeout(SECONDS)
        try:
            with (
                contextlib.suppress(TimeoutError, ConnectionError),
                channel.makefile('rb') as answers,
            ):
                channel.sendall(json.dumps(request).encode() + b'\n')
                line = answers.readline()
        finally:  # what it would still say is no answer to the next
            if not line.endswith(b'\n'):
                process.kill()
                process.wait()
    if not line.endswith(b'\n'):
        limits = f'{SECONDS} seconds or {MEMORY / 2**30:.0f} GiB'
        return f'it takes more than {limits}', COSTLY
    text, kind = parse_own_json(line)
    return text, kind


@functools.cache
def _renderer(owner: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """
    Start the process that renders, which ends when nobody has our end of the channel.

    :param owner: the process that asks; a fork must not share its channel.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = start_python(CHILD, stdin=theirs, stdout=subprocess.DEVNULL)
    # it first says that it is ready: imports are no template's fault
    ours.settimeout(10 * SECONDS)
    if not ours.recv(1):
        raise RuntimeError('the process that renders templates does not begin')
    return process, ours


def render_requests() -> None:
    """
    Answer requests until nobody is left to ask; run in the other process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    from transformers.utils.chat_template_utils import render_jinja_template

    lower_limit(resource.RLIMIT_AS, MEMORY)
    lower_limit(resource.RLIMIT_FSIZE, 0)
    lower_limit(resource.RLIMIT_CORE, 0)
    channel = socket.socket(fileno=0).makefile('rwb')
    channel.write(b'.')
    channel.flush()
    for line in channel:
        lower_limit(resource.RLIMIT_CPU, int(time.process_time()) + SECONDS)
        kind = ''
        try:
            rendered: Any = render_jinja_template(**parse_own_json(line))
            [text], _ = rendered
            if len(text) > LONGEST_TEXT:
                text, kind = (
                    f'its text has more than {LONGEST_TEXT:,} characters',
                    COSTLY,
                )
        except Exception as error:  # a template may raise anything
            text, kind = ' '.join(str(error).split())[:1000], type(error).__name__
        channel.write(json.dumps([text, kind]).encode() + b'\n')
        channel.flush()


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
