"""
Malicious model files and folders, each as a system, as a judge, and converted.

Held: the command ends by itself, in time, with results or with one line; no code of the
model ran; no file of anybody's was opened, read or changed (inotify), whatever library
opens it; nobody was asked over the network; memory stays bounded.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from parlai_ext.commands.command import run_directly
from parlai_ext.core.nouns import System
from parlai_ext.systems.parlai_agents import load_system
from torture.figure import Settings, Trial
from torture.forked import Forked, run_forked
from torture.hostile_models import MODELS, Site
from torture.misbehaving import arguments, load_libraries, write_protocol

DEADLINE = 120.0  # seconds; a template may take 60
MEMORY = 3_000_000_000  # bytes that a command may have, its libraries among them
LIMIT = 4 * 2**30  # bytes at which there is none left
LINE = re.compile(r'(?:^|[\r\n])error: ')
# what happens to a file: read, written, changed, opened, moved (twice), made, removed
EVENTS = 0x3E7
NONBLOCK = 0o4000


@dataclass(frozen=True)
class Grounds:
    """
    Where models are tried: a run without them, and what they are not to touch.

    :param watch: an inotify handle on the folder of the secret.
    """

    folder: Path
    site: Site
    watch: int
    listener: socket.socket

    @classmethod
    def make(cls, folder: Path) -> Grounds:
        """
        Load all libraries, make harmless models and load them, so that forked processes
        have all that they need; watch a folder and listen.
        """
        load_libraries(folder / 'first')
        secret = folder / 'secrets' / 'diary.txt'
        secret.parent.mkdir()
        secret.write_text('mine\n' * 9)
        secret.chmod(0o600)
        listener = socket.create_server(('127.0.0.1', 0))
        address = f'http://127.0.0.1:{listener.getsockname()[1]}'
        site = Site.make(folder / 'site', secret, address)
        for path in site.harmless.values():
            load_system(System('harmless', options_of(path)), no_cuda=True)
        return cls(folder, site, watched(secret.parent), listener)

    def was_touched(self) -> bool:
        """
        True if a file of the watched folder was touched since the last call.
        """
        try:
            return bool(os.read(self.watch, 65536))
        except BlockingIOError:
            return False

    def was_asked(self) -> bool:
        """
        True if somebody connected to the listener.
        """
        self.listener.setblocking(False)
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def problem(self, ended: Forked) -> str:
        """
        Return what did not hold in a command that has ended; '' if all did.
        """
        time.sleep(0.02)  # a program that was started may come a little later
        if self.site.marker.exists():
            self.site.marker.unlink()
            return 'its code ran'
        if self.was_touched():
            return 'a file elsewhere was touched'
        if self.was_asked():
            return 'a server was asked'
        problem = ended.problem(DEADLINE, MEMORY)
        if not problem and ended.code and len(LINE.findall(ended.output)) != 1:
            problem = f'not one line: {ended.output[-300:]}'
        return problem


def watched(folder: Path) -> int:
    """
    Return an inotify handle on a folder.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    handle = int(libc.inotify_init1(NONBLOCK))
    if handle < 0 or libc.inotify_add_watch(handle, os.fsencode(folder), EVENTS) < 0:
        raise OSError(ctypes.get_errno(), 'inotify', str(folder))
    return handle


@contextmanager
def models(settings: Settings) -> Iterator[tuple[int, Trial]]:
    """
    Try every model.
    """
    grounds, names = Grounds.make(settings.folder), list(MODELS)

    def trial(number: int, rng: random.Random) -> str:
        name = names[number]
        problem = try_model(grounds, settings.folder / str(number), name)
        return problem and f'{name}, {problem}'

    yield len(names), trial


def try_model(
    grounds: Grounds, folder: Path, name: str, more: Sequence[str] = ()
) -> str:
    """
    Return what did not hold with a model in any use; '' if all did.

    :param more: arguments of the commands.
    """
    path = MODELS[name].build(folder / 'home', grounds.site)
    grounds.was_touched()  # by the builder
    for use, command, words in uses(grounds, folder, path):
        work = partial(run_in, path.parent, command, [*words, *more])
        ended = run_forked(work, folder / 'output.txt', DEADLINE, LIMIT)
        if problem := grounds.problem(ended):
            return f'{use}: {problem}'
    return ''


def run_in(folder: Path, command: str, words: Sequence[str]) -> None:
    """
    Run a command in a folder.
    """
    os.chdir(folder)
    run_directly(command, words)


def uses(
    grounds: Grounds, folder: Path, path: Path
) -> Iterator[tuple[str, str, list[str]]]:
    """
    Yield each use of a model with its command and the command's arguments.
    """
    write_protocol(folder, options_of(path), alone=True)
    yield 'as a system', 'collect_dialogues', [*arguments(folder), '--no-cuda=True']
    run = folder / 'scored'
    shutil.copytree(grounds.folder / 'first' / 'run', run)
    judge = ['--run-dir', str(run), '--scorer', 'fed', '--judge-model-file', str(path)]
    yield 'as a judge', 'score_dialogues', [*judge, '--no-cuda=True']
    if not path.is_dir():
        output = ['--model-file', str(path), '--output', str(folder / 'x.safetensors')]
        yield 'converted', 'convert_model', output


def options_of(path: Path) -> dict[str, Any]:
    """
    Return the roster's options of a model.
    """
    if path.is_dir():
        return {'model': 'ext:hf', 'hf_model': str(path), 'reply_max_tokens': 4}
    return {'model_file': str(path)}
