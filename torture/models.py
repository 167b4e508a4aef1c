"""
Malicious models, each as a system, as a judge, and converted. What has to hold is in
docs/torture.md.
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
# by name, the harmless model of which each is a copy, and its other files
MODELS = {
    **{
        f'{name} ({form})': ('generator', {'tiny': f'{form} {name}'})
        for name, form in zip(GADGETS, cycle(FORMATS), strict=False)
    },
    **{
        name: (base, files)
        for base, rows in TABLE['models'].items()
        for name, files in rows.items()
    },
}
KINDS = ('LNKTYPE', 'SYMTYPE', 'FIFOTYPE', 'CHRTYPE')
ENDLESS = b'\x80\x04cbuiltins\nbytes\n\x8a\x06' + (10**12).to_bytes(6, 'little')
LARGE = torch.zeros(1).expand(10**12)  # one number that says to be terabytes


def _saved(save: Callable[[BinaryIO], object]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def bytes_of_models(marker: Path, secret: Path) -> dict[str, Any]:
    """
    Return what words of cases.yaml stand for in models: bytes that a program makes.

    :param marker: the file that their code makes; they try to read the secret.
    """
    script = torch.jit.script(torch.nn.ReLU())
    call = malicious_pickles.Call(exec, program(marker))
    empty = [
        ('archive/data.pkl', pickle.dumps({'model': {}}, 2)),
        ('archive/version', b'3\n'),
    ]
    zeros = [*empty, ('archive/data/0', bytes(2**28))]
    return {
        **{
            f'{form} {name}': make(gadget(name, marker))
            for form, make in FORMATS.items()
            for name in GADGETS
        },
        **{
            f'header {name}': safetensors_of(json.dumps(header).encode(), bytes(64))
            for name, header in TABLE['headers'].items()
        },
        'header deep': safetensors_of(b'{"a":' + b'[' * 10**6, bytes(64)),
        'header huge': safetensors_of(b'{}', bytes(64), size=2**63),
        'header long': safetensors_of(b'{' + b' ' * 50_000_000, bytes(64)),
        **{f'tar {kind}': tar_of(getattr(tarfile, kind), secret) for kind in KINDS},
        'ARRAYS': _saved(lambda file: np.savez(file, np.array([call], object))),
        'JOBLIB': zip_of([('model.joblib', pickle.dumps(call))]),
        'TORCHSCRIPT': _saved(lambda file: torch.jit.save(script, file)),
        'LARGE': _saved(lambda file: torch.save({'model': {'w': LARGE}}, file)),
        'ZEROS': zip_of(zeros, zipfile.ZIP_DEFLATED),
        'TUPLES': malicious_pickles.in_zip(
            b'\x80\x04})' + b'\x85' * 10**6 + b'K\x01s.'
        ),
        'ENDLESS': malicious_pickles.in_zip(ENDLESS + b'\x85R.'),
        'OUTSIDE': zip_of([*empty, (f'../../..{secret}', b'changed')]),
        'DEEP': b'{"a":' * 100_000 + b'1' + b'}' * 100_000,
    }


class Models(Trials):
    """
    Tries every model; the secret is a file of the user's, in a folder that is watched.
    """

    names = tuple(MODELS)
    count = len(names)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.marker = folder / 'marker'
        self.secret = folder / 'secrets' / 'diary.txt'
        self.secret.parent.mkdir()
        self.secret.write_text('mine\n' * 9)
        self.secret.chmod(0o600)
        self.watch = _watched(self.secret.parent)
        self.callback(os.close, self.watch)
        self.listener = self.enter_context(socket.create_server(('127.0.0.1', 0)))
        self.listener.setblocking(False)
        self.words = {
            **bytes_of_models(self.marker, self.secret),
            'SECRET': str(self.secret),
            'ADDRESS': f'http://127.0.0.1:{self.listener.getsockname()[1]}',
            'MARKER': str(self.marker),
            'PROGRAM': program(self.marker),
            'FOLDER': str(self.work),
        }

    def try_case(self, name: str, rng: random.Random, more: str = '') -> str:
        """
        Return what did not hold with a model in any use; '' if all did.

        :param more: arguments of the commands.
        """
        uses = TABLE['uses']
        if not (self.folder / 'starts').exists():
            for base in TABLE['harmless']:
                self.lay_out_model(base, {})
                run_here(filled(uses['as a system'], self.words), self.work)
        path = self.lay_out_model(*MODELS[name])
        with suppress(BlockingIOError):
            os.read(self.watch, 65536)  # what was done here
        for use, line in uses.items():
            if use != 'converted' or not path.is_dir():
                ended = self.start(f'{line} {more}', self.words, folder=path.parent)
                if problem := self.problem(ended):
                    return f'{use}: {problem}'
        return ''

    def lay_out_model(self, base: str, files: Mapping[str, Any]) -> Path:
        """
        Make ``work`` a folder with a run, and with a model as a target of a protocol;
        return the model's path.
        """
        self.begin('evaluate')
        path = self.work / base / TABLE['harmless'][base]
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
