"""
Keys that options name by an environment variable, and text without them.

A key is known by the NAME of its variable (``remote_key_env: EVALKEY``). From then on
its value is replaced by ``$EVALKEY`` in all that this process writes: files, error
lines, tracebacks, log records, and whatever a command prints (`hide_printed`), also
inside a longer text, such as a path. A value of fewer than
`SHORTEST` characters is a word (``EMPTY``, ``ollama``), which texts may hold for other
reasons: it is left alone, but for the parts of a remote system's address.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO, cast

SHORTEST = 8
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
        if len(value) >= SHORTEST:
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


class _CleanStream:
    """
    A stream of text without secrets; all else is as the stream that it writes to.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write(without_secrets(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


@contextmanager
def hide_printed() -> Iterator[None]:
    """
    Let whatever is printed inside be printed without secrets. A secret that is written
    in two parts, as bytes, or by native code is not seen.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _CleanStream(s)) for s in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
