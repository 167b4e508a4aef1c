"""
A Hugging Face causal model as a `Likelihood`: its own tokenizer, turns told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from parlai_ext.bridge import hub
from parlai_ext.bridge.causal_turns import Form, TurnVectorizer, start_token
from parlai_ext.bridge.content import sha256
from parlai_ext.bridge.safe.kernels import kernel_of
from parlai_ext.compat.libraries import without_bars
from parlai_ext.errors import UserError
from parlai_ext.likelihood.causal import TOKENS, Causal, reserved
from parlai_ext.likelihood.causal_checks import checked, positions
from parlai_ext.likelihood.memory import is_out_of_memory
from parlai_ext.records import System, content_id
from parlai_ext.signature import signature_line
from parlai_ext.strict_yaml import nearest

DTYPES = ('auto', 'float32', 'bfloat16', 'float16', 'float64')
QUANTISATIONS = ('none', '8bit', '4bit')
FORMATS = ('auto', 'plain')
INSTALL = 'pip install "parlai_ext[llm]"'
BOUNDLESS = 10**7  # tokenizers without a limit say 10**30
DIALOGPT = 'hugging_face/dialogpt'
TEXT_TRUNCATE = 768  # parlai/agents/hugging_face/dialogpt.py
# options of ext:hf that say which model judges and what it reads, and the choices
CHOICES = {
    'hf_dtype': DTYPES,
    'hf_quantisation': QUANTISATIONS,
    'hf_format': FORMATS,
}
# options that say how it would talk: a judge does not
TALK = ('hf_system_role', 'hf_template_args', 'hf_date')
OPTIONS = (
    *CHOICES,
    *('hf_model', 'hf_revision', 'hf_device', 'hf_device_map', 'hf_trust_code'),
    *('hf_turn_separator', 'hf_context_tokens'),
)


def load_causal_judge(
    model: System | str,
    *,
    dtype: str | None = None,
    device: str | None = None,
    no_cuda: bool = False,
    fp16: bool | None = None,
    tokens: int = TOKENS,
) -> Causal:
    """
    Return a Hugging Face causal model as a `Likelihood`. No code of its own is run.

    :param model: a system (``ext:hf`` or ``hugging_face/dialogpt``), or the folder or
        hub repository of one, downloaded when it is not here.
    :param dtype: of weights and sums, instead of what the system's options say.
    :param device: likewise.
    :param fp16: half precision on a GPU, unless the options name a precision.
    :param tokens: in one forward pass, padding counted.
    :raises UserError: when there is no such model, or it cannot judge.
    """
    if isinstance(model, str):
        model = System(model, {'model': hub.AGENT, 'hf_model': model})
    given = {'hf_dtype': dtype, 'hf_device': device}
    opt = {**model.opt, **{k: v for k, v in given.items() if v}}
    try:
        where = chosen_device(opt, no_cuda)
        if fp16 and where.type == 'cuda':
            opt.setdefault('hf_dtype', 'float16')
        return _loaded(System(model.name, opt), where, tokens)
    except UserError as error:
        raise UserError(f'judge {named(model)}: {error}') from None


def named(system: System) -> str:
    """
    Return how a message calls a judge.
    """
    return str(system.opt.get('hf_model') or system.opt.get('model') or system.name)


def _loaded(system: System, device: torch.device, tokens: int) -> Causal:
    checked_options(system)
    extra = loading_arguments(system.opt, device)
    repo = hub.repository(system)
    assert repo is not None
    folder = hub.fetched_weights(repo, hub.revision(system)).parent
    config, tokenizer, network = read(folder, extra)
    if not {'device_map', 'quantization_config'} & set(extra):
        network = network.to(device)
    named = [positions(config), tokenizer.model_max_length]
    most = min((n for n in named if n and n < BOUNDLESS), default=None)
    reader = TurnVectorizer(tokenizer, form_of(system, most))
    return checked(
        Causal(
            network.eval().requires_grad_(False),
            reader,
            judge_signature(folder, network, reader, most, system.opt),
            start=start_token(tokenizer),
            positions=most,
            tokens=tokens,
        )
    )


def checked_options(system: System) -> None:
    """
    Refuse options that cannot be meant.
    """
    for key, known in CHOICES.items():
        value = system.opt.get(key)
        if key == 'hf_format' and value == 'chat':
            raise UserError('hf_format: chat: a judge reads turns as they are; plain')
        if value is not None and value not in known:
            raise UserError(f'{key}: {value!r} is none of {", ".join(known)}')
    for key in system.opt:
        if key.startswith('hf_') and key not in (*OPTIONS, *TALK):
            raise UserError(f'{key}: there is no such option; {nearest(key, OPTIONS)}')
    if str(system.opt.get('hf_trust_code')).lower() in ('true', '1', 'yes'):
        raise UserError('hf_trust_code: a judge that brings code of its own is not run')
    if str(system.opt.get('model')) not in (hub.AGENT, DIALOGPT):
        raise UserError('model: no agent that can judge; ext:hf would do')


def form_of(system: System, most: int | None) -> Form:
    """
    Return how a system's own agent would read turns, and how many tokens of them.
    """
    opt = system.opt
    if opt.get('model') == DIALOGPT:
        asked = opt.get('text_truncate') or opt.get('truncate') or -1
        limits = [int(asked) if int(asked) > 0 else TEXT_TRUNCATE]
    else:
        limits = [int(opt['hf_context_tokens'])] if opt.get('hf_context_tokens') else []
    if most is not None:
        limits.append(most - reserved(most))
    return Form(
        opt.get('hf_turn_separator') or None,
        opt.get('model') != DIALOGPT,
        min(limits, default=None),
    )


def chosen_device(opt: Mapping[str, Any], no_cuda: bool = False) -> torch.device:
    """
    Return where the model computes: on a GPU when there is one.
    """
    cuda = torch.cuda.is_available() and not no_cuda
    named = opt.get('hf_device') or ('cuda' if cuda else 'cpu')
    try:
        device = torch.device(named)
    except RuntimeError:
        raise UserError(f'hf_device: {named!r} is no device; cpu or cuda') from None
    if device.type == 'cuda' and not cuda:
        raise UserError(f'hf_device: {named}: there is no GPU to be used; cpu would do')
    return device


def loading_arguments(opt: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """
    Return what `from_pretrained` is told about numbers and places.
    """
    named = opt.get('hf_dtype') or 'auto'
    dtype = named if named == 'auto' else getattr(torch, named)
    found: dict[str, Any] = {'dtype': dtype}
    if opt.get('hf_device_map'):
        _need('hf_device_map', 'accelerate')
        found['device_map'] = opt['hf_device_map']
    bits = opt.get('hf_quantisation') or 'none'
    if bits != 'none':
        if device.type != 'cuda':
            raise UserError(f'hf_quantisation: {bits} needs a GPU; none would do')
        _need('hf_quantisation', 'bitsandbytes')
        _need('hf_quantisation', 'accelerate')
        found['quantization_config'] = transformers.BitsAndBytesConfig(
            load_in_8bit=bits == '8bit',
            load_in_4bit=bits == '4bit',
            bnb_4bit_quant_type='nf4',
            bnb_4bit_compute_dtype=torch.bfloat16 if dtype == 'auto' else dtype,
        )
        found.setdefault('device_map', {'': device})
    return found


def _need(option: str, package: str) -> None:
    if find_spec(package) is None:
        raise UserError(f'{option}: {package} is not installed; {INSTALL}')


def read(folder: Path, extra: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """
    Return config, tokenizer and model of a folder.

    :raises UserError: one line, for whatever is wrong with them.
    """
    ours = {'local_files_only': True, 'trust_remote_code': False}
    try:
        config = AutoConfig.from_pretrained(folder, **ours)
        if config.is_encoder_decoder:
            raise UserError('an encoder-decoder; a causal model would do')
        refuse_kernels(config)
        tokenizer = AutoTokenizer.from_pretrained(folder, **ours)
        with without_bars():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, config=config, output_loading_info=True, **ours, **extra
            )
        network, info = loaded
    except Exception as e:
        if isinstance(e, UserError) or is_out_of_memory(e):
            raise
        why = ' '.join(str(e).split()) or type(e).__name__
        raise UserError(f'cannot be read: {why[:200]}') from e
    missing = sorted(info['missing_keys'])
    if missing:
        raise UserError(
            f'its weights lack {len(missing)} of the model, {missing[0]} among them'
        )
    return config, tokenizer, network


def refuse_kernels(config: Any) -> None:
    """
    Refuse a config that names a kernel of the hub.
    """
    kernel = kernel_of(config)
    if kernel:
        raise UserError(
            f'its config.json asks for the kernel {kernel!r}, code from the hub, which '
            'no judge may run'
        )


def judge_signature(
    folder: Path,
    network: Any,
    reader: TurnVectorizer,
    most: int | None,
    opt: Mapping[str, Any],
) -> str:
    """
    Return what fixes the judge's numbers; where its files lie is no part of it.
    """
    weights = hub.cached_weights(str(folder))
    files = [*hub.weight_files(weights), *hub.companions(folder)] if weights else []
    form = reader.form
    return signature_line(
        {
            'model': type(network).__name__,
            'content': content_id([(path.name, sha256(path)) for path in files]),
            'turns': 'end token' if form.separator is None else repr(form.separator),
            'cut': 'left, whole turns' if form.whole_turns else 'left',
            'text_truncate': form.limit,
            'positions': most,
            'dtype': str(network.dtype).removeprefix('torch.'),
            'quantised': opt.get('hf_quantisation') or 'none',
            'attention': network.config._attn_implementation,
        }
    )
