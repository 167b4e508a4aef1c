"""
The one-line string that makes a number reproducible.

It has two parts, how dialogues arise and how they are scored, and for a tournament a
third, how they are rated. Targets belong to none of them: runs with the same signature
compare.
"""

from collections.abc import Mapping
from typing import Any

from parlai_ext.core.differences import differences
from parlai_ext.core.nouns import content_id

# between the parts: how dialogues arise, how they are scored, how they are rated
PART_SEPARATOR = ' || '
GIVEN_JUDGED = '|given:judged'  # ends that of scores which include given utterances


def signature_line(fields: Mapping[str, Any]) -> str:
    """
    Return ``name:value|name:value|…`` in the order given; long values are hashed.
    """
    return '|'.join(f'{name}:{_short(value)}' for name, value in fields.items())


def scorer_name(signature: str) -> str:
    """
    Return the name of a scorer, with which its signature begins.
    """
    return signature.partition('|')[0].removeprefix('scorer:')


def signature_differences(old: str, new: str) -> list[str]:
    """
    Return ``key: old → new`` for each field in which two signatures differ.
    """
    before, after = (
        {key: value for key, _, value in (p.partition(':') for p in line.split('|'))}
        for line in (old, new)
    )
    return [f'{key}: {a} → {b}' for key, a, b in differences(before, after)]


def _short(value: Any) -> str:
    """
    Return a value as one word: containers and long texts by their hash.
    """
    if isinstance(value, Mapping | list | tuple) or len(str(value)) > 60:
        return '#' + content_id(value)[:10]
    return str(value).replace('|', '/').replace(':', '=').replace('\n', ' ')
