"""
Model files and folders that would run code, reach other files or never end.

Each function of `BUILDERS` makes one in an empty folder and returns its path: of a
model file of ParlAI, or of a folder of Hugging Face. It is a copy of a harmless model
and one change.
"""

from __future__ import annotations

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

from tests.support.family_hf import TEMPLATE, make_model
from tests.support.malicious_pickles import (
    FORMATS,
    GADGETS,
    Call,
    gadget,
    in_zip,
    program,
)
from tests.support.tiny_models import make_generator, make_ranker, with_options


@dataclass(frozen=True)
class Site:
    """
    What the models of a trial are made of, and what they are after.

    :param generator: a harmless model of ParlAI.
    :param ranker: one that chooses among candidates.
    :param folder: a harmless folder of Hugging Face.
    :param marker: the file that their code makes.
    :param secret: a file of the user's, in a folder that is watched.
    :param address: of a listener.
    """

    generator: Path
    ranker: Path
    folder: Path
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
        return cls(
            Path(make_generator(root / 'generator')),
            Path(make_ranker(root / 'ranker')),
            Path(make_model(root / 'folder', 'llama', template=TEMPLATE)),
            root / 'marker',
            secret,
            address,
        )


Builder = Callable[[Path, Site], Path]
# changes the copy of a model that is at a path
Change = Callable[[Path, Site], object]


def parlai_model(change: Change, ranker: bool = False) -> Builder:
    """
    Return the builder of a model file of ParlAI with a change.
    """

    def build(at: Path, site: Site) -> Path:
        source = site.ranker if ranker else site.generator
        shutil.copytree(source.parent, at, dirs_exist_ok=True)
        path, old = at / source.name, str(source.parent)
        opt = json.loads(beside(path, 'opt').read_text())
        moved = {k: v.replace(old, str(at)) for k, v in opt.items() if old in str(v)}
        with_options(path, **moved)
        change(path, site)
        return path

    return build


def hf_folder(change: Change) -> Builder:
    """
    Return the builder of a folder of Hugging Face with a change.
    """

    def build(at: Path, site: Site) -> Path:
        shutil.copytree(site.folder, at, dirs_exist_ok=True)
        change(at, site)
        return at

    return build


def beside(path: Path, ending: str) -> Path:
    """
    Return the path of a file beside a model.
    """
    return Path(f'{path}.{ending}')


def change_json(path: Path, **values: Any) -> None:
    """
    Change values of a JSON file.
    """
    data = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**data, **values}))


# ---- pickles and other files of torch


def pickled_weights(name: str, form: str) -> Change:
    """
    Return the change of weights to a pickle that runs code.
    """
    return lambda path, site: path.write_bytes(FORMATS[form](gadget(name, site.marker)))


def pickled(name: str, ending: str) -> Change:
    """
    Return the change of a file beside a model to a pickle that runs code.
    """
    return lambda path, site: beside(path, ending).write_bytes(
        gadget(name, site.marker)
    )


def arrays_pickled(path: Path, site: Site) -> None:
    words = np.array([Call(exec, program(site.marker))], object)
    with open(path, 'wb') as file:
        np.savez(file, words=words)


def zip_with(*members: tuple[str, bytes]) -> Change:
    """
    Return the change of weights to a zip file with these members.
    """

    def change(path: Path, site: Site) -> None:
        with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as file:
            for name, data in members:
                file.writestr(name.replace('SECRET', str(site.secret)), data)

    return change


def joblib_pickled(path: Path, site: Site) -> None:
    data = pickle.dumps(Call(exec, program(site.marker)))
    zip_with(('model.joblib', data))(path, site)


def tar_of(kind: bytes) -> Change:
    """
    Return the change of weights to torch's tar form, with a member that is no file.
    """

    def change(path: Path, site: Site) -> None:
        member = tarfile.TarInfo('storages')
        member.type, member.linkname, member.mode = kind, str(site.secret), 0o777
        member.devmajor, member.devminor = 1, 5  # /dev/zero
        with tarfile.open(path, 'w:') as tar:
            tar.addfile(member)

    return change


