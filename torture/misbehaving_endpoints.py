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
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# does something to the socket of a request
Act = Callable[[socket.socket], object]
SLOWLY = 0.02  # seconds between the bytes of what drips
LONG = 60  # seconds, longer than any test waits
# replies that are stored, by the path that gives them
TEXTS = {
    'surrogate': 'tea \ud83d and \udc00',
    'bidi': 'tea \u202e\u2066 abc',
    'escape': '\x1b]0;owned\x07\x1b[2J tea\0 \x9b31m',
    'large': 'tea ' * 200_000 + 'end',
}
OK = b'HTTP/1.1 200 OK\r\n'
CHUNKED = OK + b'Transfer-Encoding: chunked\r\n\r\n'


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


def sends(make: Callable[[], bytes]) -> Act:
    """
    Return the act that sends what is made then.
    """
    return lambda to: to.sendall(make())


def sends_for_ever(head: bytes, part: bytes, pause: float = 0.0) -> Act:
    """
    Return the act that sends a head, and then a part again and again.
    """

    def act(to: socket.socket) -> None:
        to.sendall(head)
        while True:
            to.sendall(part)
            time.sleep(pause)

    return act


def sends_elsewhere(status: str, headers: str) -> Act:
    """
    Return the act that names other addresses; CANARY stands for one of this server.
    """

    def act(to: socket.socket) -> None:
        canary = f'localhost:{to.getsockname()[1]}'
        to.sendall(answer(b'', status, headers.replace('CANARY', canary)))

    return act


BIG_CHUNK = b'100000\r\n' + b' ' * 0x100000 + b'\r\n'
USAGE = {'prompt_tokens': 10**299, 'completion_tokens': -(10**298)}
MOVES = (
    'WWW-Authenticate: Negotiate\r\nRefresh: 0; url=http://CANARY/canary\r\n'
    'Alt-Svc: h2="CANARY"\r\nSet-Cookie: a=b\r\n'
)
ACTS: dict[str, Act] = {
    **{name: sends(partial(answer, chat(text))) for name, text in TEXTS.items()},
    'too_large': sends(lambda: answer(chat('tea ' * 1_000_000))),
    'hangs': lambda to: time.sleep(LONG),
    'drips_headers': sends_for_ever(OK + b'X-Long: ', b'a', SLOWLY),
    'drips_body': sends_for_ever(answer(b'', length=10**6), b'a', SLOWLY),
    'continues': sends_for_ever(b'', b'HTTP/1.1 100 Continue\r\n\r\n', SLOWLY),
    'too_short': sends(lambda: answer(chat('tea'), length=10**6)),
    'too_long': sends(lambda: answer(chat('tea'), length=10)),
    'negative_length': sends(lambda: answer(chat('tea'), length=-1)),
    'closes': sends(lambda: b'HTTP/1.1 20'),
    'fails': sends(lambda: answer(b'\x1b[31mit is broken', '500 Broken')),
    'busy': sends(lambda: answer(b'', '429 Busy', 'Retry-After: 0\r\n')),
    'busy_for_ever': sends(
        lambda: answer(b'', '429 Busy', f'Retry-After: {"9" * 400}\r\n')
    ),
    'redirects': sends_elsewhere('307 There', 'Location: http://CANARY/canary\r\n'),
    'redirects_to_file': sends_elsewhere(
        '302 There', 'Location: file:///etc/passwd\r\n'
    ),
    'refreshes': sends_elsewhere('401 Who', MOVES),
    'endless_body': sends_for_ever(CHUNKED, BIG_CHUNK),
    'endless_headers': sends_for_ever(OK, b'X-More: ' + b'a' * 4000 + b'\r\n'),
    'bad_chunks': sends(lambda: CHUNKED + b'-5\r\ntea\r\nzz\r\n'),
    'garbage': sends(lambda: os.urandom(4000)),
    'no_json': sends(lambda: answer(b'{"choices": [{"message": {"content": "tea"')),
    'no_utf8': sends(lambda: answer(b'{"choices": "\xff\xfe\xc3\x28"}')),
    'deep_json': sends(lambda: answer(b'[' * 10**6)),
    'huge_numbers': sends(lambda: answer(chat('tea', usage=USAGE))),
    # more digits than are read: the reply is refused, and the system named
    'too_huge_numbers': sends(
        lambda: answer(chat('tea', usage={'completion_tokens': 10**300}))
    ),
    'wrong_types': sends(lambda: answer(chat({'tea': ['rain']}))),
    'wrong_choices': sends(
        lambda: answer(b'{"choices": {"0": "tea"}, "error": [1, null]}')
    ),
    'gzip_bomb': sends(lambda: coded('gzip', gzip_bomb())),
    'gzip_in_gzip': sends(lambda: coded('gzip', gzip.compress(gzip_bomb() * 20, 1), 2)),
    'many_codings': sends(lambda: coded('deflate', zlib.compress(b'{}'), 500)),
    'zstd_bomb': sends(lambda: coded('zstd', zstd_bomb())),
}


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
            ACTS.get(path, ACTS['closes'])(self.request)


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
