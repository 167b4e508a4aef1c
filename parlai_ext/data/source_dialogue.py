"""
What a reader of some format finds: talks, and what is wrong with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """
    What cannot be read, and where: `file` is as the user named it.
    """

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f'{self.file}:{self.line}: {self.what}'


@dataclass(frozen=True, slots=True)
class Turn:
    """
    What somebody said, and the line it is in; `given` when no system said it.
    """

    speaker: str
    text: str
    line: int
    given: bool = False


@dataclass(frozen=True)
class Talk:
    """
    One conversation as it lies in a file.

    :param id: the file's own name for it, if it has one.
    :param humans: speakers that the file says are people.
    :param place: where in the line it is, for lines that hold several.
    :param self_chat: the file says that one system spoke to itself.
    :param problems: why it cannot be had as it is; it is then left out or refused.
    """

    file: str
    line: int
    turns: tuple[Turn, ...] = ()
    id: str | None = None
    humans: frozenset[str] = frozenset()
    self_chat: bool = False
    problems: tuple[Problem, ...] = ()
    place: str = ''


@dataclass(frozen=True)
class Source:
    """
    A file with its text: one entry a line, what is not UTF-8 as lone surrogates.
    """

    file: str
    stem: str
    lines: tuple[str, ...]
    beside: Callable[[str], bytes | None] = lambda suffix: None

    def bad(self, line: int, what: str) -> Problem:
        """
        Return a problem in a line of this file.
        """
        return Problem(self.file, line, what)

    def not_talk(self, line: int, what: str) -> Talk:
        """
        Return the talk that a bad line stands for.
        """
        return Talk(self.file, line, problems=(self.bad(line, what),))


Reader = Callable[[Source], Iterator[Talk]]
NOT_UTF8 = 'not UTF-8 text'
STRAY = re.compile('[\udc80-\udcff]')


def is_utf8(text: str) -> bool:
    """
    Tell whether a line was UTF-8 (`Source.lines` holds stray bytes as surrogates).
    """
    return text.isascii() or not STRAY.search(text)


def brief(value: Any) -> str:
    """
    Return a value as a short quotation on one line.
    """
    text = value if isinstance(value, str) else str(value)
    return ascii(text) if len(text) <= 40 else ascii(text[:40]) + '…'
