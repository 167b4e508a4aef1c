"""
HTTP endpoints that misbehave, each in one way: a path of one server for each.

`serving` runs the server in a forked process. Every request leaves a line in a file, so
that one to an address that a redirect names is noticed.
"""

import contextlib
import gzip
import json
import os
import signal
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from torture.forked import Forked

SLOWLY = 0.02  # seconds between the bytes of what drips
LONG = 60  # seconds, longer than any test waits
OK = b'HTTP/1.1 200 OK\r\n'
CHUNKED = OK + b'Transfer-Encoding: chunked\r\n\r\n'
BIG_CHUNK = b'100000\r\n' + b' ' * 0x100000 + b'\r\n'
USAGE = {'prompt_tokens': 10**299, 'completion_tokens': -(10**298)}
# CANARY stands for another address of this server
MOVES = (
    'WWW-Authenticate: Negotiate\r\nRefresh: 0; url=http://CANARY/canary\r\n'
    'Alt-Svc: h2="CANARY"\r\nSet-Cookie: a=b\r\n'
)
# replies that are stored, by the path that gives them
TEXTS = {
    'surrogate': 'tea \ud83d and \udc00',
    'bidi': 'tea \u202e\u2066 abc',
    'escape': '\x1b]0;owned\x07\x1b[2J tea\0 \x9b31m',
    'large': 'tea ' * 200_000 + 'end',
    'huge_numbers': 'tea',
}


def answer(
    body: bytes, status: str = '200 OK', headers: str = '', length: int | None = None
) -> bytes:
    """
    Return an answer with its headers.

    :param length: the ``Content-Length``, where it is not right.
    """
    size = len(body) if length is None else length
    head = f'HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{headers}\r\n'
    return head.encode('latin-1') + body


def chat(content: Any, **more: Any) -> bytes:
    """
    Return the body of a chat completion.
    """
    choice = {'message': {'role': 'assistant', 'content': content}}
    data = {'choices': [{**choice, 'finish_reason': 'stop'}], 'model': 'tiny', **more}
    return json.dumps(data).encode()


def coded(name: str, body: bytes, layers: int = 1) -> bytes:
    """
    Return an answer whose body is packed.
    """
    names = ', '.join([name] * layers)
    return answer(body, headers=f'Content-Encoding: {names}\r\n')


def gzip_bomb() -> bytes:
    """
    Return a gzip file of 1 GB of blanks.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    part = packer.compress(b' ' * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    head = b'\x1f\x8b\x08' + bytes(7)
    return head + part * 1024 + packer.flush() + bytes(8)


def zstd_bomb() -> bytes:
    """
    Return one frame of blocks, each one byte that is repeated 128 KB times: 4 GB.
    """
    block = (1 << 1 | (128 * 1024) << 3).to_bytes(3, 'little') + b' '
    return b'\x28\xb5\x2f\xfd\x00\x58' + block * 30_000


# does something to the socket of a request
Act = Callable[[socket.socket], object]


def for_ever(head: bytes, part: bytes, pause: float = 0.0) -> Act:
    """
    Return the act that sends a head, and then a part again and again.
    """

    def act(to: socket.socket) -> None:
        to.sendall(head)
        while True:
            to.sendall(part)
            time.sleep(pause)

    return act


def made(make: Callable[[], bytes]) -> Act:
    """
    Return the act that sends what is made then: it is large.
    """
    return lambda to: to.sendall(make())


# what each path sends, or does to the socket
ACTS: dict[str, bytes | Act] = {
    **{name: answer(chat(text)) for name, text in TEXTS.items()},
    'huge_numbers': answer(chat('tea', usage=USAGE)),
    # more digits than are read: the reply is refused, and the system named
    'too_huge_numbers': answer(chat('tea', usage={'completion_tokens': 10**300})),
    'too_large': answer(chat('tea ' * 1_000_000)),
    'hangs': for_ever(b'', b'', LONG),
    'drips_headers': for_ever(OK + b'X-Long: ', b'a', SLOWLY),
    'drips_body': for_ever(answer(b'', length=10**6), b'a', SLOWLY),
    'continues': for_ever(b'', b'HTTP/1.1 100 Continue\r\n\r\n', SLOWLY),
    'too_short': answer(chat('tea'), length=10**6),
    'too_long': answer(chat('tea'), length=10),
    'negative_length': answer(chat('tea'), length=-1),
    'closes': b'HTTP/1.1 20',
    'fails': answer(b'\x1b[31mit is broken', '500 Broken'),
    'busy': answer(b'', '429 Busy', 'Retry-After: 0\r\n'),
    'busy_for_ever': answer(b'', '429 Busy', f'Retry-After: {"9" * 400}\r\n'),
    'redirects': answer(b'', '307 There', 'Location: http://CANARY/canary\r\n'),
    'redirects_to_file': answer(b'', '302 There', 'Location: file:///etc/passwd\r\n'),
    'refreshes': answer(b'', '401 Who', MOVES),
    'endless_body': for_ever(CHUNKED, BIG_CHUNK),
    'endless_headers': for_ever(OK, b'X-More: ' + b'a' * 4000 + b'\r\n'),
    'bad_chunks': CHUNKED + b'-5\r\ntea\r\nzz\r\n',
    'garbage': os.urandom(4000),
    'no_json': answer(b'{"choices": [{"message": {"content": "tea"'),
    'no_utf8': answer(b'{"choices": "\xff\xfe\xc3\x28"}'),
    'deep_json': answer(b'[' * 10**6),
    'wrong_types': answer(chat({'tea': ['rain']})),
    'wrong_choices': answer(b'{"choices": {"0": "tea"}, "error": [1, null]}'),
    'gzip_bomb': made(lambda: coded('gzip', gzip_bomb())),
    'gzip_in_gzip': made(lambda: coded('gzip', gzip.compress(gzip_bomb() * 20, 1), 2)),
    'many_codings': coded('deflate', zlib.compress(b'{}'), 500),
    'zstd_bomb': made(lambda: coded('zstd', zstd_bomb())),
}


class Handler(BaseHTTPRequestHandler):
    """
    Reads a request and does what its path says; whoever asks again needs another
    connection.
    """

    log: Path

    def do_POST(self) -> None:
        """
        Answer one request.
        """
        self.close_connection = True
        self.rfile.read(int(self.headers['Content-Length'] or 0))
        path = self.path.strip('/').split('/')[0]
        with self.log.open('a') as file:
            file.write(f'{path}\n')
        act = ACTS.get(path, ACTS['closes'])
        with contextlib.suppress(OSError):
            if isinstance(act, bytes):
                here = f'localhost:{self.connection.getsockname()[1]}'
                self.connection.sendall(act.replace(b'CANARY', here.encode()))
            else:
                act(self.connection)

    do_GET = do_POST


@contextlib.contextmanager
def serving(log: Path) -> Iterator[str]:
    """
    Serve in a forked process; yield the address, ``http://127.0.0.1:PORT``.

    :param log: gets a line for each request, its path.
    """
    handler = type('Handler', (Handler,), {'log': log})
    server = ThreadingHTTPServer(('127.0.0.1', 0), handler)
    child = Forked(server.serve_forever, log.with_suffix('.err'))
    server.socket.close()
    try:
        yield f'http://127.0.0.1:{server.server_address[1]}'
    finally:
        child.send(signal.SIGKILL)
        child.wait()
