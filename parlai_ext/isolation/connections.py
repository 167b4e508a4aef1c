"""
Which connections a system whose files are another's may make: to the servers that the
user named, and to no other.

Python tells an audit hook of every connection and every name that is looked up, in
whatever library; the hook is set with the first limit. A limit holds for what runs
inside of it, for the threads and tasks that this starts, and for its forks. It does not
see native code that makes connections itself, nor another program.
"""

import contextlib
import functools
import ipaddress
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server:
    """
    A server that may be asked.

    :param host: a name or an address; ``.hf.co`` stands for all names that end so.
    :param port: `None`: any.
    """

    host: str
    port: int | None = None

    def covers(self, host: str, port: int | None) -> bool:
        """
        True if a host and a port (`None`: not known yet) belong to this server.
        """
        named = self.host == host
        if self.host.startswith('.'):
            named = host.endswith(self.host) or host == self.host[1:]
        return named and (None in (port, self.port) or port == self.port)


@dataclass(frozen=True, eq=False)
class Limit:
    """
    The servers that a system may ask.

    :param system: its name, for messages.
    """

    system: str
    servers: tuple[Server, ...] = ()
    # names that were looked up, by the address that they have
    names: dict[str, set[str]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def check(self, host: str, port: int | None) -> None:
        """
        Refuse a connection, or the look-up of a name (port `None`).

        :raises ConnectionRefusedError: as if nobody answered there.
        """
        host = host.lower().rstrip('.')
        hosts = {host, *self.names.get(host, ())}
        if not any(e.covers(one, port) for e in self.servers for one in hosts):
            raise self.refusal(host if port is None else f'{host}:{port}')
        if port is None and not _is_address(host):
            with unlimited(), contextlib.suppress(OSError):
                for info in socket.getaddrinfo(host, None):
                    self.names.setdefault(str(info[4][0]), set()).add(host)

    def refusal(self, place: str) -> ConnectionRefusedError:
        """
        Return the error for a place that may not be asked; the first time it is logged,
        since a library may hide it.
        """
        problem = (
            f'system {self.system!r}: no connection to {place}: its files are not '
            'trusted, and its roster entry does not name that address'
        )
        if place not in self.told:
            self.told.add(place)
            logger.warning('%s', problem)
        return ConnectionRefusedError(problem)


_NONE = Limit('')  # what runs under it is ours, whoever called it
_current: ContextVar[Limit | None] = ContextVar('parlai_ext_limit', default=None)
_of_threads: WeakKeyDictionary[threading.Thread, Limit] = WeakKeyDictionary()


@contextlib.contextmanager
def limited(limit: Limit | None) -> Iterator[None]:
    """
    Let what runs inside ask the servers of a limit only; `None`: any.
    """
    if limit is None:
        yield
        return
    _set_hook()
    token = _current.set(limit)
    try:
        yield
    finally:
        _current.reset(token)


def unlimited() -> contextlib.AbstractContextManager[None]:
    """
    Let a request of our own go out, whoever it is made for.
    """
    return limited(_NONE)


def current_limit() -> Limit | None:
    """
    Return the limit on what runs now; `None` where there is none.
    """
    limit = _current.get() or _of_threads.get(threading.current_thread())
    return None if limit is _NONE else limit


@functools.cache
def _set_hook() -> None:
    """
    Set the hook, and let every thread have the limit of the one that starts it.
    """
    start = threading.Thread.start

    @functools.wraps(start)
    def start_limited(thread: threading.Thread) -> None:
        if (limit := current_limit()) is not None:
            _of_threads[thread] = limit
        start(thread)

    threading.Thread.start = start_limited  # type: ignore[method-assign, assignment]
    sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    check = _CHECKS.get(event)
    if check is not None and (limit := current_limit()) is not None:
        check(limit, args)


def _check_socket(limit: Limit, args: tuple[Any, ...]) -> None:
    """
    Check a connection or a datagram; args are the socket and the address.
    """
    sock, address = args[:2]
    if address is None:  # a datagram of a socket that is connected
        return
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        raise limit.refusal(str(address))
    limit.check(str(address[0]), int(address[1]))


def _check_name(limit: Limit, args: tuple[Any, ...]) -> None:
    """
    Check the look-up of a name; args begin with the name.
    """
    host = args[0]
    if isinstance(host, tuple):  # an address whose name is asked for
        host = host[0]
    host = host.decode('ascii', 'replace') if isinstance(host, bytes) else host
    if host and not _is_address(host):
        limit.check(host, None)


_CHECKS = {
    'socket.connect': _check_socket,
    'socket.sendto': _check_socket,
    'socket.sendmsg': _check_socket,
    'socket.getaddrinfo': _check_name,
    'socket.gethostbyname': _check_name,
    'socket.gethostbyaddr': _check_name,
    'socket.getnameinfo': _check_name,
}


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition('%')[0])
    except ValueError:
        return False
    return True
