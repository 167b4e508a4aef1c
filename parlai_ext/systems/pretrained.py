"""
Models of Hugging Face's library, read for systems and for judges alike.

A model is data: no code that comes with it runs unless the user asks for that.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
)

from parlai_ext.compat.faults import without_bars
from parlai_ext.core import UserError, errors_about
from parlai_ext.isolation.fork_server import is_confined
from parlai_ext.systems import hub
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.safe.load import bounded_cost, guarded
from parlai_ext.systems.safe.read import read_in_child, write_tensors
from parlai_ext.systems.safe.unpickle import BadModelFile
from parlai_ext.systems.torch_memory import is_out_of_memory

BOUNDLESS = 10**7  # tokenizers without a limit say 10**30
INSTALL = 'pip install "parlai_ext[llm]"'
LONGEST = 200  # characters of a library's own words
POOLER_SEED = 2000  # of the baseline of DSTC10 Track 5
# fields of a config that say how many tokens a model takes
POSITIONS = ('max_position_embeddings', 'n_positions', 'max_seq_len', 'n_ctx')
KERNEL_KEYS = ('_attn_implementation', '_experts_implementation')
ON_REQUEST = '; for a system, hf_trust_code: true would run that'


def read(
    folder: Path,
    device: torch.device,
    extra: Mapping[str, object],
    *,
    trust: bool = False,
    kind: Any = None,
) -> tuple[Any, Any, Any]:
    """
    Return config, tokenizer and model of a folder, the model on its device.

    :param extra: from `loading_arguments`.
    :param trust: the code that comes with the model may run.
    :param kind: the class that loads the model; of its weights a pooling layer may be
        missing. Without it, the model is one that generates text.
    :raises UserError: ``option: what is wrong; what would be right``.
    """
    config, tokenizer = read_description(folder, trust=trust)
    if getattr(config, 'quantization_config', None) and 'quantization_config' in extra:
        raise UserError('hf_quantisation: the model is quantised already; none')
    unused = ('pooler.',) if kind else ()
    seq2seq = config.is_encoder_decoder
    kind = kind or (AutoModelForSeq2SeqLM if seq2seq else AutoModelForCausalLM)
    arguments = {
        **extra,
        'local_files_only': True,
        'trust_remote_code': trust,
        'config': config,
        'output_loading_info': True,
    }
    with (
        _reading(folder, trust),
        _without_pickles(folder) as home,
        _errors_of_part('model', home),
        torch.random.fork_rng(devices=[]),
    ):
        # weights of a pooling layer that are missing are drawn alike in every process
        torch.random.default_generator.manual_seed(POOLER_SEED)
        model, info = kind.from_pretrained(home, **arguments)
    missing = sorted(k for k in info['missing_keys'] if not k.startswith(unused))
    if missing:  # it would talk at random
        raise UserError(
            f'hf_model: {folder}: its weights lack {len(missing)} of the model, '
            f'{missing[0]} among them'
        )
    if 'device_map' not in extra:
        model = model.to(device)
    return config, tokenizer, model.eval().requires_grad_(False)


def read_description(folder: Path, *, trust: bool = False) -> tuple[Any, Any]:
    """
    Return config and tokenizer of a folder.

    :param trust: as of `read`.
    :raises UserError: as `read` does.
    """
    arguments = {'local_files_only': True, 'trust_remote_code': trust}
    with _reading(folder, trust):
        with _errors_of_part('config', folder):
            config = AutoConfig.from_pretrained(folder, **arguments)
        # which transformers would fetch and run without asking for the trust that it
        # asks for elsewhere
        parts = [config, *(getattr(config, name, None) for name in config.sub_configs)]
        values = (str(getattr(one, k, None)) for one in parts for k in KERNEL_KEYS)
        kernel = next((value[:LONGEST] for value in values if '/' in value), None)
        if kernel and not trust:
            raise UserError(
                f'hf_model: its config.json asks for the kernel {kernel!r}, code from '
                f'the hub{ON_REQUEST}'
            )
        with _errors_of_part('tokenizer', folder):
            tokenizer = AutoTokenizer.from_pretrained(folder, **arguments)
    if {*tokenizer.get_vocab().values()} <= {*tokenizer.all_special_ids}:
        raise UserError(f'hf_model: there is no tokenizer in {folder}')
    return config, tokenizer


@contextmanager
def _without_pickles(folder: Path) -> Iterator[Path]:
    """
    Give the folder, or, where its weights are pickles that another process has to read,
    one with them as safetensors.
    """
    weights = hub.cached_weights(str(folder))
    files = hub.weight_files(weights) if weights else []
    pickles = [file for file in files if file.suffix == '.bin']
    if is_confined() or not pickles:
        yield folder
        return
    with TemporaryDirectory() as scratch:
        home, parts = Path(scratch), dict[str, str]()
        for file in {*folder.iterdir()} - {*files}:
            (home / file.name).symlink_to(file.absolute())
        for file in pickles:
            output = home / f'{file.stem}.safetensors'
            try:
                names = read_in_child(write_tensors, file, output)
            except BadModelFile as error:
                raise UserError(f'hf_model: {error.path}: {error.why}') from None
            parts |= dict.fromkeys(names, output.name)
        index = {'metadata': {}, 'weight_map': parts}
        (home / hub.WEIGHTS[1]).write_text(json.dumps(index), 'utf-8')
        yield home


@contextmanager
def _reading(folder: Path, trust: bool) -> Iterator[None]:
    """
    Read a folder as data without a word; unless it is trusted, as its size allows.
    """
    with quiet(), guarded(), nullcontext() if trust else bounded_cost(folder):
        yield


def fetch_named_weights(options: ModelOptions) -> Path:
    """
    Return the weights of the model that options name, downloaded when they are not
    here.

    :raises UserError: ``hf_model: what is wrong``.
    """
    repo = hub.checked_repository(options.model)
    with errors_about('hf_model'):
        return hub.fetch_weights(repo, options.revision or None)


def chosen_device(options: ModelOptions) -> torch.device:
    """
    Return where the model computes: on a GPU when there is one.
    """
    cuda = torch.cuda.is_available() and not options.no_cuda
    named = options.device or ('cuda' if cuda else 'cpu')
    try:
        device = torch.device(named)
    except RuntimeError:
        raise UserError(
            f'hf_device: {named!r} is no device; cpu, cuda or cuda:1 would be'
        ) from None
    if device.type == 'cuda':
        if not cuda:
            raise UserError(
                f'hf_device: {named}: there is no GPU to be used; cpu would do'
            )
        n = torch.cuda.device_count()
        if (device.index or 0) >= n:
            raise UserError(f'hf_device: {named}: there are {n} GPUs, counted from 0')
    return device


def loading_arguments(options: ModelOptions, device: torch.device) -> dict[str, object]:
    """
    Return the arguments of `from_pretrained` about precision and devices.
    """
    dtype: Any = options.dtype
    if dtype != 'auto':
        dtype = getattr(torch, dtype)
    arguments = {'dtype': dtype}
    if options.device_map:
        _need('hf_device_map', 'accelerate')
        arguments['device_map'] = options.device_map
    kind = options.quantisation
    if kind == 'none':
        return arguments
    if device.type != 'cuda':
        raise UserError(
            f'hf_quantisation: {kind} needs a GPU and this runs on {device}; none '
            'would do'
        )
    _need('hf_quantisation', 'bitsandbytes')
    _need('hf_quantisation', 'accelerate')
    settings: dict[str, Any] = {'load_in_8bit': True}
    if kind == '4bit':  # sums are in the dtype that is asked for, else bfloat16
        settings = {
            'load_in_4bit': True,
            'bnb_4bit_quant_type': 'nf4',
            'bnb_4bit_compute_dtype': torch.bfloat16 if dtype == 'auto' else dtype,
        }
    config = transformers.BitsAndBytesConfig(**settings)
    return {'device_map': {'': device}, **arguments, 'quantization_config': config}


@contextmanager
def _errors_of_part(part: str, folder: Path) -> Iterator[None]:
    """
    Turn what transformers raises while it reads a part of a model into one line.
    """
    try:
        yield
    except BadModelFile as error:
        raise UserError(f'hf_model: {error.path}: {error.why}') from error
    except Exception as error:
        if is_out_of_memory(error):
            raise
        words = ' '.join(str(error).split()) or type(error).__name__
        if 'trust_remote_code' in words:
            words = f'it brings code of its own{ON_REQUEST}'
        if 'ignore_mismatched_sizes' in words:  # it refers to a report on the log
            words = 'its weights have other shapes than its config.json says'
        raise UserError(
            f'hf_model: the {part} in {folder} cannot be read: {words[:LONGEST]}'
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
        with without_bars(), warnings.catch_warnings(action='ignore'):
            yield
    finally:
        logging.set_verbosity(level)


def smallest_limit(*limits: Any) -> int | None:
    """
    Return the smallest of these numbers of tokens; `None` if nothing limits them.
    """
    # a config may hold anything
    known = (int(limit) for limit in limits if isinstance(limit, int | str) and limit)
    return min((limit for limit in known if 0 < limit < BOUNDLESS), default=None)


def max_positions(config: Any, tokenizer: Any) -> int | None:
    """
    Return how many tokens a model reads at most; `None` where nothing says it.

    If rotary positions change beyond some length, it is that length: otherwise a reply
    or a number would depend on the other texts of its batch.
    """
    text = config.get_text_config()
    named = [getattr(text, name, None) for name in POSITIONS]
    rope = getattr(text, 'rope_parameters', None) or {}
    for parameters in (rope, *rope.values()):
        if isinstance(parameters, dict) and parameters.get('rope_type') == 'longrope':
            named.append(parameters.get('original_max_position_embeddings'))
            named.append(getattr(text, 'original_max_position_embeddings', None))
    return smallest_limit(*named, tokenizer.model_max_length)


def surrounding_tokens(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """
    Return the tokens that a tokenizer puts before every text, and those after it.
    """
    ids = tokenizer('a')['input_ids']
    plain = tokenizer('a', add_special_tokens=False)['input_ids']
    starts = range(len(ids) - len(plain) + 1)
    first = next((i for i in starts if ids[i : i + len(plain)] == plain), 0)
    return tuple(ids[:first]), tuple(ids[first + len(plain) :])
