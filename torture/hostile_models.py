"""
Model files and folders that would run code, reach other files or never end.

Each of `MODELS` is a copy of a harmless model with other files: a model file of ParlAI
with those beside it, or a folder of Hugging Face.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
import yaml

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


@dataclass(frozen=True)
class Site:
    """
    What the models of a trial are made of, and what they are after.

    :param harmless: a model of ParlAI that writes (``generator``), one that chooses
        among candidates (``ranker``) and a folder of Hugging Face (``folder``).
    :param marker: the file that their code makes.
    :param secret: a file of the user's, in a folder that is watched.
    :param address: of a listener.
    """

    harmless: dict[str, Path]
    marker: Path
    secret: Path
    address: str

    @classmethod
    def make(cls, root: Path, secret: Path, address: str) -> Site:
        """
        Make the harmless models.
        """
        for name in ('generator', 'ranker', 'folder'):
            (root / name).mkdir(parents=True)
        harmless = {
            'generator': Path(make_generator(root / 'generator')),
            'ranker': Path(make_ranker(root / 'ranker')),
            'folder': Path(make_model(root / 'folder', 'llama', template=TEMPLATE)),
        }
        return cls(harmless, root / 'marker', secret, address)

    def filled(self, text: str) -> str:
        """
        Return a text with what SECRET, ADDRESS and MARKER stand for.
        """
        text = text.replace('SECRET', str(self.secret))
        return text.replace('ADDRESS', self.address).replace('MARKER', str(self.marker))


# what a file is, besides what hostile_models.yaml says of it
Content = Callable[[Site], bytes] | bytes | str | dict[str, Any] | None


@dataclass(frozen=True)
class Model:
    """
    A malicious model.

    :param base: the harmless model that it is a copy of.
    :param files: its other files, as hostile_models.yaml has them; '' is the model.
    """

    base: str
    files: dict[str, Content]

    def build(self, home: Path, site: Site) -> Path:
        """
        Make the model in a new folder and return its path.
        """
        source = site.harmless[self.base]
        is_folder = source.is_dir()
        shutil.copytree(source if is_folder else source.parent, home)
        path = home if is_folder else home / source.name
        if not is_folder:
            opt = Path(f'{path}.opt')
            opt.write_text(opt.read_text().replace(str(source.parent), str(home)))
        for name, content in self.files.items():
            beside = is_folder or name.startswith('/')
            place = home / name.strip('/') if beside else Path(f'{path}{name}')
            put(place, content, site)
        return path


def put(place: Path, content: Content, site: Site) -> None:
    """
    Make a file what it is to be.
    """
    if isinstance(content, dict):
        old = json.loads(place.read_text()) if place.exists() else {}
        new = json.loads(site.filled(json.dumps(content)))
        place.write_text(json.dumps({**old, **new}))
        return
    place.unlink(missing_ok=True)
    if callable(content):
        place.write_bytes(content(site))
    elif isinstance(content, bytes):
        place.write_bytes(content)
    elif content is not None:
        put_text(place, site.filled(content), site)


def put_text(place: Path, text: str, site: Site) -> None:
    """
    Make a file what a line of hostile_models.yaml says, or a text.
    """
    kind, _, name = text.partition(' ')
    if kind == 'link':
        place.symlink_to(name)
    elif kind == 'pipe':
        os.mkfifo(place)
    elif kind == 'program':
        place.write_text(program(site.marker))
    elif kind == 'pickle':
        place.write_bytes(gadget(name, site.marker))
    elif kind == 'zip':
        place.write_bytes(in_zip(gadget(name, site.marker)))
    else:
        place.write_bytes(text.encode('latin-1'))


# ---- pickles and other files of torch


def pickled(name: str, form: str) -> Content:
    """
    Return a pickle that runs code in a form of torch's.
    """
    return lambda site: FORMATS[form](gadget(name, site.marker))


def call_of(site: Site) -> Call:
    """
    Return what a pickle makes a call of the program that sets the marker.
    """
    return Call(exec, program(site.marker))


def pickled_arrays(site: Site) -> bytes:
    """
    Return arrays of numpy, one of objects.
    """
    file = io.BytesIO()
    np.savez(file, words=np.array([call_of(site)], object))
    return file.getvalue()


def zipped(*members: tuple[str, bytes]) -> bytes:
    """
    Return a zip file with these members.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as packed:
        for name, data in members:
            packed.writestr(name, data)
    return file.getvalue()


