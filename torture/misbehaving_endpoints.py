"""
HTTP endpoints that misbehave, each in one way: a path of one server for each.

`serving` runs the server in a forked process. Every request leaves a line in a file, so
that one to an address that a redirect names is noticed.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import socket
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Act = Callable[[socket.socket], object]
SLOWLY = 0.02  # seconds between the bytes of what drips
LONG = 60  # seconds, longer than any test waits
ACTS: dict[str, Act] = {}
# replies that are stored, by the path that gives them
TEXTS = {
    'surrogate': 'tea \ud83d and \udc00',
    'bidi': 'tea \u202e\u2066 abc',
    'escape': '\x1b]0;owned\x07\x1b[2J tea\0 \x9b31m',
    'large': 'tea ' * 200_000 + 'end',
}


def acts(function: Act) -> Act:
    """
    Make a function the behaviour of the path that has its name.
    """
    ACTS[function.__name__.strip('_')] = function
    return function


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


for name, text in TEXTS.items():
    ACTS[name] = lambda to, text=text: to.sendall(answer(chat(text)))


@acts
def too_large(to: socket.socket) -> None:
    to.sendall(answer(chat('tea ' * 1_000_000)))


@acts
def hangs(to: socket.socket) -> None:
    time.sleep(LONG)


@acts
def drips_headers(to: socket.socket) -> None:
    to.sendall(b'HTTP/1.1 200 OK\r\nX-Long: ')
    _drip(to)


@acts
def drips_body(to: socket.socket) -> None:
    to.sendall(answer(b'', length=10**6))
    _drip(to)


@acts
def continues(to: socket.socket) -> None:
    while True:
        to.sendall(b'HTTP/1.1 100 Continue\r\n\r\n')
        time.sleep(SLOWLY)


@acts
def too_short(to: socket.socket) -> None:
    to.sendall(answer(chat('tea'), length=10**6))


@acts
def too_long(to: socket.socket) -> None:
    to.sendall(answer(chat('tea'), length=10))


@acts
def negative_length(to: socket.socket) -> None:
    to.sendall(answer(chat('tea'), length=-1))


@acts
def closes(to: socket.socket) -> None:
    to.sendall(b'HTTP/1.1 20')


@acts
def fails(to: socket.socket) -> None:
    to.sendall(answer(b'\x1b[31mit is broken', '500 Broken'))


@acts
def busy(to: socket.socket) -> None:
    to.sendall(answer(b'', '429 Busy', 'Retry-After: 0\r\n'))


@acts
def busy_for_ever(to: socket.socket) -> None:
    to.sendall(answer(b'', '429 Busy', f'Retry-After: {"9" * 400}\r\n'))


@acts
def redirects(to: socket.socket) -> None:
    port = to.getsockname()[1]
    place = f'Location: http://localhost:{port}/canary\r\n'
    to.sendall(answer(b'', '307 There', place))


@acts
def redirects_to_file(to: socket.socket) -> None:
    to.sendall(answer(b'', '302 There', 'Location: file:///etc/passwd\r\n'))


@acts
def refreshes(to: socket.socket) -> None:
    port = to.getsockname()[1]
    places = f'Refresh: 0; url=http://localhost:{port}/canary\r\n'
    places += f'Alt-Svc: h2="localhost:{port}"\r\nSet-Cookie: a=b\r\n'
    to.sendall(answer(b'', '401 Who', f'WWW-Authenticate: Negotiate\r\n{places}'))


@acts
def endless_body(to: socket.socket) -> None:
    to.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    part = b'100000\r\n' + b' ' * 0x100000 + b'\r\n'
    while True:
        to.sendall(part)


@acts
def endless_headers(to: socket.socket) -> None:
    to.sendall(b'HTTP/1.1 200 OK\r\n')
    while True:
        to.sendall(b'X-More: ' + b'a' * 4000 + b'\r\n')


@acts
def bad_chunks(to: socket.socket) -> None:
    head = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
    to.sendall(head + b'-5\r\ntea\r\nzz\r\n')


@acts
def garbage(to: socket.socket) -> None:
    to.sendall(os.urandom(4000))


@acts
def no_json(to: socket.socket) -> None:
    to.sendall(answer(b'{"choices": [{"message": {"content": "tea"'))


@acts
def no_utf8(to: socket.socket) -> None:
    to.sendall(answer(b'{"choices": "\xff\xfe\xc3\x28"}'))


@acts
def deep_json(to: socket.socket) -> None:
    to.sendall(answer(b'[' * 10**6))


@acts
def huge_numbers(to: socket.socket) -> None:
    usage = {'prompt_tokens': 10**299, 'completion_tokens': -(10**298)}
    to.sendall(answer(chat('tea', usage=usage)))


@acts
def too_huge_numbers(to: socket.socket) -> None:
    # more digits than are read: the reply is refused, and the system named
    to.sendall(answer(chat('tea', usage={'completion_tokens': 10**300})))


@acts
def wrong_types(to: socket.socket) -> None:
    to.sendall(answer(chat({'tea': ['rain']})))


@acts
def wrong_choices(to: socket.socket) -> None:
    to.sendall(answer(b'{"choices": {"0": "tea"}, "error": [1, null]}'))


@acts
def gzip_bomb(to: socket.socket) -> None:
    to.sendall(coded('gzip', bomb()))


@acts
def gzip_in_gzip(to: socket.socket) -> None:
    to.sendall(coded('gzip', gzip.compress(bomb() * 20, 1), 2))


@acts
def many_codings(to: socket.socket) -> None:
    to.sendall(coded('deflate', zlib.compress(b'{}'), 500))


@acts
def zstd_bomb(to: socket.socket) -> None:
    # one frame of blocks, each of which is one byte that is repeated 128 KB times
    block = (1 << 1 | (128 * 1024) << 3).to_bytes(3, 'little') + b' '
    frame = b'\x28\xb5\x2f\xfd\x00\x58' + block * 30_000  # 4 GB
    to.sendall(coded('zstd', frame))


def bomb() -> bytes:
    """
    Return a gzip file of 1 GB of blanks.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    part = packer.compress(b' ' * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    head = b'\x1f\x8b\x08' + bytes(7)
    return head + part * 1024 + packer.flush() + bytes(8)


def _drip(to: socket.socket) -> None:
    while True:
        to.sendall(b'a')
        time.sleep(SLOWLY)


class Handler(socketserver.BaseRequestHandler):
    """
    Reads a request and does what its path says.
    """

    def handle(self) -> None:
        """
        Answer one request; whoever asks again needs another connection.
        """
        with contextlib.suppress(OSError):
            self.request.settimeout(LONG)
            path = _read_request(self.request).strip('/').split('/')[0]
            with self.server.log.open('a') as file:  # type: ignore[attr-defined]
                file.write(f'{path}\n')
            ACTS.get(path, closes)(self.request)


def _read_request(from_: socket.socket) -> str:
    """
    Read a request with its body, and return its path.
    """
    data = b''
    while b'\r\n\r\n' not in data:
        part = from_.recv(65536)
        if not part:
            return ''
        data += part
    head, _, body = data.partition(b'\r\n\r\n')
    lines = head.decode('latin-1').split('\r\n')
    sizes = [x[15:] for x in lines if x.lower().startswith('content-length:')]
    while len(body) < int(sizes[0] if sizes else 0):
        body += from_.recv(65536)
    return lines[0].split(' ')[1]


class Server(socketserver.ThreadingTCPServer):
    """
    A thread for each connection.
    """

    daemon_threads = True
    request_queue_size = 64


@contextlib.contextmanager
def serving(log: Path) -> Iterator[str]:
    """
    Serve in a forked process; yield the address, ``http://127.0.0.1:PORT``.

    :param log: gets a line for each request, its path.
    """
    server = Server(('127.0.0.1', 0), Handler)
    server.log = log  # type: ignore[attr-defined]
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
        server.serve_forever()
    port = server.server_address[1]
    server.socket.close()
    try:
        yield f'http://127.0.0.1:{port}'
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)
