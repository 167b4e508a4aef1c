"""
The error of which a user sees one line.
"""

import pytest

from parlai_ext.core import UserError


def user_error(words=None):
    """
    Expect an error of the user's whose line matches a regular expression. It is one
    line by itself: `UserError` makes it so (tests/core/test_errors.py).
    """
    return pytest.raises(UserError, match=words)


def error_line(call, *args, **options):
    """
    Return the line of the user's error that a call raises.
    """
    with user_error() as caught:
        call(*args, **options)
    return str(caught.value)


def exit_line(capsys, call, *args, code=1):
    """
    Return the one line of an error with which a call leaves, by this exit code.
    """
    with pytest.raises(SystemExit) as left:
        call(*args)
    line = capsys.readouterr().err
    assert line.startswith('error: ') and line.count('\n') == 1
    assert left.value.code == code
    return line
