"""
Chat templates are rendered in a process of its own, with limits on memory and time.

A template is a program that comes with a model. jinja's sandbox lets it reach nothing,
but it may loop for ever, or make a text that no memory holds, in one step of C code
that nothing in this process could stop. The other process renders as transformers does,
for all models of this one, and ends with it.
"""

import atexit
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from parlai_ext.core.json_text import parse_own_json
from parlai_ext.core.process_limits import lower_limit, start_python

SECONDS = 60  # for one text, also of processor time
MEMORY = 2 * 2**30  # bytes of address space of the process that renders
LONGEST_TEXT = 10_000_000  # characters
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
    text, kind = _renderer.answer(request)
    if kind:
        raise TemplateProblem(kind, text)
    return text


class Renderer:
    """
    The process that renders, begun when it is first asked, and again after it ended.
    """

    process: subprocess.Popen[bytes] | None = None
    owner = 0  # the process that began it: a fork must not share its channel
    socket: Any = None
    channel: Any = None
    lock = threading.Lock()

    def answer(self, request: Mapping[str, Any]) -> tuple[str, str]:
        """
        Return a rendered text and '', or what is wrong and the kind of error.
        """
        with self.lock:
            process = self.process
            if (
                process is None
                or self.owner != os.getpid()
                or process.poll() is not None
            ):
                self._start()
            line = self._line_after(json.dumps(request).encode() + b'\n', SECONDS)
        if not line:
            limits = f'{SECONDS} seconds or {MEMORY / 2**30:.0f} GiB'
            return f'it takes more than {limits}', 'TooCostly'
        text, kind = parse_own_json(line)
        return text, kind

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = start_python(CHILD, stdin=theirs, stdout=theirs)
        self.socket, self.channel = ours, ours.makefile('rwb')
        self.owner = os.getpid()
        # it first says that it is ready: imports are no template's fault
        if not self._line_after(b'', 10 * SECONDS):
            raise RuntimeError('the process that renders templates does not begin')

    def _line_after(self, request: bytes, seconds: float) -> bytes:
        """
        Return the line that the process answers; b'' if it ends or is too slow.
        """
        line = b''
        self.socket.settimeout(seconds)
        try:
            with contextlib.suppress(
                TimeoutError, BrokenPipeError, ConnectionResetError
            ):
                self.channel.write(request)
                self.channel.flush()
                line = self.channel.readline()
        finally:  # what it would still say is no answer to the next
            if not line.endswith(b'\n'):
                self.end()
        return line if line.endswith(b'\n') else b''

    def end(self) -> None:
        """
        End the process, if this one began it.
        """
        process, self.process = self.process, None
        if process is not None and self.owner == os.getpid():
            process.kill()
            process.wait()


_renderer = Renderer()
atexit.register(_renderer.end)


def render_requests() -> None:
    """
    Answer requests until the end of the standard input; run in the other process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    answers = os.fdopen(os.dup(sys.stdout.fileno()), 'wb')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from transformers.utils.chat_template_utils import render_jinja_template

    lower_limit(resource.RLIMIT_AS, MEMORY)
    lower_limit(resource.RLIMIT_FSIZE, 0)
    lower_limit(resource.RLIMIT_CORE, 0)
    _say(answers, 'ready', '')
    for line in sys.stdin.buffer:
        lower_limit(resource.RLIMIT_CPU, int(time.process_time()) + SECONDS)
        try:
            rendered: Any = render_jinja_template(**parse_own_json(line))
            [text], _ = rendered
            if len(text) > LONGEST_TEXT:
                problem = f'its text has more than {LONGEST_TEXT:,} characters'
                _say(answers, problem, 'TooCostly')
            else:
                _say(answers, text, '')
        except Exception as error:  # a template may raise anything
            words = ' '.join(str(error).split())
            _say(answers, words[:1000], type(error).__name__)


def _say(answers: BinaryIO, text: str, kind: str) -> None:
    answers.write(json.dumps([text, kind]).encode() + b'\n')
    answers.flush()
