"""
No connections while a judge of others is loaded and asked in this process: its model is
data, and its agent ParlAI's, which could be told by options to ask somebody.

Python tells an audit hook of every connection and every name that is looked up. The
hook does not see native code. Systems play in processes that the kernel confines.
"""

import contextlib
import functools
import logging
import socket
import sys
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger(__name__)

EVENTS = (
    *('socket.connect', 'socket.sendto', 'socket.sendmsg', 'socket.getaddrinfo'),
    *('socket.gethostbyname', 'socket.gethostbyaddr', 'socket.getnameinfo'),
)
_working: list[str] = []


@contextlib.contextmanager
def no_connections(who: str | None) -> Iterator[None]:
    """
    Refuse connections of this process meanwhile.

    :param who: is named in the log; `None`: allow them.
    """
    if who is None:
        yield
        return
    _set_hook()
    _working.append(who)
    try:
        yield
    finally:
        _working.pop()


@functools.cache
def _set_hook() -> None:
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    """
    Refuse a connection as if nobody answered there; it is logged, since a library may
    hide it.
    """
    if _working and event in EVENTS:
        if isinstance(args[0], socket.socket) and args[0].family == socket.AF_UNIX:
            return
        place = args[1] if isinstance(args[0], socket.socket) else args[0]
        problem = f'{_working[-1]}: no connection to {place}: its files are not trusted'
        logger.warning('%s', problem)
        raise ConnectionRefusedError(problem)
