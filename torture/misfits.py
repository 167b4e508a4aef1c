"""
Systems and endpoints that misbehave, one in a run of systems that do not. What has to
hold is in docs/torture.md.
"""

import contextlib
import gzip
import json
import os
import random
import re
import time
import zlib
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from parlai_ext.core import without_half_characters
from parlai_ext.store import RunFolder
from tests.support.forked import Forked
from tests.support.small_run import files_of
from torture import misbehaving_agents
from torture.inputs import TABLE, filled
from torture.trials import Command, Trials, run_here

DEADLINE = 60.0  # seconds for a run; one without a misfit takes about one
MEMORY = 1_500_000_000  # bytes that a run may have, its libraries among them
GUEST = 'misfit'  # its name in cases.yaml
OURS = {'run', 'guest.yaml', 'manifest.json'}


def _words() -> dict[str, Any]:
    """
    Return what words of the endpoints in cases.yaml stand for.
    """
    # a gzip file of 1 GB of blanks
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    part = packer.compress(b' ' * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    bomb = b'\x1f\x8b\x08' + bytes(7) + part * 1024 + packer.flush() + bytes(8)
    # blocks, each one byte that is repeated 128 KB times: 4 GB
    block = (1 << 1 | (128 * 1024) << 3).to_bytes(3, 'little') + b' '
    return {
        'GZIP_BOMB': bomb,
        'GZIP_IN_GZIP': gzip.compress(bomb * 20, 1),
        'ZSTD_BOMB': b'\x28\xb5\x2f\xfd\x00\x58' + block * 30_000,
        'PACKED': zlib.compress(b'{}'),
        'CODINGS': ', '.join(['deflate'] * 500),
        'LARGE': 'tea ' * 200_000 + 'end',
        'TOO_MUCH': 'tea ' * 1_000_000,
        'DEEP': '[' * 10**6,
        'BLANKS': ' ' * 0x100000,
        'LONG': 'a' * 4000,
        'NINES': '9' * 400,
        'POSITIVE': 10**299,
        'NEGATIVE': -(10**298),
        'MORE_DIGITS': 10**300,
        'GARBAGE': random.Random(0).randbytes(4000),
    }


# what each path sends
ENDPOINTS = filled(TABLE['endpoints'], _words())


def answer(
    *,
    raw: str | bytes | None = None,
    body: str | bytes = '',
    chat: Any = None,
    status: str = '200 OK',
    length: int | None = None,
    headers: Mapping[str, Any] | None = None,
    **more: Any,
) -> bytes:
    """
    Return the answer of an endpoint, a row of cases.yaml.

    :param raw: all of it.
    :param chat: the text of a chat completion that is its body, which has ``more``.
    :param length: the ``Content-Length``, where it is not right.
    """
    if chat is not None:
        choice = {'message': {'role': 'assistant', 'content': chat}}
        choices = [{**choice, 'finish_reason': 'stop'}]
        body = json.dumps({'choices': choices, 'model': 'tiny', **more})
    lines = {'Content-Length': len(body) if length is None else length}
    head = ''.join(f'{k}: {v}\r\n' for k, v in {**lines, **(headers or {})}.items())
    parts = [f'HTTP/1.1 {status}\r\n{head}\r\n', body] if raw is None else [raw]
    return b''.join(p if isinstance(p, bytes) else p.encode('latin-1') for p in parts)


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
        row = dict(ENDPOINTS.get(path, ENDPOINTS['closes']))
        again, pause = row.pop('again', None), row.pop('pause', 0)
        here = f'localhost:{self.connection.getsockname()[1]}'
        with contextlib.suppress(OSError):
            self.connection.sendall(answer(**row).replace(b'CANARY', here.encode()))
            while again is not None:
                self.connection.sendall(again.encode())
                time.sleep(pause)

    do_GET = do_POST


class Misfits(Trials):
    """
    Lets every misbehaving agent and endpoint take part in a run.
    """

    names = (*misbehaving_agents.AGENTS, *ENDPOINTS)
    texts = misbehaving_agents.TEXTS | {
        name: ENDPOINTS[name]['chat'] for name in TABLE['stored']
    }
    count = len(names)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.asked = folder / 'asked.txt'
        handler = type('Handler', (Handler,), {'log': self.asked})
        server = ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self.url = f'http://127.0.0.1:{server.server_address[1]}'
        process = Forked(server.serve_forever, folder / 'server.err')
        server.socket.close()
        self.callback(process.wait_or_kill, 0)
        self.lay_out({'guest.yaml': TABLE['without']}, {})
        run_here(TABLE['misbehaving'], self.work)
        self.expected = self.dialogues_of_others()

    def try_case(self, name: str, rng: random.Random) -> str:
        self.asked.write_text('')
        opt: Any = {'model': f'{misbehaving_agents.__name__}:{name}'}
        if name in ENDPOINTS:
            opt = filled(TABLE['endpoint'], {'URL': f'{self.url}/{name}/v1'})
        self.lay_out({'guest.yaml': TABLE['guest']}, {'OPTIONS': opt})
        problem = self.problem(self.start(TABLE['misbehaving']), name)
        asked = {*self.asked.read_text().split()}
        if not problem and asked != {name} & ENDPOINTS.keys():
            problem = f'asked was {asked}'
        return problem

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
        return {
            name: data
            for name, data in files.items()
            if name.endswith('.jsonl') and GUEST not in name
        }


def named_problem(output: str) -> str:
    """
    Return '' if a line names the misfit and a reason.
    """
    lines = re.split(r'[\n\r]', output)
    is_named = any(re.search(rf'{GUEST}\W.*\w', line) for line in lines)
    return '' if is_named else f'nobody names it: {output[-300:]}'