class Doubled(torch.nn.Module):
    """
    A module to be compiled.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


EMPTY = (
    ('archive/data.pkl', pickle.dumps({'model': {}}, 2)),
    ('archive/version', b'3\n'),
)
ENDLESS = b'\x80\x04cbuiltins\nbytes\n\x8a\x06' + (10**12).to_bytes(6, 'little')
TORCH: dict[str, Change] = {
    **{
        f'{name} ({form})': pickled_weights(name, form)
        for name, form in zip(GADGETS, cycle(FORMATS), strict=False)
    },
    **{
        f'{name} (options)': pickled(name, 'opt')
        for name in ('exec', 'BUILD', 'OBJ', 'extension')
    },
    'dictionary_pickled': pickled('exec', 'dict'),
    'arrays_pickled': arrays_pickled,
    'joblib_pickled': joblib_pickled,
    'tar with a hard link': tar_of(tarfile.LNKTYPE),
    'tar with a symbolic link': tar_of(tarfile.SYMTYPE),
    'tar with a pipe': tar_of(tarfile.FIFOTYPE),
    'tar with a device': tar_of(tarfile.CHRTYPE),
    'torchscript': lambda path, site: torch.jit.save(
        torch.jit.script(Doubled()), str(path)
    ),
    'tensor_without_stride': lambda path, site: torch.save(
        {'model': {'w': torch.zeros(1).expand(10**12)}}, path
    ),
    'packed_zeros': zip_with(*EMPTY, ('archive/data/0', bytes(2**28))),
    'nested_tuples': lambda path, site: path.write_bytes(
        in_zip(b'\x80\x04})' + b'\x85' * 10**6 + b'K\x01s.')
    ),
    'endless_bytes': lambda path, site: path.write_bytes(in_zip(ENDLESS + b'\x85R.')),
    'zip_members_outside': zip_with(*EMPTY, ('../../..SECRET', b'changed')),
}
BUILDERS: dict[str, Builder] = {k: parlai_model(one) for k, one in TORCH.items()}


# ---- safetensors


def with_header(header: Any, data: bytes = bytes(64), size: int | None = None) -> bytes:
    """
    Return a file of safetensors with this header.

    :param size: of the header, where it is not right.
    """
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack('<Q', len(text) if size is None else size) + text + data


def tensor(*offsets: int, shape: list[int] | None = None, dtype: str = 'F32') -> Any:
    """
    Return the header's entry of a tensor.
    """
    return {'dtype': dtype, 'shape': shape or [4], 'data_offsets': list(offsets)}


HEADERS: dict[str, bytes] = {
    'overlapping': with_header({'a': tensor(0, 16), 'b': tensor(8, 24)}),
    'beyond the file': with_header({'a': tensor(0, 2**40, shape=[2**38])}),
    'negative offsets': with_header({'a': tensor(-16, 0)}),
    'backwards': with_header({'a': tensor(16, 0)}),
    'huge shape': with_header({'a': tensor(0, 16, shape=[2**62, 2**62])}),
    'unknown type': with_header({'a': tensor(0, 16, dtype='PICKLE')}),
    'metadata as a list': with_header({'__metadata__': [1], 'a': tensor(0, 16)}),
    'our metadata': with_header(
        {'__metadata__': {'parlai_ext': '{"names": [[1]], "shared": 7}'}}
    ),
    'deep header': with_header(b'{"a":' + b'[' * 10**6),
    'huge header': with_header(b'{}', size=2**63),
    'long header': with_header(b'{' + b' ' * 50_000_000),
}


def headed(data: bytes) -> tuple[Builder, Builder]:
    """
    Return the builders of a model with a bad header, as a file and in a folder.
    """
    return (
        parlai_model(lambda path, site: path.write_bytes(data)),
        hf_folder(lambda at, site: (at / 'model.safetensors').write_bytes(data)),
    )


BUILDERS |= {
    f'safetensors: {name}': headed(data)[k % 2]
    for k, (name, data) in enumerate(HEADERS.items())
}


# ---- options of a model, and files beside it


def options(**values: Any) -> Change:
    """
    Return the change of options; SECRET and ADDRESS stand for those of the site.
    """

    def change(path: Path, site: Site) -> None:
        told = {'SECRET': str(site.secret), 'ADDRESS': site.address}
        with_options(path, **{k: told.get(v, v) for k, v in values.items()})

    return change


def options_name_a_program(path: Path, site: Site) -> None:
    more = {'model': 'subprocess:Popen', 'touch': 1, str(site.marker): 1}
    with_options(path, **more)


def options_name_a_module(path: Path, site: Site) -> None:
    with_options(path, model='stranger:Agent')
    (path.parent / 'stranger.py').write_text(program(site.marker))


def linked(path: Path, target: Path) -> None:
    """
    Put a link in the place of a file.
    """
    path.unlink()
    path.symlink_to(target)


def dictionary_is_a_pipe(path: Path, site: Site) -> None:
    beside(path, 'dict').unlink()
    os.mkfifo(beside(path, 'dict'))


OUTPUTS = ('output_conversion_path', 'report_filename', 'world_logs', 'outfile')
OPTIONS: dict[str, Change] = {
    'options_name_a_server': options(
        model='projects.bb3.agents.search_agent:SearchAgent',
        server='default',
        raw_server='ADDRESS',
    ),
    'options_name_a_program': options_name_a_program,
    'options_name_a_module': options_name_a_module,
    'options_name_an_output': options(
        **dict.fromkeys((*OUTPUTS, 'init_fairseq_model'), 'SECRET'),
        save_format='conversations',
    ),
    'options_too_deep': lambda path, site: beside(path, 'opt').write_text(
        '{"a":' * 100_000 + '1' + '}' * 100_000
    ),
    'options_with_a_billion_layers': options(n_layers=10**9, n_decoder_layers=10**9),
    'options_with_a_billion_positions': options(
        n_positions=10**12, embedding_size=10**9
    ),
    'dictionary_is_a_pipe': dictionary_is_a_pipe,
    'model_is_a_device': lambda path, site: linked(path, Path('/dev/zero')),
}
BUILDERS |= {name: parlai_model(change) for name, change in OPTIONS.items()}
BUILDERS['options_name_a_file'] = parlai_model(
    options(fixed_candidates_path='SECRET'), ranker=True
)
BUILDERS['candidates_linked'] = parlai_model(
    lambda path, site: linked(beside(path, 'candidates.txt'), site.secret), ranker=True
)


# ---- folders of Hugging Face


def settings(name: str, **values: Any) -> Change:
    """
    Return the change of a JSON file of a folder; SECRET stands for the site's.
    """

    def change(at: Path, site: Site) -> None:
        told = {k: str(site.secret) if v == 'SECRET' else v for k, v in values.items()}
        change_json(at / f'{name}.json', **told)

    return change


def code_of_its_own(change: Change) -> Change:
    """
    Return a change of a folder that brings code, too.
    """

    def with_code(at: Path, site: Site) -> None:
        change(at, site)
        (at / 'own.py').write_text(program(site.marker))

    return with_code


def index_leads_elsewhere(at: Path, site: Site) -> None:
    names = list(safetensors.torch.load_file(at / 'model.safetensors'))
    files = dict.fromkeys(names, str(site.secret))
    change_json(at / 'model.safetensors.index.json', metadata={}, weight_map=files)
    (at / 'model.safetensors').unlink()


def other_weights(files: Callable[[Site], dict[str, bytes]]) -> Change:
    """
    Return the change of a folder's weights to other files.
    """

    def change(at: Path, site: Site) -> None:
        (at / 'model.safetensors').unlink()
        for name, data in files(site).items():
            (at / name).write_bytes(data)

    return change


def templated(template: str) -> Change:
    """
    Return the change of a folder's chat template; MARKER stands for the site's.
    """
    return lambda at, site: (at / 'chat_template.jinja').write_text(
        template.replace('MARKER', str(site.marker))
    )


ROOT = "cycler.__init__.__globals__['os']"
HDF5 = b'\x89HDF\r\n\x1a\n' * 9
FOLDERS: dict[str, Change] = {
    'folder_brings_code': code_of_its_own(
        settings(
            'config',
            auto_map={
                f'Auto{k}': f'own.Own{k}' for k in ('Config', 'ModelForCausalLM')
            },
            model_type='own',
        )
    ),
    'tokenizer_brings_code': code_of_its_own(
        settings(
            'tokenizer_config',
            auto_map={'AutoTokenizer': ['own.OwnTokenizer', None]},
            tokenizer_class='Own',
        )
    ),
    'tokenizer_pattern_explodes': settings(
        'tokenizer',
        pre_tokenizer={
            'type': 'Split',
            'pattern': {'Regex': '(a+)+(b+)+(\\w+\\s?)+$x'},
            'behavior': 'Isolated',
            'invert': False,
        },
    ),
    'folder_is_an_adapter': settings(
        'adapter_config', peft_type='LORA', base_model_name_or_path='SECRET'
    ),
    'index_leads_elsewhere': index_leads_elsewhere,
    'folder_links_elsewhere': lambda at, site: (at / 'vocab.txt').symlink_to(
        site.secret
    ),
    'settings_name_a_file': settings(
        'tokenizer_config', vocab_file='SECRET', merges_file='SECRET'
    ),
    'folder_has_a_pipe': lambda at, site: os.mkfifo(at / 'preprocessor_config.json'),
    'folder_has_a_pickle': other_weights(
        lambda site: {'pytorch_model.bin': in_zip(gadget('exec', site.marker))}
    ),
    'folder_has_other_formats': other_weights(
        lambda site: {
            'model.gguf': b'GGUF' + struct.pack('<IQQ', 3, 2**60, 2**60),
            'tf_model.h5': HDF5,
            'flax_model.msgpack': HDF5,
        }
    ),
    'folder_with_a_billion_layers': settings('config', num_hidden_layers=10**9),
    'template that loops': templated(
        '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}'
    ),
    'template that expands': templated("{{ 'x' * 10**11 }}"),
    'template that runs code': templated(f"{{{{ {ROOT}.system('touch MARKER') }}}}"),
    'template that opens a file': templated(
        "{% include '/etc/passwd' %}{{ self.__class__.__mro__ }}"
    ),
}
BUILDERS |= {name: hf_folder(change) for name, change in FOLDERS.items()}
