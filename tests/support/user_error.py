"""
The error of which a user sees one line.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from parlai_ext.core.errors import UserError


def user_error(
    words: str | None = None,
) -> AbstractContextManager[pytest.ExceptionInfo[UserError]]:
    """
    Expect an error of the user's whose line matches a regular expression. It is one
    line by itself: `UserError` makes it so (tests/core/test_errors.py).
    """
    return pytest.raises(UserError, match=words)


def error_line(call: Callable[..., object], *args: Any, **options: Any) -> str:
    """
    Return the line of the user's error that a call raises.
    """
    with user_error() as caught:
        call(*args, **options)
    return str(caught.value)
