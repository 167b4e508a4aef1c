"""
The topics of our small talk, and the details that they share (`topics.json`).

A topic is something that a speaker likes or does (``{x}``, one of its items), with verb
phrases about it; the other speaker may ask for a detail (when, who, where, how long,
why). No sentence has to agree with ``{x}``, so any item fits any sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.core.records import record_from_json
from parlai_ext.files.json_file import read_json


@dataclass(frozen=True)
class Topic:
    """
    One topic: its items, and the sentences that ask, tell and comment about them.
    """

    name: str
    items: tuple[str, ...]
    ask: tuple[str, ...]
    tell: tuple[str, ...]
    comment: tuple[str, ...]
    do: str
    doing: str
    probes: tuple[str, ...]


@dataclass(frozen=True)
class Detail:
    """
    One kind of detail ``{y}``: how it is asked for, given and taken up.

    ``check`` are questions that refer to the value just given, ``confirm`` their
    answers. ``{yours}`` is the value as the listener says it (my sister, your sister).
    """

    values: tuple[str, ...]
    ask: tuple[str, ...]
    answer: tuple[str, ...]
    remark: tuple[str, ...]
    check: tuple[str, ...]
    confirm: tuple[str, ...]


@dataclass(frozen=True)
class _Lists:
    details: Mapping[str, Detail]
    topics: tuple[Topic, ...]


_lists: _Lists = record_from_json(
    _Lists, read_json(Path(__file__).with_name('topics.json'), dict)
)
DETAILS, TOPICS = _lists.details, _lists.topics
