"""
The error of which a user sees one line.
"""

from contextlib import AbstractContextManager

import pytest

from parlai_ext.core.errors import UserError


def user_error(
    words: str | None = None,
) -> AbstractContextManager[pytest.ExceptionInfo[UserError]]:
    """
    Expect an error of the user's whose line matches a regular expression. It is one
    line by itself: `UserError` makes it so (tests/core/test_printable.py).
    """
    return pytest.raises(UserError, match=words)
