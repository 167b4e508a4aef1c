"""
A user's text file, read as UTF-8.
"""

from __future__ import annotations

from pathlib import Path

from parlai_ext.core.errors import UserError


def read_utf8(path: str | Path, called: str = '') -> str:
    """
    Return the text of a file, a byte order mark left out.

    :param called: what messages say before its path.
    :raises UserError: names the file, and the first line that is not UTF-8.
    """
    try:
        return Path(path).read_bytes().decode('utf-8-sig')
    except OSError as e:
        raise UserError(f'{called}{path}: {e.strerror}') from None
    except UnicodeDecodeError as e:
        line = e.object[: e.start].count(b'\n') + 1
        raise UserError(f'{called}{path}:{line}: not UTF-8 text') from None
