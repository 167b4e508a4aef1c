"""
Malicious model files and folders, each as a system, as a judge, and converted.

Held: the command ends by itself, in time, with results or with one line; no code of the
model ran; no file of anybody's was opened, read or changed (inotify), whatever library
opens it; nobody was asked over the network; memory stays bounded.

A model is a copy of a harmless one with other files, as cases.yaml says; `WEIGHTS` are
files that need code to be written.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import pickle
import random
import shutil
import socket
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors.torch
import torch
import yaml

from parlai_ext.core.nouns import System
from parlai_ext.systems.parlai_agents import load_system
from tests.support.family_hf import TEMPLATE, make_model
from tests.support.malicious_pickles import (
    FORMATS,
    GADGETS,
    Call,
    gadget,
    in_zip,
    program,
)
from tests.support.tiny_models import make_generator, make_ranker
from tests.support.written import changed_json, safetensors_of, tar_of, zip_of
from torture import Trials
from torture.commands import Command
from torture.inputs import GUEST, RUN, TABLE, load_libraries, protocol_of

DEADLINE = 120.0  # seconds; a template may take 60
MEMORY = 3_000_000_000  # bytes that a command may have, its libraries among them
# what happens to a file: read, written, changed, opened, moved (twice), made, removed
EVENTS = 0x3E7
NONBLOCK = 0o4000

# a file: bytes, or what returns them for the trials in which it is made
Content = bytes | Callable[['Models'], bytes]


def saved(save: Callable[[BinaryIO], object]) -> bytes:
    """
    Return the bytes that a function writes into a file.
    """
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def call_of(models: Models) -> Call:
    """
    Return what a pickle makes a call of the program that sets the marker.
    """
    return Call(exec, program(models.marker))


def pickled(name: str, form: str) -> Content:
    """
    Return a pickle that runs code in a form of torch's.
    """
    return lambda models: FORMATS[form](gadget(name, models.marker))


def index_that_leads_elsewhere(models: Models) -> bytes:
    """
    Return an index by which all weights are in another file.
    """
    folder = models.harmless['folder']
    weights = safetensors.torch.load_file(folder / 'model.safetensors')
    files = dict.fromkeys(weights, str(models.secret))
    return json.dumps({'metadata': {}, 'weight_map': files}).encode()


EMPTY = [
    ('archive/data.pkl', pickle.dumps({'model': {}}, 2)),
    ('archive/version', b'3\n'),
]
ENDLESS = b'\x80\x04cbuiltins\nbytes\n\x8a\x06' + (10**12).to_bytes(6, 'little')
NESTED = b'\x80\x04})' + b'\x85' * 10**6 + b'K\x01s.'
LARGE = torch.zeros(1).expand(10**12)  # one number that says to be terabytes
WEIGHTS: dict[str, Content] = {
    **{
        f'{name} ({form})': pickled(name, form)
        for name, form in zip(GADGETS, cycle(FORMATS), strict=False)
    },
    'arrays_pickled': lambda models: saved(
        lambda file: np.savez(file, words=np.array([call_of(models)], object))
    ),
    'joblib_pickled': lambda models: zip_of(
        [('model.joblib', pickle.dumps(call_of(models)))]
    ),
    'tar with a hard link': lambda models: tar_of(tarfile.LNKTYPE, models.secret),
    'tar with a symbolic link': lambda models: tar_of(tarfile.SYMTYPE, models.secret),
    'tar with a pipe': lambda models: tar_of(tarfile.FIFOTYPE, models.secret),
    'tar with a device': lambda models: tar_of(tarfile.CHRTYPE, models.secret),
    'torchscript': lambda models: saved(
        lambda file: torch.jit.save(torch.jit.script(torch.nn.ReLU()), file)
    ),
    'tensor_without_stride': saved(
        lambda file: torch.save({'model': {'w': LARGE}}, file)
    ),
    'packed_zeros': lambda models: zip_of(
        [*EMPTY, ('archive/data/0', bytes(2**28))], zipfile.ZIP_DEFLATED
    ),
    'nested_tuples': in_zip(NESTED),
    'endless_bytes': in_zip(ENDLESS + b'\x85R.'),
    'zip_members_outside': lambda models: zip_of(
        [*EMPTY, (f'../../..{models.secret}', b'changed')]
    ),
}
HEADERS: dict[str, bytes] = {
    **{
        name: safetensors_of(json.dumps(header).encode(), bytes(64))
        for name, header in TABLE['headers'].items()
    },
    'deep header': safetensors_of(b'{"a":' + b'[' * 10**6, bytes(64)),
    'huge header': safetensors_of(b'{}', bytes(64), size=2**63),
    'long header': safetensors_of(b'{' + b' ' * 50_000_000, bytes(64)),
}
INDEX = 'model.safetensors.index.json'
PLACES = (('generator', ''), ('folder', 'model.safetensors'))
# by name: which harmless model it is a copy of, and its other files
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ('generator', {'': content}) for name, content in WEIGHTS.items()},
    **{
        f'safetensors: {name}': (base, {file: data})
        for (name, data), (base, file) in zip(
            HEADERS.items(), cycle(PLACES), strict=False
        )
    },
    **{
        name: (base, files)
        for base, models in TABLE['models'].items()
        for name, files in models.items()
    },
    'options_too_deep': (
        'generator',
        {'.opt': b'{"a":' * 100_000 + b'1' + b'}' * 100_000},
    ),
    'index_leads_elsewhere': (
        'folder',
        {'model.safetensors': None, INDEX: index_that_leads_elsewhere},
    ),
}


class Models(Trials):
    """
    Tries every model.

    :ivar harmless: a model of ParlAI that writes (``generator``), one that chooses
        among candidates (``ranker``) and a folder of Hugging Face (``folder``).
    :ivar marker: the file that code of a model makes.
    :ivar secret: a file of the user's, in a folder that is watched.
    """

    names = list(MODELS)
    count = len(MODELS)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.marker = folder / 'marker'
        self.secret = folder / 'secrets' / 'diary.txt'
        self.secret.parent.mkdir()
        self.secret.write_text('mine\n' * 9)
        self.secret.chmod(0o600)
        self.watch = watched(self.secret.parent)
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.listener.setblocking(False)
        self.harmless: dict[str, Path] = {}

    def close(self) -> None:
        os.close(self.watch)
        self.listener.close()

    def prepare(self) -> None:
        """
        Load all libraries, make harmless models and load them, so that forked processes
        have all that they need.
        """
        load_libraries(self.folder / 'first')
        homes = {name: self.folder / name for name in ('generator', 'ranker', 'folder')}
        for home in homes.values():
            home.mkdir()
        self.harmless = {
            'generator': Path(make_generator(homes['generator'])),
            'ranker': Path(make_ranker(homes['ranker'])),
            'folder': Path(make_model(homes['folder'], 'llama', template=TEMPLATE)),
        }
        for path in self.harmless.values():
            load_system(System('harmless', options_of(path)), no_cuda=True)

    def trial(self, number: int, rng: random.Random) -> str:
        name = self.names[number]
        problem = self.try_model(self.folder / str(number), name)
        return problem and f'{name}, {problem}'

    def try_model(self, folder: Path, name: str, more: Sequence[str] = ()) -> str:
        """
        Return what did not hold with a model in any use; '' if all did.

        :param more: arguments of the commands.
        """
        if not self.harmless:
            self.prepare()
        path = self.build(folder / 'home', name)
        with suppress(BlockingIOError):
            os.read(self.watch, 65536)  # what the builder did
        protocol = protocol_of({GUEST: options_of(path)})
        (folder / 'protocol.yaml').write_text(yaml.safe_dump(protocol))
        shutil.copytree(self.folder / 'first' / RUN, folder / 'scored')
        for use, line in TABLE['uses'].items():
            if use == 'converted' and path.is_dir():
                continue
            words = line.replace('FOLDER', str(folder)).replace('MODEL', str(path))
            log = folder / f'{use}.err'
            ended = Command([*words.split(), *more], path.parent, log)
            ended.wait_or_kill(DEADLINE)
            if problem := self.problem(ended):
                return f'{use}: {problem}'
        return ''

    def build(self, home: Path, name: str) -> Path:
        """
        Make a model in a new folder and return its path.
        """
        base, files = MODELS[name]
        source = self.harmless[base]
        is_folder = source.is_dir()
        shutil.copytree(source if is_folder else source.parent, home)
        path = home if is_folder else home / source.name
        if not is_folder:
            opt = Path(f'{path}.opt')
            opt.write_text(opt.read_text().replace(str(source.parent), str(home)))
        for file, content in files.items():
            beside = is_folder or file.startswith('/')
            self.put(
                home / file.strip('/') if beside else Path(f'{path}{file}'), content
            )
        return path

    def put(self, place: Path, content: Content | str | dict[str, Any] | None) -> None:
        """
        Make a file what it is to be, as cases.yaml has it.
        """
        if isinstance(content, dict):
            if not place.exists():
                place.write_text('{}')
            changed_json(place, **json.loads(self._filled(json.dumps(content))))
            return
        place.unlink(missing_ok=True)
        if callable(content):
            content = content(self)
        if isinstance(content, bytes):
            place.write_bytes(content)
        elif content is not None:
            self._put_text(place, self._filled(content))

    def _put_text(self, place: Path, text: str) -> None:
        kind, _, name = text.partition(' ')
        if kind == 'link':
            place.symlink_to(name)
        elif kind == 'pipe':
            os.mkfifo(place)
        elif kind == 'program':
            place.write_text(program(self.marker))
        elif kind in ('pickle', 'zip'):
            form = 'raw' if kind == 'pickle' else kind
            place.write_bytes(FORMATS[form](gadget(name, self.marker)))
        else:
            place.write_bytes(text.encode('latin-1'))

    def _filled(self, text: str) -> str:
        text = text.replace('SECRET', str(self.secret))
        port = self.listener.getsockname()[1]
        text = text.replace('ADDRESS', f'http://127.0.0.1:{port}')
        return text.replace('MARKER', str(self.marker))

    def problem(self, ended: Command) -> str:
        """
        Return what did not hold in a command that has ended; '' if all did.
        """
        time.sleep(0.02)  # a program that was started may come a little later
        if self.marker.exists():
            self.marker.unlink()
            return 'its code ran'
        with suppress(BlockingIOError):
            if os.read(self.watch, 65536):
                return 'a file elsewhere was touched'
        with suppress(BlockingIOError):
            self.listener.accept()[0].close()
            return 'a server was asked'
        problem = ended.problem(DEADLINE, MEMORY)
        return problem or (ended.wrong_lines() if ended.code else '')


def watched(folder: Path) -> int:
    """
    Return an inotify handle on a folder.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    handle = int(libc.inotify_init1(NONBLOCK))
    if handle < 0 or libc.inotify_add_watch(handle, os.fsencode(folder), EVENTS) < 0:
        raise OSError(ctypes.get_errno(), 'inotify', str(folder))
    return handle


def options_of(path: Path) -> dict[str, Any]:
    """
    Return the roster's options of a model.
    """
    if path.is_dir():
        return {'model': 'ext:hf', 'hf_model': str(path), 'reply_max_tokens': 4}
    return {'model_file': str(path)}
