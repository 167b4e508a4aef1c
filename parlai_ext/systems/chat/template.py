"""
What has to be done to a chat template and to the texts that it is given: no date of
today in it, no control tokens in them.
"""

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from parlai_ext.systems.chat.messages import ChatTurn

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
