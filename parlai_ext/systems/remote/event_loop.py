"""
The event loop in which this process makes its HTTP requests.
"""

import asyncio
import functools
import os
import ssl
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx2

T = TypeVar('T')


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """
    Return what a coroutine returns, run in the process's event loop for requests.

    The loop has a thread of its own that ends with the program: Ctrl-C waits for no
    answer, and a notebook's own loop is not in the way.
    """
    future = asyncio.run_coroutine_threadsafe(work, _event_loop(os.getpid()))
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


@functools.cache
def certificates() -> ssl.SSLContext:
    """
    Return the certificates to trust: those that `REQUESTS_CA_BUNDLE` names, or the
    library's own. To read them takes longer than most requests.
    """
    if bundle := os.environ.get('REQUESTS_CA_BUNDLE'):
        return ssl.create_default_context(cafile=bundle)
    return httpx2.create_ssl_context()


@functools.cache
def _event_loop(process: int) -> asyncio.AbstractEventLoop:
    """
    Return the loop of a process; one that was forked does not have its parent's thread.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop
