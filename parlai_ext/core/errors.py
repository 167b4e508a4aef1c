"""
The exceptions for a user's mistake (one line, no traceback, exit code 1), and texts
without the keys that options name by an environment variable.

A key is known by the NAME of its variable (``remote_key_env: EVALKEY``). From then on
its value is replaced by ``$EVALKEY`` in all that this process writes: files, error
lines, tracebacks, log records, and whatever a command prints (`hide_printed`), also
inside a longer text, such as a path. A value of fewer than `SHORTEST_SECRET` characters
is a word (``EMPTY``, ``ollama``), which texts may hold for other reasons: it is left
alone, but for the parts of a remote system's address.
"""

import difflib
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO, cast

MAX_SHOWN = 20
logger = logging.getLogger('parlai_ext')  # of warnings, which end nothing
# what the code for data of our own raises on a stranger's
DATA_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


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


@contextmanager
def errors_about(what: str) -> Iterator[None]:
    """
    Begin the line about a user's mistake with what it is about, unless it does so.
    """
    try:
        yield
    except UserError as error:
        line = str(error)
        named = line.startswith(f'{what}: ')
        raise UserError(line if named else f'{what}: {line}') from None


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


def shortened(text: str, most: int = 200) -> str:
    """
    Return a text as one line of at most so many characters.
    """
    line = ' '.join(text.split())
    return line if len(line) <= most else f'{line[: most - 1]}…'


def quoted_reply(text: str) -> str:
    """
    Return a reply in quotation marks, on one line and at most 60 characters of it.
    """
    return repr(shortened(text, 60))


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


# --- keys that are written nowhere ----------------------------------------------------

SHORTEST_SECRET = 8
_variables: dict[str, None] = {}


def name_secret(variable: str) -> None:
    """
    From now on, write the value of this environment variable nowhere.
    """
    if not _variables:
        _clean_log_records()
        _clean_tracebacks()
    _variables[variable] = None


def without_secrets(text: str) -> str:
    """
    Return a text with the name of its variable, ``$NAME``, in place of each secret.
    """
    for value, name in _secrets():
        text = text.replace(value, name)
    return text


def bytes_without_secrets(data: bytes) -> bytes:
    """
    Return what `without_secrets` does of the bytes of a file.
    """
    for value, name in _secrets():
        data = data.replace(value.encode(), name.encode())
    return data


def _secrets() -> list[tuple[str, str]]:
    """
    Return the secrets, as they are and as JSON spells them, with what stands for each;
    long ones first, which may hold others.
    """
    pairs = []
    for variable in _variables:
        value = os.environ.get(variable, '').strip()
        if len(value) >= SHORTEST_SECRET:
            spellings = dict.fromkeys((value, json.dumps(value)[1:-1]))
            pairs += [(spelling, f'${variable}') for spelling in spellings]
    return sorted(pairs, key=lambda pair: -len(pair[0]))


def _clean_log_records() -> None:
    """
    Let all log records of this process be made without secrets.
    """
    make = logging.getLogRecordFactory()

    def clean(*args: object, **kwargs: object) -> logging.LogRecord:
        record: logging.LogRecord = make(*args, **kwargs)
        try:
            message = record.getMessage()
        except Exception:  # a wrong format, which logging itself reports
            return record
        if (hidden := without_secrets(message)) != message:
            record.msg, record.args = hidden, None
        return record

    logging.setLogRecordFactory(clean)


def _clean_tracebacks() -> None:
    """
    Let a traceback that holds a secret be printed without it.
    """
    before = sys.excepthook

    def clean(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        text = ''.join(traceback.format_exception(kind, error, trace))
        if (hidden := without_secrets(text)) != text:
            sys.stderr.write(hidden)
        else:
            before(kind, error, trace)

    sys.excepthook = clean


class ChangedStream:
    """
    A stream that changes each text before it writes it to another stream; all else is
    as of that one, which is closed by nobody but its owner.
    """

    def __init__(self, stream: TextIO, change: Callable[[str], str]):
        self._stream, self._change = stream, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """
        Write a text, changed.
        """
        self._stream.write(self._change(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """
        Write several texts.
        """
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """
        Do nothing.
        """


@contextmanager
def hide_printed() -> Iterator[None]:
    """
    Let whatever is printed inside be printed without secrets. A secret that is written
    in two parts, as bytes, or by native code is not seen.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        cast(TextIO, ChangedStream(stream, without_secrets)) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
