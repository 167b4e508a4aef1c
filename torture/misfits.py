"""
Systems and endpoints that misbehave, one in a run of systems that do not. Held: the
command ends in time; the others' dialogues have the bytes of a run without it; it is
named in one line, or its words are stored exactly; nothing outside of the run folder is
written; memory stays bounded; nobody is asked but the endpoint.
"""

import contextlib
import gzip
import json
import os
import random
import re
import signal
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from parlai_ext.core.json_text import without_half_characters
from parlai_ext.store import RunFolder
from tests.support.forked import Forked
from tests.support.small_run import files_of
from torture import misbehaving_agents
from torture.inputs import TABLE, filled, put
from torture.trials import Command, Trials, run_here

DEADLINE = 60.0  # seconds for a run; one without a misfit takes about one
MEMORY = 1_500_000_000  # bytes that a run may have, its libraries among them
GUEST = 'misfit'  # its name in cases.yaml
OURS = {'run', 'guest.yaml', 'manifest.json'}

# ---- endpoints

SLOWLY = 0.02  # seconds between the bytes of what drips
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
# does something to the socket of a request
Act = Callable[[socket.socket], object]


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
    Return the answer of a chat completion.
    """
    choice = {'message': {'role': 'assistant', 'content': content}}
    data = {'choices': [{**choice, 'finish_reason': 'stop'}], 'model': 'tiny', **more}
    return answer(json.dumps(data).encode())


def packed(coding: str, make: Callable[[], bytes]) -> Act:
    """
    Return the act that sends a packed body, which is made then: it is large.
    """
    head = f'Content-Encoding: {coding}\r\n'
    return lambda to: to.sendall(answer(make(), headers=head))


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


# what each path sends, or does to the socket
ACTS: dict[str, bytes | Act] = {
    **{name: chat(text) for name, text in TEXTS.items()},
    'huge_numbers': chat('tea', usage=USAGE),
    # more digits than are read: the reply is refused, and the system named
    'too_huge_numbers': chat('tea', usage={'completion_tokens': 10**300}),
    'too_large': chat('tea ' * 1_000_000),
    'hangs': for_ever(b'', b'', 60),
    'drips_headers': for_ever(OK + b'X-Long: ', b'a', SLOWLY),
    'drips_body': for_ever(answer(b'', length=10**6), b'a', SLOWLY),
    'continues': for_ever(b'', b'HTTP/1.1 100 Continue\r\n\r\n', SLOWLY),
    'too_short': answer(b'{"choices": ', length=10**6),
    'too_long': answer(b'{"choices": [{"message": {"content": "tea"}}]}', length=10),
    'negative_length': answer(b'{"choices": []}', length=-1),
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
    'garbage': random.Random(0).randbytes(4000),
    'no_json': answer(b'{"choices": [{"message": {"content": "tea"'),
    'no_utf8': answer(b'{"choices": "\xff\xfe\xc3\x28"}'),
    'deep_json': answer(b'[' * 10**6),
    'wrong_types': chat({'tea': ['rain']}),
    'wrong_choices': answer(b'{"choices": {"0": "tea"}, "error": [1, null]}'),
    'gzip_bomb': packed('gzip', gzip_bomb),
    'gzip_in_gzip': packed('gzip, gzip', lambda: gzip.compress(gzip_bomb() * 20, 1)),
    'many_codings': packed(', '.join(['deflate'] * 500), lambda: zlib.compress(b'{}')),
    'zstd_bomb': packed('zstd', zstd_bomb),
}


class Handler(BaseHTTPRequestHandler):
    """
    Reads a request, notes its path in a file, so that one to an address that a redirect
    names is noticed, and does what the path says; whoever asks again needs another
    connection.
    """

    log: Path

    def do_POST(self) -> None:
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


# ---- runs


class Misfits(Trials):
    """
    Lets every misbehaving agent and endpoint take part in a run.
    """

    names = (*misbehaving_agents.AGENTS, *ACTS)
    texts = misbehaving_agents.TEXTS | TEXTS
    count = len(names)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.asked = folder / 'asked.txt'
        handler = type('Handler', (Handler,), {'log': self.asked})
        server = ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self.url = f'http://127.0.0.1:{server.server_address[1]}'
        self.server = Forked(server.serve_forever, folder / 'server.err')
        server.socket.close()
        self.lay_out(TABLE['without'], {})
        run_here(TABLE['misbehaving'], self.work)
        self.expected = self.dialogues_of_others()

    def close(self) -> None:
        self.server.send(signal.SIGKILL)
        self.server.wait()

    def trial(self, number: int, rng: random.Random) -> str:
        name = self.names[number]
        self.asked.write_text('')
        opt: Any = {'model': f'{misbehaving_agents.__name__}:{name}'}
        if name in ACTS:
            opt = filled(TABLE['endpoint'], {'URL': f'{self.url}/{name}/v1'})
        self.lay_out(TABLE['guest'], {'OPTIONS': opt})
        problem = self.problem(self.start(TABLE['misbehaving']), name)
        asked = {*self.asked.read_text().split()}
        if not problem and asked != {name} & ACTS.keys():
            problem = f'asked was {asked}'
        return problem and f'{name}: {problem}'

    def lay_out(self, protocol: Mapping[str, Any], words: Mapping[str, Any]) -> None:
        """
        Make ``work`` a folder with nothing but a protocol.
        """
        self.clear()
        put(self.work / 'guest.yaml', protocol, words)

    def problem(self, ended: Command, name: str) -> str:
        """
        Return what did not hold in a run with a misfit; '' if all did.
        """
        run = self.work / 'run'
        if problem := ended.problem(0, 1, seconds=DEADLINE, memory=MEMORY):
            return problem
        if more := {*os.listdir(self.work)} - OURS:
            return f'written beside the run: {sorted(more)}'
        if self.dialogues_of_others() != self.expected:
            return 'the other systems have other dialogues'
        if not (run / 'ranking.json').exists() or not (run / 'report.html').exists():
            return f'no ranking or no report: {ended.output[-300:]}'
        if name not in self.texts:
            return named_problem(ended.output)
        said = {
            utterance.text
            for dialogue in RunFolder.existing(run).iter_dialogues()
            for utterance in dialogue.utterances
            if utterance.speaker == GUEST and not utterance.given
        }
        stored = without_half_characters(self.texts[name])
        return '' if said == {stored} else f'stored: {[t[:60] for t in said]}'

    def dialogues_of_others(self) -> dict[str, bytes]:
        """
        Return the dialogue files of all pairs without the misfit.
        """
        files = files_of(self.work / 'run' / 'dialogues')
        names = (name for name in files if name.endswith('.jsonl'))
        return {name: files[name] for name in names if GUEST not in name}


def named_problem(output: str) -> str:
    """
    Return '' if a line names the misfit and a reason.
    """
    lines = re.split(r'[\n\r]', output)
    is_named = any(re.search(rf'{GUEST}\W.*\w', line) for line in lines)
    return '' if is_named else f'nobody names it: {output[-300:]}'
