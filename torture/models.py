"""
Malicious model files and folders, each as a system, as a judge, and converted.

Held: the command ends by itself, in time, with results or with one line; no code of the
model ran; no file of anybody's was opened, read or changed; nobody was asked over the
network; memory stays bounded.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from parlai_ext.commands.command import run_directly
from parlai_ext.systems.parlai_agents import load_system
from torture.figure import Figure, Settings, try_all
from torture.forked import Ended, run_forked
from torture.hostile_models import BUILDERS, Site
from torture.misbehaving import arguments, load_libraries, write_protocol
from torture.watched_folder import WatchedFolder

PART = 'models'
WHAT = 'malicious models as system, as judge, converted'
DEADLINE = 120.0  # seconds; a template may take 60
MEMORY = 3_000_000_000  # bytes that a command may have, its libraries among them
LIMIT = 4 * 2**30  # bytes at which there is none left
NO_CUDA = ('--no-cuda', 'True')
LINE = re.compile(r'(?:^|[\r\n])error: ')


@dataclass(frozen=True)
class Grounds:
    """
    Where models are tried: a run without them, and what they are not to touch.
    """

    folder: Path
    site: Site
    secrets: WatchedFolder
    listener: socket.socket

    @classmethod
    def make(cls, folder: Path) -> Grounds:
        """
        Load all libraries, make harmless models, and watch a folder.
        """
        load_libraries(folder / 'first')
        secret = folder / 'secrets' / 'diary.txt'
        secret.parent.mkdir()
        secret.write_text('mine\n' * 9)
        secret.chmod(0o600)
        listener = socket.create_server(('127.0.0.1', 0))
        listener.setblocking(False)
        address = f'http://127.0.0.1:{listener.getsockname()[1]}'
        site = Site.make(folder / 'site', secret, address)
        return cls(folder, site, WatchedFolder(secret.parent), listener)

    def problem(self, ended: Ended) -> str:
        """
        Return what did not hold in a command that has ended; '' if all did.
        """
        time.sleep(0.02)  # a program that was started may come a little later
        if self.site.marker.exists():
            self.site.marker.unlink()
            return 'its code ran'
        if touched := self.secrets.touched():
            return f'a file elsewhere was touched: {touched[0]}'
        if self.was_asked():
            return 'a server was asked'
        problem = ended.problem(DEADLINE, MEMORY)
        if not problem and ended.code and len(LINE.findall(ended.output)) != 1:
            problem = f'not one line: {ended.output[-300:]}'
        return problem

    def was_asked(self) -> bool:
        """
        True if somebody connected to the listener.
        """
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def figure(settings: Settings) -> Figure:
    """
    Try every model.
    """
    grounds = Grounds.make(settings.folder)
    load_harmless(grounds.site)
    names = list(BUILDERS)

    def trial(number: int, rng: random.Random) -> str:
        name = names[number]
        problem = try_model(grounds, settings.folder / str(number), name)
        return problem and f'{name}, {problem}'

    return try_all(PART, WHAT, len(names), trial, settings)


def load_harmless(site: Site) -> None:
    """
    Load the harmless models in this process, so that forked ones have all libraries.
    """
    from parlai_ext.core.nouns import System

    for path in (site.generator, site.ranker, site.folder):
        load_system(System('harmless', options_of(path)), no_cuda=True)


def try_model(
    grounds: Grounds, folder: Path, builder: str, more: Sequence[str] = ()
) -> str:
    """
    Return what did not hold with a model in any use; '' if all did.

    :param more: arguments of the commands.
    """
    home = folder / 'home'
    home.mkdir(parents=True)
    path = BUILDERS[builder](home, grounds.site)
    grounds.secrets.touched()  # by the builder
    for use, name, words in uses(grounds, folder, path):

        def work(name: str = name, words: Sequence[str] = words) -> None:
            os.chdir(path if path.is_dir() else path.parent)
            run_directly(name, [*words, *more])

        ended = run_forked(work, folder / 'output.txt', DEADLINE, memory=LIMIT)
        if problem := grounds.problem(ended):
            return f'{use}: {problem}'
    return ''


def uses(
    grounds: Grounds, folder: Path, path: Path
) -> Iterator[tuple[str, str, list[str]]]:
    """
    Yield each use of a model with its command and the command's arguments.
    """
    write_roster(folder, path)
    talk = arguments(folder)
    talk = talk[: talk.index('--bootstraps=10')]
    yield 'as a system', 'collect_dialogues', [*talk, *NO_CUDA]
    run = folder / 'scored'
    shutil.copytree(grounds.folder / 'first' / 'run', run)
    judge = ['--run-dir', str(run), '--scorer', 'fed', '--judge-model-file', str(path)]
    yield 'as a judge', 'score_dialogues', [*judge, *NO_CUDA]
    if not path.is_dir():
        output = ['--model-file', str(path), '--output', str(folder / 'x.safetensors')]
        yield 'converted', 'convert_model', output


def write_roster(folder: Path, path: Path) -> None:
    """
    Write a protocol in which a model is the only target.
    """
    write_protocol(folder, None)
    file = folder / 'protocol.yaml'
    protocol = yaml.safe_load(file.read_text())
    target = {'name': 'model', 'opt': options_of(path)}
    protocol['roster']['targets'] = [target]
    file.write_text(yaml.safe_dump(protocol))


def options_of(path: Path) -> dict[str, Any]:
    """
    Return the roster's options of a model.
    """
    if path.is_dir():
        return {'model': 'ext:hf', 'hf_model': str(path), 'reply_max_tokens': 4}
    return {'model_file': str(path)}
