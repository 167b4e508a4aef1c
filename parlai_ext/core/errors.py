"""
The exceptions for a user's mistake: one line, no traceback, exit code 1.
"""

import difflib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from parlai_ext.core.secrets import without_secrets

MAX_SHOWN = 20
logger = logging.getLogger('parlai_ext')  # of warnings, which end nothing


class UserError(Exception):
    """
    What is wrong, where (file, line, key), and what would be right — in one line,
    without secrets, hidden characters spelled out.

    :cvar exit_code: of the command that it ends.
    :param examples: lines that a command prints below it.
    """

    exit_code = 1

    def __init__(self, line: str, examples: Sequence[str] = ()):
        super().__init__(printable(without_secrets(line)))
        self.examples = examples


def first_line(error: BaseException) -> str:
    """
    Return the first line of what an exception says; its kind when it says nothing.
    """
    return message_of(error).strip().split('\n')[0] or type(error).__name__


def message_of(error: BaseException) -> str:
    """
    Return what an exception says; '' when it cannot be told.
    """
    try:
        return str(error)
    except Exception:
        return ''


def printable(text: str) -> str:
    """
    Return a text that is safe to print on a terminal: one line, control characters
    spelled out.

    >>> printable('a' + chr(27) + '[2J')
    'a\\\\x1b[2J'
    """
    return ''.join(
        c if c.isprintable() else c.encode('unicode_escape').decode('ascii')
        for c in text.replace('\n', ' ')
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """
    Return 'did you mean …?' with the most similar of the known words, or the list of
    them; the word itself is no hint.
    """
    names = sorted(set(known) - {word})
    folded = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f'did you mean {folded[close[0]]!r}?'
    more = f', … ({len(names)} in all)' if len(names) > MAX_SHOWN else ''
    return f'known: {", ".join(names[:MAX_SHOWN]) or "none"}{more}'


def require_known(name: str, known: Iterable[str], problem: str) -> None:
    """
    Refuse a name that is not among the known ones.

    :param problem: with what the message begins; the nearest name follows.
    """
    if name not in known:
        raise UserError(f'{problem}; {nearest(name, known)}')


class SystemFailed(UserError):
    """
    One system cannot go on; the others can.

    :param system: its name in the roster.
    :param what: ``key: what is wrong; what would be right``.
    """

    def __init__(self, system: str, problem: str):
        named = problem.startswith(f'system {system!r}: ')
        super().__init__(problem if named else f'system {system!r}: {problem}')
        self.system = system


@contextmanager
def errors_of_system(name: str) -> Iterator[None]:
    """
    Let a user's error name the system that it is about.
    """
    try:
        yield
    except UserError as error:
        raise SystemFailed(name, str(error)) from error.__cause__