def tarred(kind: bytes) -> Content:
    """
    Return torch's tar form, with a member that is no file.
    """

    def data(site: Site) -> bytes:
        file = io.BytesIO()
        member = tarfile.TarInfo('storages')
        member.type, member.linkname, member.mode = kind, str(site.secret), 0o777
        member.devmajor, member.devminor = 1, 5  # /dev/zero
        with tarfile.open(fileobj=file, mode='w:') as tar:
            tar.addfile(member)
        return file.getvalue()

    return data


class Doubled(torch.nn.Module):
    """
    A module to be compiled.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def torchscript(site: Site) -> bytes:
    """
    Return a compiled module.
    """
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Doubled()), file)
    return file.getvalue()


def tensor_without_stride(site: Site) -> bytes:
    """
    Return one number that says to be a tensor of terabytes.
    """
    file = io.BytesIO()
    torch.save({'model': {'w': torch.zeros(1).expand(10**12)}}, file)
    return file.getvalue()


EMPTY = (
    ('archive/data.pkl', pickle.dumps({'model': {}}, 2)),
    ('archive/version', b'3\n'),
)
ENDLESS = b'\x80\x04cbuiltins\nbytes\n\x8a\x06' + (10**12).to_bytes(6, 'little')
NESTED = b'\x80\x04})' + b'\x85' * 10**6 + b'K\x01s.'
WEIGHTS: dict[str, Content] = {
    **{
        f'{name} ({form})': pickled(name, form)
        for name, form in zip(GADGETS, cycle(FORMATS), strict=False)
    },
    'arrays_pickled': pickled_arrays,
    'joblib_pickled': lambda site: zipped(
        ('model.joblib', pickle.dumps(call_of(site)))
    ),
    'tar with a hard link': tarred(tarfile.LNKTYPE),
    'tar with a symbolic link': tarred(tarfile.SYMTYPE),
    'tar with a pipe': tarred(tarfile.FIFOTYPE),
    'tar with a device': tarred(tarfile.CHRTYPE),
    'torchscript': torchscript,
    'tensor_without_stride': tensor_without_stride,
    'packed_zeros': lambda site: zipped(*EMPTY, ('archive/data/0', bytes(2**28))),
    'nested_tuples': in_zip(NESTED),
    'endless_bytes': in_zip(ENDLESS + b'\x85R.'),
    'zip_members_outside': lambda site: zipped(
        *EMPTY, (f'../../..{site.secret}', b'changed')
    ),
}

# ---- headers of safetensors, in a model file and in a folder


def headed(header: Any, data: bytes = bytes(64), size: int | None = None) -> bytes:
    """
    Return a file of safetensors with this header.

    :param size: of the header, where it is not right.
    """
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack('<Q', len(text) if size is None else size) + text + data


TABLE = yaml.safe_load(Path(__file__).with_name('hostile_models.yaml').read_text())
HEADERS: dict[str, bytes] = {
    **{name: headed(header) for name, header in TABLE.pop('headers').items()},
    'deep header': headed(b'{"a":' + b'[' * 10**6),
    'huge header': headed(b'{}', size=2**63),
    'long header': headed(b'{' + b' ' * 50_000_000),
}


def index_that_leads_elsewhere(site: Site) -> bytes:
    """
    Return an index by which all weights are in another file.
    """
    weights = safetensors.torch.load_file(site.harmless['folder'] / 'model.safetensors')
    files = dict.fromkeys(weights, str(site.secret))
    return json.dumps({'metadata': {}, 'weight_map': files}).encode()


PLACES = (('generator', ''), ('folder', 'model.safetensors'))
MODELS: dict[str, Model] = {
    **{name: Model('generator', {'': data}) for name, data in WEIGHTS.items()},
    **{
        f'safetensors: {name}': Model(base, {file: data})
        for (name, data), (base, file) in zip(
            HEADERS.items(), cycle(PLACES), strict=False
        )
    },
    **{
        name: Model(base, files)
        for base, models in TABLE.items()
        for name, files in models.items()
    },
    'options_too_deep': Model(
        'generator', {'.opt': '{"a":' * 100_000 + '1' + '}' * 100_000}
    ),
    'index_leads_elsewhere': Model(
        'folder',
        {
            'model.safetensors': None,
            'model.safetensors.index.json': index_that_leads_elsewhere,
        },
    ),
}
