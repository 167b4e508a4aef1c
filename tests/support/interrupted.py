"""
Work that Ctrl-C ends between two calls of a function.
"""

from contextlib import contextmanager

import pytest

from parlai_ext.commands.signals import Interrupted


@contextmanager
def interrupted(owner, name, n_calls=0):
    """
    Expect that the work within ends when a function of a module or a class is called
    again after so many calls; yield the arguments of these calls.
    """
    calls, real = [], getattr(owner, name)

    def call(*args, **options):
        if len(calls) == n_calls:
            raise Interrupted  # as our handlers do, also where tests ignore Ctrl-C
        calls.append(args)
        return real(*args, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, name, call)
        yield calls
