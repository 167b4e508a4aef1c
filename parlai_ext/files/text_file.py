"""
A user's text file, whole or line by line: UTF-8, or UTF-16 or UTF-32 where it says so.

Only the line feed ends a line. Of a file that is read by lines one line is in memory.
JSON, and JSON lines, are such files.
"""

import codecs
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core import UserError, parse_json

# byte order marks; the one of UTF-32 may begin with that of UTF-16, and comes first
MARKS = {
    (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE): 'utf-32',
    (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE): 'utf-16',
}
UTF8 = 'utf-8-sig'
LARGEST_TEXT = 4 * 2**30  # bytes of a text file that is read whole
LONGEST_LINE = 10**8  # characters
# what stands for bytes that are not UTF-8 in a text decoded with ``surrogateescape``
NOT_DECODED = re.compile('[\udc80-\udcff]')


def check_text_file(path: str | Path, called: str = '') -> int:
    """
    Return the size of a file in bytes, if it is a file (or a folder, which no reader
    opens): the text of a pipe or a device may never come, or never end.

    :raises OSError: when there is none.
    :raises UserError: for a pipe, a device or a socket.
    """
    status = Path(path).stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise UserError(f'{called}{path}: a pipe or a device; a file is expected')
    return status.st_size


def encoding_of(start: bytes, where: str) -> str:
    """
    Return the encoding of a text that begins with these bytes: that of its byte order
    mark, or UTF-8.

    :param where: what messages call the text.
    :raises UserError: for UTF-16 that has no byte order mark, and a zip file.
    """
    if start.startswith(b'PK\3\4'):
        raise UserError(
            f'{where}: a zip file or a spreadsheet; unpack it, or save it as CSV'
        )
    for marks, name in MARKS.items():
        if start.startswith(marks):
            return name
    if (start[0:4:2] == b'\0\0') != (start[1:4:2] == b'\0\0'):  # as ASCII has it
        raise UserError(
            f'{where}: this seems to be UTF-16 without a byte order mark; save it as '
            'UTF-8'
        )
    return UTF8


def decoded_text(data: bytes, where: str, errors: str = 'strict') -> str:
    """
    Return the text of these bytes in UTF-8, UTF-16 or UTF-32, a byte order mark left
    out.

    :param where: what messages call the text.
    :param errors: what becomes of bytes that are not UTF-8, as for `bytes.decode`.
    :raises UserError: for damaged text, with the first line that is not UTF-8.
    """
    encoding = encoding_of(data, where)
    try:
        return data.decode(encoding, errors if encoding == UTF8 else 'strict')
    except UnicodeDecodeError as e:
        if encoding == UTF8:
            line = e.object[: e.start].count(b'\n') + 1
            raise UserError(f'{where}:{line}: not UTF-8 text') from None
        raise UserError(f'{where}: damaged {encoding.upper()} ({e.reason})') from None


def read_utf8(path: str | Path, called: str = '', errors: str = 'strict') -> str:
    """
    Return the text of a file, as `decoded_text` does.

    :param called: what messages say before its path.
    :raises UserError: also for what is no file, or larger than `LARGEST_TEXT`.
    """
    where = f'{called}{path}'
    try:
        if check_text_file(path, called) > LARGEST_TEXT:
            raise UserError(f'{where}: more than {LARGEST_TEXT:,} bytes')
        data = Path(path).read_bytes()
    except OSError as e:
        raise UserError(f'{where}: {e.strerror}') from None
    return decoded_text(data, where, errors)


def is_utf8(text: str) -> bool:
    """
    True if a text decoded with ``surrogateescape`` was UTF-8.
    """
    return text.isascii() or not NOT_DECODED.search(text)


def text_lines(
    path: str | Path,
    encoding: str | None = None,
    *,
    empty: bool = False,
    called: str = '',
) -> Iterator[tuple[int, str]]:
    """
    Yield number and text of each line, without the carriage return that may end it.

    :param encoding: `None`: UTF-8, or what the byte order mark says.
    :param empty: empty lines count.
    :param called: what messages say before the path of a file that cannot be read.
    :raises UserError: names the file, and the line that is not UTF-8 or is too long.
    """
    number = 0
    try:
        check_text_file(path, called)
        if encoding is None:
            with open(path, 'rb') as start:
                encoding = encoding_of(start.read(4), f'{called}{path}')
        with open(
            path, encoding=encoding, errors='surrogateescape', newline='\n'
        ) as file:
            lines = iter(lambda: file.readline(LONGEST_LINE + 1), '')
            for number, line in enumerate(lines, 1):
                if len(line) > LONGEST_LINE:
                    problem = f'a line of more than {LONGEST_LINE:,} characters'
                    raise UserError(f'{path}:{number}: {problem}')
                if not is_utf8(line):
                    raise UserError(f'{called}{path}:{number}: not UTF-8 text')
                text = line.removesuffix('\n').removesuffix('\r')
                if empty or text.strip():
                    yield number, text
    except OSError as error:
        raise UserError(f'{called}{path}: {error.strerror}') from None
    except UnicodeError as error:
        raise UserError(
            f'{path}: damaged {encoding} text after line {number} ({error})'
        ) from None


# --- JSON -----------------------------------------------------------------------------
# A user's file of JSON, or of JSON lines: its values, or one clear error.


def read_json(path: str | Path, kind: type, called: str = '') -> Any:
    """
    Return the JSON value in a file.

    :param kind: what it must be: ``list`` or ``dict``.
    :param called: what messages say before its path.
    :raises UserError: names the file that cannot be read, or has something else.
    """
    try:
        value = parse_json(read_utf8(path, called))
    except ValueError as error:
        raise UserError(f'{called}{path}: not JSON: {error}') from None
    if not isinstance(value, kind):
        expected = 'a JSON list' if kind is list else 'a JSON object'
        raise UserError(f'{called}{path}: {expected} is expected')
    return value


def json_lines(path: str | Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """
    Yield the number and the object of each line that is not empty.

    :raises UserError: names the file, and the line that holds something else.
    """
    for number, line in text_lines(path):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise UserError(f'{path}:{number}: not JSON: {error}') from None
        if not isinstance(row, dict):
            raise UserError(f'{path}:{number}: a JSON object is expected')
        yield number, row


def is_texts(value: Any) -> bool:
    """
    True for a list of texts.
    """
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
