"""
From a conversation to the tokens that a model reads.

A model with a chat template gets messages with roles; any other gets the turns, joined.
What does not fit is cut from the front, the system prompt never.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.systems.chat.conversation import Conversation
from parlai_ext.systems.chat.messages import ChatStyle, messages
from parlai_ext.systems.chat.rendering import (
    TODAY,
    TemplateProblem,
    fix_date,
    render_chat,
    without_control_tokens,
)

Messages = list[dict[str, str]]
PROBE = 'Zebra quartz.'


@dataclass(frozen=True)
class PromptTokens:
    """
    The tokens for one conversation, and how many of its messages were cut.
    """

    ids: tuple[int, ...]
    cut: int = 0


@dataclass(frozen=True)
class ChatForm:
    """
    Conversations as the model's chat template writes them.

    With `fold`, the system prompt goes before the first user's message: for templates
    without a system role. `today` is what a template that asks for the date is told.
    """

    tokenizer: Any
    style: ChatStyle
    control: re.Pattern[str] | None = None
    fold: bool = False
    today: date = TODAY
    more: Mapping[str, Any] = field(default_factory=dict)

    def parts(self, conversation: Conversation) -> Messages:
        """
        Return the messages, oldest first, without control tokens; the system prompt, if
        there is one, comes first.
        """
        return messages(without_control_tokens(conversation, self.control), self.style)

    def starts(self, parts: Messages) -> list[int]:
        """
        Return where the messages may begin, after a cut: with a user's.
        """
        return [i for i, part in enumerate(parts) if i and part['role'] == 'user']

    def text(self, parts: Messages) -> str:
        """
        Return the text that the chat template makes of messages.

        :raises TemplateProblem: when the template refuses them.
        """
        return render_chat(
            self.tokenizer,
            merge_system_prompt(parts) if self.fold else parts,
            fix_date(self.tokenizer.get_chat_template(), self.today),
            add_generation_prompt=True,
            more=self.more,
        )

    def ids(self, parts: Messages) -> list[int]:
        """
        Return the tokens of messages.
        """
        try:
            text = self.text(parts)
        except TemplateProblem as error:
            problem = str(error)
            if error.kind != 'TemplateError':  # which is what raise_exception raises
                raise UserError(
                    f'hf_model: the chat template is broken: {error.kind}: {problem}; '
                    'mend it in tokenizer_config.json or chat_template.jinja'
                ) from None
            roles = ', '.join(part['role'] for part in parts[:3])
            raise UserError(
                f'first_turn: the chat template refuses a conversation of {roles} '
                f'({problem!r}); with first_turn ask, system or drop the user begins it'
            ) from None
        return list(self.tokenizer(text, add_special_tokens=False)['input_ids'])


@dataclass(frozen=True)
class PlainForm:
    """
    Turns joined by a separator, without roles: the model sees a text and goes on.

    For a causal model the separator also follows the last turn.

    :param start: stands before the first turn.
    """

    tokenizer: Any
    style: ChatStyle
    separator: str
    seq2seq: bool
    control: re.Pattern[str] | None = None
    start: str = ''

    def parts(self, conversation: Conversation) -> Messages:
        """
        Return every turn as a message; the system prompt, if there is one, comes first.
        """
        head = [{'role': 'system', 'content': self.style.system_prompt}]
        turns = without_control_tokens(conversation, self.control)
        turn_messages = [{'role': 'user', 'content': turn.text} for turn in turns]
        return (head if self.style.system_prompt else []) + turn_messages

    def starts(self, parts: Messages) -> list[int]:
        """
        Return where the turns may begin, after a cut: anywhere.
        """
        return list(range(1, len(parts)))

    def ids(self, parts: Messages) -> list[int]:
        """
        Return the tokens of turns.
        """
        texts = [part['content'] for part in parts]
        if self.seq2seq:
            text = self.start + self.separator.join(texts)
            return list(self.tokenizer(text)['input_ids'])
        text = self.start + ''.join(text + self.separator for text in texts)
        begin = self.tokenizer.bos_token_id
        ids = list(self.tokenizer(text, add_special_tokens=False)['input_ids'])
        if begin is not None and self.tokenizer('')['input_ids'][:1] == [begin]:
            ids.insert(0, begin)
        return ids


def fit_prompt(
    form: ChatForm | PlainForm, conversation: Conversation, limit: int | None
) -> PromptTokens:
    """
    Return the prompt of at most ``limit`` tokens with the most of the conversation.

    :raises UserError: when not even the last words fit beside the system prompt.
    """
    parts = form.parts(conversation)
    ids = form.ids(parts)
    if limit is None or len(ids) <= limit:
        return PromptTokens(tuple(ids))
    head = parts[:1] if parts[0]['role'] == 'system' else []
    turn_parts = parts[len(head) :]
    starts = form.starts(turn_parts) or [len(turn_parts) - 1]
    # the later a beginning, the fewer tokens
    which = bisect_left(
        starts,
        True,
        key=lambda start: len(form.ids(head + turn_parts[start:])) <= limit,
    )
    start = starts[min(which, len(starts) - 1)]
    first, *others = turn_parts[start:]
    ids = form.ids([*head, first, *others])
    # when even these do not fit, only the end of the first is kept
    words = form.tokenizer(first['content'], add_special_tokens=False)['input_ids']
    keep = len(words)
    while len(ids) > limit:
        keep -= len(ids) - limit
        if keep < 1:
            raise UserError(
                f'system_prompt: it leaves no room for a conversation in the '
                f'{limit} tokens before the reply'
            )
        end = form.tokenizer.decode(words[-keep:], skip_special_tokens=True)
        ids = form.ids([*head, {**first, 'content': end}, *others])
    return PromptTokens(tuple(ids), max(start, 1))


def merge_system_prompt(parts: Sequence[dict[str, str]]) -> Messages:
    """
    Return the messages with the system prompt put into the first user's message.

    >>> prompt = {'role': 'system', 'content': 'S'}
    >>> merge_system_prompt([prompt, {'role': 'user', 'content': 'U'}])
    [{'role': 'user', 'content': 'S\\n\\nU'}]
    """
    if not parts or parts[0]['role'] != 'system':
        return list(parts)
    prompt, others = parts[0]['content'], list(parts[1:])
    if not others or others[0]['role'] != 'user':
        return [{'role': 'user', 'content': prompt}, *others]
    return [
        {'role': 'user', 'content': f'{prompt}\n\n{others[0]["content"]}'},
        *others[1:],
    ]


def without_system_role(form: ChatForm) -> str | None:
    """
    Return why the template takes no system prompt; `None` if it takes one.
    """
    ask = {'role': 'user', 'content': 'Hi'}
    try:
        text = form.text([{'role': 'system', 'content': PROBE}, ask])
    except TemplateProblem as error:
        return f'refuses a system prompt: {error}'
    return None if PROBE in text else 'leaves the system prompt out'
