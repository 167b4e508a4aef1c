"""
What an agent's own code may do to the program in which it runs: print, never reply, and
raise what would end the program.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

from parlai_ext.core.display import VisibleOutput
from parlai_ext.core.errors import UserError
from parlai_ext.isolation.connections import Limit, limited

AGAIN = 1.0  # seconds until code that caught the exception of a deadline meets it again


class Overdue(BaseException):
    """
    The time of an agent is over. It is no `Exception`, so that few agents catch it.
    """


@contextlib.contextmanager
def agents_code(limit: Limit | None, seconds: float | None) -> Iterator[None]:
    """
    Run code of an agent: it asks no strange server, prints to standard error only, and
    ends.

    :param seconds: that it may take; `None`: no limit. Code that never comes back to
        Python, and code outside of the main thread, cannot be ended.
    :raises UserError: when its time is over.
    """
    with limited(limit), _printing_to_stderr(), _in_time(seconds):
        yield


def raise_unless_of_agent(error: BaseException) -> None:
    """
    Raise an exception again if it is not an agent's own but that of a deadline or a
    signal.

    Our handlers of signals raise a class of their own; so where one of them is set, or
    Ctrl-C is ignored as in a background job, a plain `KeyboardInterrupt` can only be an
    agent's.
    """
    if isinstance(error, Overdue):
        raise error
    if isinstance(error, KeyboardInterrupt):
        handler = signal.getsignal(signal.SIGINT)
        is_pythons = handler in (signal.default_int_handler, signal.SIG_DFL, None)
        if type(error) is not KeyboardInterrupt or is_pythons:
            raise error


@contextlib.contextmanager
def _in_time(seconds: float | None) -> Iterator[None]:
    """
    Raise in what runs inside when it takes too long.
    """
    if (
        seconds is None
        or threading.current_thread() is not threading.main_thread()
        or not hasattr(signal, 'setitimer')
        or signal.getitimer(signal.ITIMER_REAL)[0]  # of a block around this one
    ):
        yield
        return
    before = signal.signal(signal.SIGALRM, _raise_overdue)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    except Overdue:
        raise UserError(
            f'no reply within {seconds:g} s; --reply-timeout SECONDS gives it more'
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _raise_overdue(number: int, frame: object) -> None:
    raise Overdue


@contextlib.contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """
    Let what is printed go to standard error, so that standard output holds results
    only, and let it change nothing of a terminal.
    """
    if isinstance(sys.stderr, VisibleOutput) or sys.stderr is None:
        yield
        return
    shown = VisibleOutput(sys.stderr, progress=True)
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        yield
