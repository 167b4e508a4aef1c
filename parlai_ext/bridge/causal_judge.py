"""
A Hugging Face causal model as a `Likelihood`: its own tokenizer, turns told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from parlai_ext.bridge import hub
from parlai_ext.bridge.content import sha256
from parlai_ext.errors import UserError
from parlai_ext.likelihood.causal import RESERVED, SIDE, TOKENS, Causal
from parlai_ext.likelihood.causal_checks import checked, positions
from parlai_ext.records import content_id
from parlai_ext.signature import signature_line

DTYPES = ('float32', 'bfloat16', 'float16', 'float64')
QUANTISATIONS = ('8bit', '4bit')
INSTALL = 'pip install "parlai_ext[llm]"'
BOUNDLESS = 10**7  # tokenizers without a limit say 10**30


@dataclass(frozen=True)
class Form:
    """
    How turns become one text; ``{eos}`` is the end token, ``{}`` what is said.

    :param lead: what stands before the first turn.
    :param turn: one turn of the context.
    :param reply: a continuation.
    """

    lead: str
    turn: str
    reply: str


FORMS = {
    # as DialoGPT was trained: every turn, the reply too, is closed by the end token
    'dialogpt': Form('', '{}{eos}', '{}{eos}'),
    # as FED's published script writes a conversation: spaces, no token at the end
    'fed_2020': Form('{eos}', ' {} {eos}', ' {}'),
}


def load_causal_judge(
    model: str,
    *,
    form: str = 'dialogpt',
    dtype: str | None = None,
    device: str | None = None,
    device_map: str | None = None,
    quantisation: str | None = None,
    revision: str | None = None,
    tokens: int = TOKENS,
) -> Causal:
    """
    Return a Hugging Face causal model as a `Likelihood`.

    :param model: a folder, or a hub repository, downloaded when it is not here. No code
        that comes with it is run.
    :param form: one of `FORMS`.
    :param dtype: of the weights and sums; the files' own when not given.
    :param device: a GPU when there is one.
    :param device_map: ``auto`` splits a model over several GPUs.
    :param quantisation: ``8bit`` or ``4bit``.
    :param tokens: in one forward pass, padding counted.
    :raises UserError: when there is no such model, or it cannot judge.
    """
    if form not in FORMS:
        raise UserError(f'judge {model}: form {form!r} is none of {", ".join(FORMS)}')
    where = torch.device(device or ('cuda' if torch.cuda.is_available() else 'cpu'))
    extra = loading_arguments(model, where, dtype, device_map, quantisation)
    folder = hub.fetched_weights(hub.checked_repository(model), revision).parent
    config, tokenizer, network = read(model, folder, extra)
    if not {'device_map', 'quantization_config'} & set(extra):
        network = network.to(where)
    reader = TurnVectorizer(tokenizer, form)
    limits = [positions(config), tokenizer.model_max_length]
    limit = min((n for n in limits if n and n < BOUNDLESS), default=None)
    return checked(
        Causal(
            network.eval().requires_grad_(False),
            reader,
            judge_signature(folder, network, reader, limit, quantisation),
            start=start_token(tokenizer),
            positions=limit,
            tokens=tokens,
        )
    )


def loading_arguments(
    model: str,
    device: torch.device,
    dtype: str | None,
    device_map: str | None,
    quantisation: str | None,
) -> dict[str, Any]:
    """
    Return what `from_pretrained` is told about numbers and places.
    """
    for name, value, known in (
        ('dtype', dtype, DTYPES),
        ('quantisation', quantisation, QUANTISATIONS),
    ):
        if value is not None and value not in known:
            raise UserError(
                f'judge {model}: {name} {value!r} is none of {", ".join(known)}'
            )
    found: dict[str, Any] = {'dtype': getattr(torch, dtype) if dtype else 'auto'}
    if device_map:
        _need(model, 'device_map', 'accelerate')
        found['device_map'] = device_map
    if quantisation:
        if device.type != 'cuda':
            raise UserError(f'judge {model}: quantisation {quantisation} needs a GPU')
        _need(model, 'quantisation', 'bitsandbytes')
        _need(model, 'quantisation', 'accelerate')
        found['quantization_config'] = transformers.BitsAndBytesConfig(
            load_in_8bit=quantisation == '8bit',
            load_in_4bit=quantisation == '4bit',
            bnb_4bit_quant_type='nf4',
            bnb_4bit_compute_dtype=getattr(torch, dtype) if dtype else torch.bfloat16,
        )
        found.setdefault('device_map', {'': device})
    return found


def _need(model: str, option: str, package: str) -> None:
    if find_spec(package) is None:
        raise UserError(
            f'judge {model}: {option}: {package} is not installed; {INSTALL}'
        )


def read(model: str, folder: Path, extra: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """
    Return config, tokenizer and model of a folder.

    :raises UserError: one line, for whatever is wrong with them.
    """
    ours = {'local_files_only': True, 'trust_remote_code': False}
    try:
        config = AutoConfig.from_pretrained(folder, **ours)
        if config.is_encoder_decoder:
            raise UserError(
                f'judge {model}: an encoder-decoder; a causal model would do'
            )
        tokenizer = AutoTokenizer.from_pretrained(folder, **ours)
        network, info = AutoModelForCausalLM.from_pretrained(
            folder, config=config, output_loading_info=True, **ours, **extra
        )
    except (UserError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as e:
        why = ' '.join(str(e).split()) or type(e).__name__
        raise UserError(f'judge {model}: cannot be read: {why[:200]}') from e
    missing = sorted(info['missing_keys'])
    if missing:
        raise UserError(
            f'judge {model}: its weights lack {len(missing)} of the model, '
            f'{missing[0]} among them'
        )
    return config, tokenizer, network


def start_token(tokenizer: Any) -> int | None:
    """
    Return what stands for an empty context: the begin token, else the end token.
    """
    begin: int | None = tokenizer.bos_token_id
    return tokenizer.eos_token_id if begin is None else begin


class TurnVectorizer:
    """
    Turns as token ids, each tokenized by itself, so that what was said earlier is read
    alike whatever is said later.

    What a tokenizer puts before every text (Llama: the begin token) comes first.
    """

    def __init__(self, tokenizer: Any, form: str):
        if tokenizer.eos_token_id is None:
            raise UserError(
                f'judge: the tokenizer has no end token, which {form} needs'
            )
        self.tokenizer = tokenizer
        self.form = form
        self.lead = (*own_lead(tokenizer), *self._ids(FORMS[form].lead, ''))
        self.known: dict[tuple[str, str], tuple[int, ...]] = {}

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of the turns; none are cut here.
        """
        shape = FORMS[self.form].turn
        said = [token for text in utterances for token in self._seen(shape, text)]
        return [*self.lead, *said], 0

    def continuation(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply.
        """
        return self._seen(FORMS[self.form].reply, text)

    def _seen(self, shape: str, text: str) -> tuple[int, ...]:
        if (shape, text) not in self.known:
            if len(self.known) > 10_000:
                self.known.clear()
            self.known[shape, text] = self._ids(shape, text)
        return self.known[shape, text]

    def _ids(self, shape: str, text: str) -> tuple[int, ...]:
        words, end, _ = shape.partition('{eos}')
        whole = words.replace('{}', text)
        # one that types an end token out does not get one
        ids = self.tokenizer.encode(
            whole, add_special_tokens=False, split_special_tokens=True
        )
        return (*ids, *([self.tokenizer.eos_token_id] if end else []))


def own_lead(tokenizer: Any) -> tuple[int, ...]:
    """
    Return the special tokens that a tokenizer puts before every text.
    """
    ids = tokenizer('a')['input_ids']
    plain = tokenizer('a', add_special_tokens=False)['input_ids']
    special = set(tokenizer.all_special_ids)
    first = next((i for i, t in enumerate(ids) if t not in special), len(ids))
    return tuple(ids[:first]) if len(ids) > len(plain) else ()


def judge_signature(
    folder: Path,
    network: Any,
    reader: TurnVectorizer,
    limit: int | None,
    quantisation: str | None,
) -> str:
    """
    Return what fixes the judge's numbers; where its files lie is no part of it.
    """
    weights = hub.cached_weights(str(folder))
    files = [*hub.weight_files(weights), *hub.companions(folder)] if weights else []
    return signature_line(
        {
            'model': type(network).__name__,
            'content': content_id([(path.name, sha256(path)) for path in files]),
            'form': reader.form,
            'positions': limit,
            'cut': SIDE,
            'reserved': RESERVED,
            'dtype': str(network.dtype).removeprefix('torch.'),
            'quantised': quantisation or 'no',
            'attention': network.config._attn_implementation,
        }
    )
