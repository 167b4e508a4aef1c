"""
Malicious models, each as a system, as a judge, and converted. Held: the command ends by
itself, with results or one line; no code of the model ran, no file of another folder
was opened (inotify), nobody was asked, and time and memory stay bounded.
"""

import ctypes
import io
import json
import os
import pickle
import random
import socket
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from tests.support import malicious_pickles
from tests.support.malicious_pickles import FORMATS, GADGETS, gadget, program
from tests.support.written import safetensors_of, tar_of, zip_of
from torture.inputs import TABLE, filled, put
from torture.trials import Command, Trials, run_here

DEADLINE = 120.0  # seconds; a template may take 60
MEMORY = 3_000_000_000  # bytes that a command may have, its libraries among them
# what happens to a file: read, written, changed, opened, moved (twice), made, removed
EVENTS = 0x3E7
NONBLOCK = 0o4000
# the harmless models, by the folder in which they are
HARMLESS = {
    'generator': 'generator/tiny',
    'ranker': 'ranker/tinyranker',
    'llama': 'llama',
}
WEIGHTS = (('generator', 'tiny'), ('llama', 'model.safetensors'))
ENDLESS = b'\x80\x04cbuiltins\nbytes\n\x8a\x06' + (10**12).to_bytes(6, 'little')
NESTED = b'\x80\x04})' + b'\x85' * 10**6 + b'K\x01s.'
LARGE = torch.zeros(1).expand(10**12)  # one number that says to be terabytes
DEEP = b'{"a":' * 100_000 + b'1' + b'}' * 100_000


def _saved(save: Callable[[BinaryIO], object]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def models_of(marker: Path, secret: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """
    Return the models by name: the harmless one of which each is a copy, and its other
    files, as cases.yaml has them, or their bytes.

    :param marker: the file that their code makes; they try to read the secret.
    """
    script = torch.jit.script(torch.nn.ReLU())
    call = malicious_pickles.Call(exec, program(marker))
    empty = [
        ('archive/data.pkl', pickle.dumps({'model': {}}, 2)),
        ('archive/version', b'3\n'),
    ]
    zeros = [*empty, ('archive/data/0', bytes(2**28))]
    weights = {
        **{
            f'{name} ({form})': f'{form} {name}'
            for name, form in zip(GADGETS, cycle(FORMATS), strict=False)
        },
        'arrays_pickled': _saved(lambda file: np.savez(file, np.array([call], object))),
        'joblib_pickled': zip_of([('model.joblib', pickle.dumps(call))]),
        'tar with a hard link': tar_of(tarfile.LNKTYPE, secret),
        'tar with a symbolic link': tar_of(tarfile.SYMTYPE, secret),
        'tar with a pipe': tar_of(tarfile.FIFOTYPE, secret),
        'tar with a device': tar_of(tarfile.CHRTYPE, secret),
        'torchscript': _saved(lambda file: torch.jit.save(script, file)),
        'tensor_without_stride': _saved(
            lambda file: torch.save({'model': {'w': LARGE}}, file)
        ),
        'packed_zeros': zip_of(zeros, zipfile.ZIP_DEFLATED),
        'nested_tuples': malicious_pickles.in_zip(NESTED),
        'endless_bytes': malicious_pickles.in_zip(ENDLESS + b'\x85R.'),
        'zip_members_outside': zip_of([*empty, (f'../../..{secret}', b'changed')]),
    }
    headers = {
        **{
            name: safetensors_of(json.dumps(header).encode(), bytes(64))
            for name, header in TABLE['headers'].items()
        },
        'deep header': safetensors_of(b'{"a":' + b'[' * 10**6, bytes(64)),
        'huge header': safetensors_of(b'{}', bytes(64), size=2**63),
        'long header': safetensors_of(b'{' + b' ' * 50_000_000, bytes(64)),
    }
    models = {name: ('generator', {'tiny': data}) for name, data in weights.items()}
    for (name, data), (base, file) in zip(
        headers.items(), cycle(WEIGHTS), strict=False
    ):
        models[f'safetensors: {name}'] = (base, {file: data})
    for base, rows in TABLE['models'].items():
        models |= {name: (base, files) for name, files in rows.items()}
    return {**models, 'options_too_deep': ('generator', {'tiny.opt': DEEP})}


class Models(Trials):
    """
    Tries every model; the secret is a file of the user's, in a folder that is watched.
    """

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.marker = folder / 'marker'
        self.secret = folder / 'secrets' / 'diary.txt'
        self.secret.parent.mkdir()
        self.secret.write_text('mine\n' * 9)
        self.secret.chmod(0o600)
        self.watch = _watched(self.secret.parent)
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.listener.setblocking(False)
        self.models = models_of(self.marker, self.secret)
        self.count = len(self.models)
        self.words = {
            f'{form} {name}': make(gadget(name, self.marker))
            for form, make in FORMATS.items()
            for name in GADGETS
        }
        self.words |= {
            'SECRET': str(self.secret),
            'ADDRESS': f'http://127.0.0.1:{self.listener.getsockname()[1]}',
            'MARKER': str(self.marker),
            'PROGRAM': program(self.marker),
            'FOLDER': str(self.work),
        }

    def close(self) -> None:
        os.close(self.watch)
        self.listener.close()

    def trial(self, number: int, rng: random.Random) -> str:
        name = list(self.models)[number]
        problem = self.try_model(name)
        return problem and f'{name}, {problem}'

    def try_model(self, name: str, more: str = '') -> str:
        """
        Return what did not hold with a model in any use; '' if all did.

        :param more: arguments of the commands.
        """
        uses = TABLE['uses']
        if not (self.folder / 'starts').exists():
            for base in HARMLESS:
                self.lay_out(base, {})
                run_here(filled(uses['as a system'], self.words), self.work)
        path = self.lay_out(*self.models[name])
        with suppress(BlockingIOError):
            os.read(self.watch, 65536)  # what was done here
        for use, line in uses.items():
            if use != 'converted' or not path.is_dir():
                ended = self.start(f'{line} {more}', self.words, folder=path.parent)
                if problem := self.problem(ended):
                    return f'{use}: {problem}'
        return ''

    def lay_out(self, base: str, files: Mapping[str, Any]) -> Path:
        """
        Make ``work`` a folder with a run, and with a model as a target of a protocol;
        return the model's path.
        """
        self.begin('evaluate')
        path = self.work / HARMLESS[base]
        for file, content in files.items():
            put(self.work / base / file, content, self.words)
        opt = {'model_file': str(path)}
        if path.is_dir():
            opt = {'model': 'ext:hf', 'hf_model': str(path), 'reply_max_tokens': 4}
        put(self.work / 'guest.yaml', TABLE['guest'], {'OPTIONS': opt})
        self.words['MODEL'] = str(path)
        return path

    def problem(self, ended: Command) -> str:
        """
        Return what did not hold when a command met a model; '' if all did.
        """
        problem = ended.problem(0, 1, seconds=DEADLINE, memory=MEMORY)
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
        return problem


def _watched(folder: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    handle = int(libc.inotify_init1(NONBLOCK))
    if handle < 0 or libc.inotify_add_watch(handle, os.fsencode(folder), EVENTS) < 0:
        raise OSError(ctypes.get_errno(), 'inotify', str(folder))
    return handle
