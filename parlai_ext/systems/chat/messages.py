"""
Turns of a conversation become messages of a chat model, and its output a reply.

Chat models are trained on conversations that the user opens. Here the system under test
often speaks first (its opener is given), and many chat templates refuse that. What is
done then is a choice that changes replies, so it is an option and part of the
identity of the system.
"""

from __future__ import annotations

import contextlib
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.core.options import option, options_from_opt

FIRST_TURNS = ('ask', 'system', 'drop', 'keep')
ASK = 'Hello! Please start a conversation.'
THOUGHTS = ('<think>', '</think>')
REPLY_MAX_TOKENS = 128  # of a reply, unless an option says otherwise
TOLD = 'You began this conversation by saying:'


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
    return checked_stop(strings if isinstance(strings, list) else text.split(','))


def checked_stop(strings: Sequence[Any]) -> tuple[str, ...]:
    """
    Return stop strings; refuse an empty one, with which every reply would be empty.
    """
    if not all(isinstance(string, str) and string for string in strings):
        raise ArgumentTypeError('an empty stop string ends every reply')
    return tuple(strings)


@dataclass(frozen=True)
class ChatTurn:
    """
    One utterance of a conversation; `mine` when it is the chat model's own.
    """

    mine: bool
    text: str


@dataclass(frozen=True)
class ChatStyle:
    """
    The options of every chat model: how a conversation is put to it.
    """

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
    def from_options(cls, opt: Mapping[str, Any]) -> ChatStyle:
        """
        Read the style from a system's options.

        :raises UserError: ``option: what is wrong``.
        """
        style = options_from_opt(cls, opt)
        if not style.first_turn_ask.strip():
            raise UserError('first_turn_ask: empty; a message or nothing is expected')
        try:
            checked_stop(style.stop)
        except ArgumentTypeError as error:
            raise UserError(f'stop: {error}') from None
        return style


def messages(turns: Sequence[ChatTurn], style: ChatStyle) -> list[dict[str, str]]:
    """
    Return what a chat model is sent: ``[{'role': …, 'content': …}, …]``.

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
    joined: list[dict[str, str]] = []
    for turn in (*lead, *remaining):
        role = 'assistant' if turn.mine else 'user'
        if joined and joined[-1]['role'] == role:
            joined[-1]['content'] += '\n' + turn.text
        else:
            joined.append({'role': role, 'content': turn.text})
    return [{'role': 'system', 'content': prompt}, *joined] if prompt else joined


def reply_from(text: str, style: ChatStyle) -> str:
    """
    Return the model's text up to the first stop string, without space around it.
    """
    text = without_thoughts(text)
    return text[: ends_at(text, style.stop)].strip()


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
