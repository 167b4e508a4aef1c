"""
From the turns of a conversation to the messages of a chat model, and from what it wrote
to a reply.

Chat models are trained on conversations that the user opens. Here the system under test
often speaks first (its opener is given), and many chat templates refuse that. What is
done then is a choice that changes replies, so it is an option, and signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_TURNS = ('ask', 'system', 'drop', 'keep')
ASK = 'Hello! Please start a conversation.'
THOUGHTS = ('<think>', '</think>')
REPLY_MAX_TOKENS = 128  # of a reply, unless an option says otherwise
TOLD = 'You began this conversation by saying:'


@dataclass(frozen=True)
class Turn:
    """
    One utterance of a conversation; `mine` when it is the chat model's own.
    """

    mine: bool
    text: str


@dataclass(frozen=True)
class ChatStyle:
    """
    How a conversation is put to a chat model.

    `first_turn` says what becomes of a first turn that is the model's own: ``ask``
    puts a user's message (`ask`) before it, ``system`` moves it to the system prompt,
    ``drop`` leaves it out, ``keep`` lets the messages begin with it. `stop` are strings
    at which a reply ends.
    """

    system_prompt: str = ''
    first_turn: str = 'ask'
    ask: str = ASK
    stop: tuple[str, ...] = ()


def messages(turns: Sequence[Turn], style: ChatStyle) -> list[dict[str, str]]:
    """
    Return what a chat model is sent: ``[{'role': …, 'content': …}, …]``.

    Roles are ``system`` (at most one, first), then ``user`` and ``assistant`` in turn:
    neighbours of one role become one message, line by line. There always is a
    user's message.
    """
    rest = list(turns)
    prompt, lead = style.system_prompt, []
    opens = bool(rest) and rest[0].mine
    if opens and style.first_turn == 'ask':
        lead = [Turn(False, style.ask)]
    elif opens and style.first_turn == 'system':
        prompt = '\n\n'.join(filter(None, [prompt, f'{TOLD} {rest.pop(0).text}']))
    elif opens and style.first_turn == 'drop':
        rest.pop(0)
    if all(turn.mine for turn in rest) and not lead:
        lead = [Turn(False, style.ask)]
    head = [{'role': 'system', 'content': prompt}] if prompt else []
    return head + _in_turn([*lead, *rest])


def _in_turn(turns: Sequence[Turn]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for turn in turns:
        role = 'assistant' if turn.mine else 'user'
        if found and found[-1]['role'] == role:
            found[-1]['content'] += '\n' + turn.text
        else:
            found.append({'role': role, 'content': turn.text})
    return found


def reply_of(text: str, style: ChatStyle) -> str:
    """
    Return what was said up to the first stop string, without space around it.
    """
    text = spoken(text)
    return text[: ends_at(text, style.stop)].strip()


def ends_at(text: str, stop: Sequence[str]) -> int | None:
    """
    Return where the first stop string begins in what was said; `None` without one.

    The place counts from the end of the model's thoughts, if it wrote such.
    """
    text = spoken(text)
    return min((i for one in stop if (i := text.find(one)) >= 0), default=None)


def spoken(text: str) -> str:
    """
    Return what a model said after thinking: its thoughts are no part of the reply.

    Their end may come without a beginning, which then was in the prompt; thoughts that
    do not end leave no reply.
    """
    _, end, reply = text.rpartition(THOUGHTS[1])
    if end:
        return reply.lstrip()
    return '' if text.lstrip().startswith(THOUGHTS[0]) else text
