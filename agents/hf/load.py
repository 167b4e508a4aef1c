"""
From options to a model and its tokenizer; what goes wrong is one line.

A model is data: no code that comes with it runs unless the user asks for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
)

from parlai_ext.bridge import hub
from parlai_ext.bridge.safe.kernels import kernel_of
from parlai_ext.bridge.safe.unpickle import BadModelFile
from parlai_ext.compat.libraries import without_bars
from parlai_ext.errors import UserError
from parlai_ext.likelihood.memory import is_out_of_memory

DTYPES = ('auto', 'float32', 'bfloat16', 'float16', 'float64')
QUANTISATIONS = ('none', '8bit', '4bit')
# what a config calls the number of positions that a model was made for
POSITIONS = ('max_position_embeddings', 'n_positions', 'max_seq_len', 'n_ctx')
BOUNDLESS = 10**7  # tokenizers without a limit say 10**30
INSTALL = 'pip install "parlai_ext[llm]"'
LONGEST = 200


@dataclass(frozen=True)
class Loaded:
    """
    A model, its tokenizer, and what is to be known of them.
    """

    model: Any
    tokenizer: Any
    seq2seq: bool
    positions: int | None


def load(opt: Mapping[str, Any]) -> Loaded:
    """
    Return the model that options name, ready to generate.

    :raises UserError: ``option: what is wrong; what would be right``.
    """
    device = chosen_device(opt)
    extra = loading_arguments(opt, device)
    folder = found_folder(opt)
    trust = bool(opt.get('hf_trust_code'))
    asked = {'local_files_only': True, 'trust_remote_code': trust}
    with quiet():
        config = _tried('config', folder, AutoConfig.from_pretrained, **asked)
        if not trust:
            refuse_kernels(config)
        if getattr(config, 'quantization_config', None) and 'quantization_config' in (
            extra
        ):
            raise UserError('hf_quantisation: the model is quantised already; none')
        seq2seq = bool(config.is_encoder_decoder)
        tokenizer = _tokenizer(folder, asked)
        kind = AutoModelForSeq2SeqLM if seq2seq else AutoModelForCausalLM
        model = _model(kind, folder, {**asked, **extra, 'config': config})
    model = model.eval().requires_grad_(False)
    if not {'device_map', 'quantization_config'} & set(extra):
        model = model.to(device)
    return Loaded(model, tokenizer, seq2seq, positions(config, tokenizer))


def found_folder(opt: Mapping[str, Any]) -> Path:
    """
    Return the folder of the model's files, downloaded when they are not here.
    """
    repo = hub.checked_repository(opt.get('hf_model'))
    if (Path(repo) / 'adapter_config.json').is_file():
        raise UserError(
            f'hf_model: {repo} is an adapter; its base model, merged with it, would do'
        )
    try:
        return hub.fetched_weights(repo, opt.get('hf_revision') or None).parent
    except UserError as error:
        what = str(error).removeprefix('hf_model: ')
        raise UserError(f'hf_model: {what}') from None


def chosen_device(opt: Mapping[str, Any]) -> torch.device:
    """
    Return where the model computes: on a GPU when there is one.
    """
    cuda = torch.cuda.is_available() and not opt.get('no_cuda')
    named = opt.get('hf_device') or ('cuda' if cuda else 'cpu')
    try:
        device = torch.device(named)
    except RuntimeError:
        raise UserError(
            f'hf_device: {named!r} is no device; cpu, cuda or cuda:1 would be'
        ) from None
    if device.type == 'cuda' and not cuda:
        raise UserError(f'hf_device: {named}: there is no GPU to be used; cpu would do')
    if device.type == 'cuda' and (device.index or 0) >= torch.cuda.device_count():
        n = torch.cuda.device_count()
        raise UserError(f'hf_device: {named}: there are {n} GPUs, counted from 0')
    return device


def loading_arguments(opt: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """
    Return what `from_pretrained` is told about numbers and places.
    """
    dtype = opt.get('hf_dtype') or 'auto'
    if dtype not in DTYPES:
        raise UserError(f'hf_dtype: {dtype!r} is none of {", ".join(DTYPES)}')
    found: dict[str, Any] = {'dtype': dtype}
    if dtype != 'auto':
        found['dtype'] = getattr(torch, dtype)
    if opt.get('hf_device_map'):
        _need('hf_device_map', 'accelerate')
        found['device_map'] = opt['hf_device_map']
    kind = opt.get('hf_quantisation') or 'none'
    if kind not in QUANTISATIONS:
        known = ', '.join(QUANTISATIONS)
        raise UserError(f'hf_quantisation: {kind!r} is none of {known}')
    if kind != 'none':
        if device.type != 'cuda':
            raise UserError(
                f'hf_quantisation: {kind} needs a GPU and this runs on {device}; '
                'none would do'
            )
        _need('hf_quantisation', 'bitsandbytes')
        _need('hf_quantisation', 'accelerate')
        found['quantization_config'] = quantisation(kind, found['dtype'])
        found.setdefault('device_map', {'': device})
    return found


def quantisation(kind: str, dtype: Any) -> Any:
    """
    Return how weights are quantised; sums are in ``dtype``, else bfloat16.
    """
    if kind == '8bit':
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    compute = torch.bfloat16 if dtype == 'auto' else dtype
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type='nf4',
        bnb_4bit_compute_dtype=compute,
    )


def refuse_kernels(config: Any) -> None:
    """
    Refuse a config that names a kernel of the hub.
    """
    kernel = kernel_of(config)
    if kernel:
        raise UserError(
            f'hf_model: its config.json asks for the kernel {kernel!r}, '
            'code from the hub; hf_trust_code: true would run that'
        )


def positions(config: Any, tokenizer: Any) -> int | None:
    """
    Return how many tokens a model was made for; `None` where nothing says so.
    """
    text = config.get_text_config()
    named = [getattr(text, name, None) for name in POSITIONS]
    named.append(tokenizer.model_max_length)
    return min(
        (n for n in named if isinstance(n, int) and 0 < n < BOUNDLESS), default=None
    )


def _tokenizer(folder: Path, asked: Mapping[str, Any]) -> Any:
    """
    Return the tokenizer; one that knows no words is none.
    """
    found = _tried('tokenizer', folder, AutoTokenizer.from_pretrained, **asked)
    special = set(found.all_special_ids)
    if not any(i not in special for i in found.get_vocab().values()):
        raise UserError(f'hf_model: there is no tokenizer in {folder}')
    return found


def _model(kind: Any, folder: Path, asked: Mapping[str, Any]) -> Any:
    """
    Return the model; one whose weights are not all there would talk at random.
    """
    found, info = _tried(
        'model', folder, kind.from_pretrained, output_loading_info=True, **asked
    )
    missing = sorted(info['missing_keys'])
    if missing:
        raise UserError(
            f'hf_model: {folder}: its weights lack {len(missing)} of the model, '
            f'{missing[0]} among them'
        )
    return found


def _tried(what: str, folder: Path, read: Any, **asked: Any) -> Any:
    """
    Return what was read, or raise one line that says why it could not be.
    """
    try:
        return read(folder, **asked)
    except BadModelFile as error:
        raise UserError(f'hf_model: {error.path}: {error.why}') from error
    except Exception as error:
        if is_out_of_memory(error):
            raise
        words = ' '.join(str(error).split()) or type(error).__name__
        if 'trust_remote_code' in words:
            words = 'it brings code of its own; hf_trust_code: true would run that'
        raise UserError(
            f'hf_model: the {what} in {folder} cannot be read: {words[:LONGEST]}'
        ) from error


def _need(option: str, package: str) -> None:
    """
    Refuse an option whose package is not installed.
    """
    if find_spec(package) is None:
        raise UserError(f'{option}: {package} is not installed; {INSTALL}')


@contextmanager
def quiet() -> Iterator[None]:
    """
    Keep transformers from progress bars and advice.
    """
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with without_bars():
            yield
    finally:
        logging.set_verbosity(level)
