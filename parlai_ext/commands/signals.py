"""
Ctrl-C and SIGTERM, which schedulers send, end a command with one line and the exit code
that shells use: 130 for Ctrl-C (SIGINT), 143 for SIGTERM.

While a command starts, there is nothing to save: `end_in_one_line` ends the process at
once. While it works, `signals_as_interrupt` lets the work save what it has. This module
imports next to nothing, because it has to be there before all others.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LINE = 'interrupted; the same command again goes on from here'
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """
    A signal that ends a command.

    Of its own class, because Python ends by SIGINT, whatever exit code it is told, once
    a plain `KeyboardInterrupt` has passed through ``exec`` of a text, as when a module
    with dataclasses was being imported.
    """

    def __init__(self, number: int = signal.SIGINT):
        super().__init__(number)
        self.number = number


def exit_code(number: int) -> int:
    """
    Return the exit code of a process that a signal ends, as shells give it.
    """
    return 128 + number


def signals_not_ignored() -> list[signal.Signals]:
    """
    Return those of `SIGNALS` that are not ignored.
    """
    return [one for one in SIGNALS if signal.getsignal(one) != signal.SIG_IGN]


def end_in_one_line() -> None:
    """
    From now on, end the process at a signal: one line on standard error, no traceback.

    A signal that is ignored (as under ``nohup`` or in a background job) stays so.
    """
    for number in signals_not_ignored():
        signal.signal(number, _end)


def end_as_usual() -> None:
    """
    Give signals back the meaning that they have in Python.
    """
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    os.write(2, f'error: {LINE}\n'.encode())
    os._exit(exit_code(number))


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """
    Let both signals raise `Interrupted` in the work inside.

    A signal that comes while a library's C code runs may leave it as another exception,
    of Ray's as a plain `KeyboardInterrupt`; it ends the work as `Interrupted` all the
    same.
    """
    arrived = []

    def interrupt(number: int, frame: object) -> None:
        arrived.append(number)
        raise Interrupted(number)

    before = {}
    if threading.current_thread() is threading.main_thread():  # only it may say so
        before = {one: signal.signal(one, interrupt) for one in signals_not_ignored()}
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if arrived and not isinstance(error, Interrupted):
            raise Interrupted(arrived[0]) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
