"""
Keys that options name by an environment variable, and text without them.

A key is known by the NAME of its variable (``remote_key_env: EVALKEY``). From then on
its value is replaced by ``$EVALKEY`` in all that this process writes: files, error
lines, log records, also inside a longer text, such as a path. A value of fewer than
`SHORTEST` characters is a word (``EMPTY``, ``ollama``), which texts may hold for other
reasons: it is left alone, but for the parts of a remote system's address.
"""

from __future__ import annotations

import json
import logging
import os

SHORTEST = 8
_variables: dict[str, None] = {}


def name_secret(variable: str) -> None:
    """
    From now on, write the value of this environment variable nowhere.
    """
    if not _variables:
        _clean_log_records()
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
