"""
The options that every chat model has, and the `ChatStyle` that they spell.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.options import positive
from parlai_ext.systems.chat.messages import (
    ASK,
    FIRST_TURNS,
    REPLY_MAX_TOKENS,
    ChatStyle,
)


def add_chat_options(parser: Any) -> Any:
    """
    Add the group of options to a `ParlaiParser`, and return the group.
    """
    group = parser.add_argument_group('Chat')
    group.add_argument(
        '--system-prompt',
        type=str,
        default='',
        help='what the model is told before the conversation',
    )
    group.add_argument(
        '--first-turn',
        choices=FIRST_TURNS,
        default='ask',
        help='when the model speaks first and its first turn is given: ask = put a '
        "user's message before it, system = move it to the system prompt, "
        'drop = leave it out, keep = let the messages begin with it',
    )
    group.add_argument(
        '--first-turn-ask',
        type=str,
        default=ASK,
        help="the user's message of --first-turn ask",
    )
    group.add_argument(
        '--reply-max-tokens',
        type=positive,
        default=REPLY_MAX_TOKENS,
        help='a reply ends after so many tokens',
    )
    group.add_argument(
        '--stop',
        type=stop_strings,
        action=_Extend,
        default=None,
        help='a reply ends before this string; repeatable; commas separate several, '
        'and a JSON list takes any string: \'["Oh, no", "--"]\'',
    )
    return group


def chat_style(opt: Mapping[str, Any]) -> ChatStyle:
    """
    Return the style that options ask for.

    :raises UserError: ``option: what is wrong``.
    """
    first_turn = opt.get('first_turn') or 'ask'
    if first_turn not in FIRST_TURNS:
        known = ', '.join(FIRST_TURNS)
        raise UserError(f'first_turn: {first_turn!r} is none of {known}')
    ask = opt.get('first_turn_ask')
    if ask is not None and not str(ask).strip():
        raise UserError('first_turn_ask: empty; a message or nothing is expected')
    stop = opt.get('stop') or ()
    try:
        stop = stop_strings(stop) if isinstance(stop, str) else _checked(stop)
    except argparse.ArgumentTypeError as error:
        raise UserError(f'stop: {error}') from None
    return ChatStyle(
        system_prompt=str(opt.get('system_prompt') or ''),
        first_turn=first_turn,
        ask=ASK if ask is None else str(ask),
        stop=tuple(stop),
    )


def stop_strings(text: str) -> list[str]:
    """
    Return the strings of a comma-separated list or of a JSON list.

    ParlAI joins a list in a file with commas on its way to the command line.

    >>> stop_strings('A:,B:'), stop_strings('["A, B"]')
    (['A:', 'B:'], ['A, B'])
    """
    if text.startswith('['):
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            found = None
        if isinstance(found, list):
            return _checked(found)
    return _checked(text.split(','))


def _checked(strings: Sequence[Any]) -> list[str]:
    """
    Refuse an empty stop string: every reply would end before it began.
    """
    if not all(isinstance(one, str) and one for one in strings):
        raise argparse.ArgumentTypeError('an empty stop string ends every reply')
    return list(strings)


class _Extend(argparse._StoreAction):
    """
    Collects the values of an option that is given several times.

    ParlAI's `parse_kwargs` knows what to do with kinds of "store" only.
    """

    def __call__(self, parser, namespace, values, option_string=None):  # type: ignore[no-untyped-def]
        before = getattr(namespace, self.dest, None) or []
        setattr(namespace, self.dest, [*before, *values])
