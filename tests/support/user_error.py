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
