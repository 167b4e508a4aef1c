"""
The lines, JSON objects and CSV rows of a user's file, read one at a time: memory does
not grow with the file. What is wrong is one error that names file and line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.files.csv_file import named_cells
from parlai_ext.files.text_file import MARKS, check_text_file, utf8_bytes

LONGEST_LINE = 10**8  # characters


def text_lines(
    path: Path, encoding: str | None = None, empty: bool = False
) -> Iterator[tuple[int, str]]:
    """
    Yield number and text of each line; only the line feed ends one.

    :param encoding: `None`: UTF-8, or what the byte order mark says.
    :param empty: empty lines count.
    """
    number = 0
    try:
        check_text_file(path)
        if encoding is None:
            with open(path, 'rb') as start:
                mark = start.read(4)
            names = [name for marks, name in MARKS.items() if mark.startswith(marks)]
            encoding = names[0] if names else 'utf-8-sig'
            if not names:
                utf8_bytes(mark, path)  # refuses UTF-16 without a mark
        with open(path, encoding=encoding, newline='\n') as file:
            lines = iter(lambda: file.readline(LONGEST_LINE + 1), '')
            for number, line in enumerate(lines, 1):
                if len(line) > LONGEST_LINE:
                    problem = f'a line of more than {LONGEST_LINE:,} characters'
                    raise UserError(f'{path}:{number}: {problem}')
                text = line.removesuffix('\n').removesuffix('\r')
                if empty or text.strip():
                    yield number, text
    except OSError as error:
        raise UserError(f'{path}: {error.strerror}') from None
    except UnicodeError:
        raise UserError(f'{path}: not UTF-8 text after line {number}') from None


def json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """
    Yield the number and the object of each line that is not empty.
    """
    for number, line in text_lines(path):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise UserError(f'{path}:{number}: not JSON: {error}') from None
        if not isinstance(row, dict):
            raise UserError(f'{path}:{number}: a JSON object is expected')
        yield number, row


def csv_rows(
    path: Path, needed: Collection[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """
    Return an iterator over line number and stripped cells by column of a CSV file.
    """
    return named_cells(path, (line for _, line in text_lines(path, empty=True)), needed)


def is_texts(value: Any) -> bool:
    """
    True for a list of texts.
    """
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
