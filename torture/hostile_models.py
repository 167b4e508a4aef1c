"""
Model files and folders that would run code, reach other files or never end.

Each function of `BUILDERS` makes one in an empty folder and returns its path: of a
model file of ParlAI, or of a folder of Hugging Face.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
BUILDERS: dict[str, Builder] = {}


def builds(function: Builder) -> Builder:
    """
    Put a function among the builders.
    """
    BUILDERS[function.__name__.strip('_')] = function
    return function


def parlai_model(at: Path, site: Site, ranker: bool = False, **opt: Any) -> Path:
    """
    Return a copy of a harmless model, with other options.
    """
    source = site.ranker if ranker else site.generator
    shutil.copytree(source.parent, at, dirs_exist_ok=True)
    path = at / source.name
    with_options(str(path), **{**moved(source, path), **opt})
    return path


def moved(source: Path, path: Path) -> dict[str, str]:
    """
    Return the options that name files beside a model, at another place.
    """
    opt = json.loads(Path(f'{path}.opt').read_text())
    old, new = str(source.parent), str(path.parent)
    return {k: v.replace(old, new) for k, v in opt.items() if old in str(v)}


def hf_folder(at: Path, site: Site, **config: Any) -> Path:
    """
    Return a copy of the harmless folder, with another configuration.
    """
    shutil.copytree(site.folder, at, dirs_exist_ok=True)
    change_json(at / 'config.json', **config)
    return at


def change_json(path: Path, **values: Any) -> None:
    """
    Change values of a JSON file.
    """
    data = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**data, **values}))


# ---- pickles, as weights and as options


def pickled_weights(name: str, form: str) -> Builder:
    """
    Return the builder of a model whose weights are a pickle that runs code.
    """

    def build(at: Path, site: Site) -> Path:
        path = parlai_model(at, site)
        path.write_bytes(FORMATS[form](gadget(name, site.marker)))
        return path

    return build


def pickled_options(name: str) -> Builder:
    """
    Return the builder of a model whose options are a pickle that runs code.
    """

    def build(at: Path, site: Site) -> Path:
        path = parlai_model(at, site)
        Path(f'{path}.opt').write_bytes(gadget(name, site.marker))
        return path

    return build


for k, gadget_name in enumerate(GADGETS):
    form = list(FORMATS)[k % len(FORMATS)]
    BUILDERS[f'{gadget_name} ({form})'] = pickled_weights(gadget_name, form)
for gadget_name in ('exec', 'BUILD', 'OBJ', 'extension'):
    BUILDERS[f'{gadget_name} (options)'] = pickled_options(gadget_name)


@builds
def dictionary_pickled(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    Path(f'{path}.dict').write_bytes(gadget('exec', site.marker))
    return path


@builds
def arrays_pickled(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    words = np.array([Call(exec, program(site.marker))], object)
    with open(path, 'wb') as file:
        np.savez(file, words=words)
    return path


@builds
def joblib_pickled(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as file:
        file.writestr('model.joblib', pickle.dumps(Call(exec, program(site.marker))))
    return path


# ---- torch


def tar_of(kind: bytes) -> Builder:
    """
    Return the builder of a model in torch's tar form, with a member that is no file.
    """

    def build(at: Path, site: Site) -> Path:
        path = parlai_model(at, site)
        member = tarfile.TarInfo('storages')
        member.type, member.linkname, member.mode = kind, str(site.secret), 0o777
        member.devmajor, member.devminor = 1, 5  # /dev/zero
        with tarfile.open(path, 'w:') as tar:
            tar.addfile(member)
        return path

    return build


for kind_name, kind in {
    'hard link': tarfile.LNKTYPE,
    'symbolic link': tarfile.SYMTYPE,
    'pipe': tarfile.FIFOTYPE,
    'device': tarfile.CHRTYPE,
}.items():
    BUILDERS[f'tar with a {kind_name}'] = tar_of(kind)


@builds
def torchscript(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)

    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    torch.jit.save(torch.jit.script(Doubled()), str(path))
    return path


@builds
def tensor_without_stride(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    torch.save({'model': {'w': torch.zeros(1).expand(10**12)}}, path)
    return path


@builds
def packed_zeros(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as file:
        file.writestr('archive/data.pkl', pickle.dumps({'model': {}}, 2))
        file.writestr('archive/version', b'3\n')
        file.writestr('archive/data/0', bytes(2**28))
    return path


@builds
def nested_tuples(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    path.write_bytes(in_zip(b'\x80\x04})' + b'\x85' * 10**6 + b'K\x01s.'))
    return path


@builds
def endless_bytes(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    number = b'\x8a\x06' + (10**12).to_bytes(6, 'little')
    path.write_bytes(in_zip(b'\x80\x04cbuiltins\nbytes\n' + number + b'\x85R.'))
    return path


@builds
def zip_members_outside(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    with zipfile.ZipFile(path, 'w') as file:
        file.writestr('archive/data.pkl', pickle.dumps({'model': {}}, 2))
        file.writestr('archive/version', b'3\n')
        file.writestr(f'../../..{site.secret}', b'changed')
    return path


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


def headed(data: bytes, in_folder: bool) -> Builder:
    """
    Return the builder of a model with a bad header, as a file or in a folder.
    """

    def build(at: Path, site: Site) -> Path:
        if in_folder:
            (hf_folder(at, site) / 'model.safetensors').write_bytes(data)
            return at
        path = parlai_model(at, site)
        path.write_bytes(data)
        return path

    return build


for k, (header_name, header) in enumerate(HEADERS.items()):
    BUILDERS[f'safetensors: {header_name}'] = headed(header, bool(k % 2))


# ---- options of a model, and files beside it


@builds
def options_name_a_server(at: Path, site: Site) -> Path:
    agent = 'projects.bb3.agents.search_agent:SearchAgent'
    more = {'server': 'default', 'raw_server': site.address}
    return parlai_model(at, site, model=agent, **more)


@builds
def options_name_a_program(at: Path, site: Site) -> Path:
    path = parlai_model(at, site, model='subprocess:Popen')
    change_json(Path(f'{path}.opt'), **{'touch': 1, str(site.marker): 1})
    return path


@builds
def options_name_a_module(at: Path, site: Site) -> Path:
    (at / 'stranger.py').parent.mkdir(exist_ok=True)
    path = parlai_model(at, site, model='stranger:Agent')
    (at / 'stranger.py').write_text(program(site.marker))
    return path


@builds
def options_name_a_file(at: Path, site: Site) -> Path:
    return parlai_model(at, site, True, fixed_candidates_path=str(site.secret))


@builds
def options_name_an_output(at: Path, site: Site) -> Path:
    more = {'init_fairseq_model': str(site.secret), 'save_format': 'conversations'}
    outputs = ('output_conversion_path', 'report_filename', 'world_logs', 'outfile')
    return parlai_model(at, site, **dict.fromkeys(outputs, str(site.secret)), **more)


@builds
def options_too_deep(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    Path(f'{path}.opt').write_text('{"a":' * 100_000 + '1' + '}' * 100_000)
    return path


@builds
def options_with_a_billion_layers(at: Path, site: Site) -> Path:
    return parlai_model(at, site, n_layers=10**9, n_decoder_layers=10**9)


@builds
def options_with_a_billion_positions(at: Path, site: Site) -> Path:
    return parlai_model(at, site, n_positions=10**12, embedding_size=10**9)


@builds
def candidates_linked(at: Path, site: Site) -> Path:
    path = parlai_model(at, site, True)
    Path(f'{path}.candidates.txt').unlink()
    Path(f'{path}.candidates.txt').symlink_to(site.secret)
    return path


@builds
def dictionary_is_a_pipe(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    Path(f'{path}.dict').unlink()
    os.mkfifo(f'{path}.dict')
    return path


@builds
def model_is_a_device(at: Path, site: Site) -> Path:
    path = parlai_model(at, site)
    path.unlink()
    path.symlink_to('/dev/zero')
    return path


# ---- folders of Hugging Face


@builds
def folder_brings_code(at: Path, site: Site) -> Path:
    names = {f'Auto{kind}': f'own.Own{kind}' for kind in ('Config', 'ModelForCausalLM')}
    (hf_folder(at, site, auto_map=names, model_type='own') / 'own.py').write_text(
        program(site.marker)
    )
    return at


@builds
def tokenizer_brings_code(at: Path, site: Site) -> Path:
    (hf_folder(at, site) / 'own.py').write_text(program(site.marker))
    names = {'AutoTokenizer': ['own.OwnTokenizer', None]}
    change_json(at / 'tokenizer_config.json', auto_map=names, tokenizer_class='Own')
    return at


@builds
def tokenizer_pattern_explodes(at: Path, site: Site) -> Path:
    pattern = {'type': 'Split', 'pattern': {'Regex': '(a+)+(b+)+(\\w+\\s?)+$x'}}
    more = {'behavior': 'Isolated', 'invert': False}
    change_json(
        hf_folder(at, site) / 'tokenizer.json', pre_tokenizer={**pattern, **more}
    )
    return at


@builds
def folder_is_an_adapter(at: Path, site: Site) -> Path:
    base = {'peft_type': 'LORA', 'base_model_name_or_path': str(site.secret)}
    change_json(hf_folder(at, site) / 'adapter_config.json', **base)
    return at


@builds
def index_leads_elsewhere(at: Path, site: Site) -> Path:
    weights = hf_folder(at, site) / 'model.safetensors'
    names = list(safetensors.torch.load_file(weights))
    weights.unlink()
    change_json(
        at / 'model.safetensors.index.json',
        metadata={},
        weight_map=dict.fromkeys(names, str(site.secret)),
    )
    return at


@builds
def folder_links_elsewhere(at: Path, site: Site) -> Path:
    (hf_folder(at, site) / 'vocab.txt').symlink_to(site.secret)
    return at


@builds
def settings_name_a_file(at: Path, site: Site) -> Path:
    name = {'vocab_file': str(site.secret), 'merges_file': str(site.secret)}
    change_json(hf_folder(at, site) / 'tokenizer_config.json', **name)
    return at


@builds
def folder_has_a_pipe(at: Path, site: Site) -> Path:
    os.mkfifo(hf_folder(at, site) / 'preprocessor_config.json')
    return at


@builds
def folder_has_a_pickle(at: Path, site: Site) -> Path:
    (hf_folder(at, site) / 'model.safetensors').unlink()
    data = in_zip(gadget('exec', site.marker))
    (at / 'pytorch_model.bin').write_bytes(data)
    return at


@builds
def folder_has_other_formats(at: Path, site: Site) -> Path:
    (hf_folder(at, site) / 'model.safetensors').unlink()
    huge = b'GGUF' + struct.pack('<IQQ', 3, 2**60, 2**60)
    for name in ('model.gguf', 'tf_model.h5', 'flax_model.msgpack'):
        (at / name).write_bytes(huge if 'gguf' in name else b'\x89HDF\r\n\x1a\n' * 9)
    return at


@builds
def folder_with_a_billion_layers(at: Path, site: Site) -> Path:
    return hf_folder(at, site, num_hidden_layers=10**9)


def templated(template: str) -> Builder:
    """
    Return the builder of a folder with this chat template.
    """

    def build(at: Path, site: Site) -> Path:
        text = template.replace('MARKER', str(site.marker))
        (hf_folder(at, site) / 'chat_template.jinja').write_text(text)
        return at

    return build


ROOT = "cycler.__init__.__globals__['os']"
TEMPLATES: Mapping[str, str] = {
    'loops': '{% for a in range(99999) %}{% for b in range(99999) %}'
    '{% endfor %}{% endfor %}',
    'expands': "{{ 'x' * 10**11 }}",
    'runs code': f"{{{{ {ROOT}.system('touch MARKER') }}}}",
    'opens a file': "{% include '/etc/passwd' %}{{ self.__class__.__mro__ }}",
}
for template_name, template in TEMPLATES.items():
    BUILDERS[f'template that {template_name}'] = templated(template)
