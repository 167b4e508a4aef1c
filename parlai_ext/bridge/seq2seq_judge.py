"""
A Hugging Face encoder-decoder (T5, BART and the like) as a `Likelihood`.

It reads turns as ``ext:hf`` puts them to such a model: joined by a separator, between
the tokenizer's own tokens; a context too long loses whole turns, of a single one the
beginning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from parlai_ext.bridge import hub
from parlai_ext.bridge.causal_judge import (
    BOUNDLESS,
    checked_options,
    chosen_device,
    loading_arguments,
    named,
    refuse_kernels,
)
from parlai_ext.bridge.causal_turns import KNOWN, own_lead
from parlai_ext.bridge.content import sha256
from parlai_ext.compat.libraries import without_bars
from parlai_ext.errors import UserError
from parlai_ext.likelihood.budget import TOKENS, Budget
from parlai_ext.likelihood.causal_checks import positions
from parlai_ext.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.likelihood.memory import is_out_of_memory
from parlai_ext.likelihood.seq2seq import Seq2Seq, checked
from parlai_ext.records import System, content_id
from parlai_ext.signature import signature_line

OURS = {'local_files_only': True, 'trust_remote_code': False}


def is_seq2seq(system: System) -> bool:
    """
    Return whether a Hugging Face judge is an encoder-decoder; downloads it.
    """
    try:
        config = AutoConfig.from_pretrained(folder_of(system), **OURS)
    except (OSError, ValueError, UserError):
        return False  # whoever loads it says what is wrong
    return bool(config.is_encoder_decoder)


def folder_of(system: System) -> Path:
    """
    Return the folder of a judge's files.
    """
    repo = hub.repository(system)
    assert repo is not None
    return hub.fetched_weights(repo, hub.revision(system)).parent


def load_seq2seq_judge(
    system: System,
    *,
    dtype: str | None = None,
    no_cuda: bool = False,
    fp16: bool | None = None,
    tokens: int = TOKENS,
) -> EncoderDecoder:
    """
    Return a Hugging Face encoder-decoder as a `Likelihood`. No code of its own is run.

    :param system: an ``ext:hf``.
    :param dtype: of weights and sums, instead of what the system's options say.
    :param fp16: half precision on a GPU, unless the options name a precision.
    :param tokens: how many go through the judge at once, padding counted.
    :raises UserError: when it cannot be read, or cannot judge.
    """
    opt = {**system.opt, **({'hf_dtype': dtype} if dtype else {})}
    try:
        where = chosen_device(opt, no_cuda)
        if fp16 and where.type == 'cuda':
            opt.setdefault('hf_dtype', 'float16')
        return _loaded(System(system.name, opt), where, tokens)
    except UserError as error:
        raise UserError(f'judge {named(system)}: {error}') from None


def _loaded(system: System, device: torch.device, tokens: int) -> EncoderDecoder:
    checked_options(system)
    extra = loading_arguments(system.opt, device)
    folder = folder_of(system)
    tokenizer, network = read(folder, extra)
    if not {'device_map', 'quantization_config'} & set(extra):
        network = network.to(device)
    network = network.eval().requires_grad_(False)
    most = (system.opt.get('hf_context_tokens'), positions(network.config))
    limits = [int(n) for n in (*most, tokenizer.model_max_length) if n]
    limit = min((n for n in limits if n < BOUNDLESS), default=None)
    separator = system.opt.get('hf_turn_separator') or '\n'
    reader = JoinedTurns(tokenizer, separator, limit)
    return EncoderDecoder(
        checked(Seq2Seq(network, (start_of(network), *own_lead(tokenizer)))),
        reader,
        judge_signature(folder, network, reader, system),
        Budget(tokens),
    )


def read(folder: Path, extra: Any) -> tuple[Any, Any]:
    """
    Return tokenizer and model of a folder.

    :raises UserError: one line, for whatever is wrong with them.
    """
    try:
        config = AutoConfig.from_pretrained(folder, **OURS)
        refuse_kernels(config)
        tokenizer = AutoTokenizer.from_pretrained(folder, **OURS)
        with without_bars():
            network, info = AutoModelForSeq2SeqLM.from_pretrained(
                folder, config=config, output_loading_info=True, **OURS, **extra
            )
    except Exception as e:
        if isinstance(e, UserError) or is_out_of_memory(e):
            raise
        why = ' '.join(str(e).split()) or type(e).__name__
        raise UserError(f'cannot be read: {why[:200]}') from e
    if missing := sorted(info['missing_keys']):
        raise UserError(
            f'its weights lack {len(missing)} of the model, {missing[0]} among them'
        )
    return tokenizer, network


def start_of(network: Any) -> int:
    """
    Return the token that the decoder reads first.
    """
    config = network.config
    for name in ('decoder_start_token_id', 'bos_token_id'):
        found = getattr(config, name, None)
        if found is not None and config.pad_token_id is not None:
            return int(found)
    raise UserError('its config names no decoder_start_token_id and pad_token_id')


class JoinedTurns:
    """
    A `Vectorizer`: turns joined by a separator, as the tokenizer writes one text.
    """

    def __init__(self, tokenizer: Any, separator: str, limit: int | None):
        self.tokenizer = tokenizer
        self.separator = separator
        self.limit = limit
        self.lead = len(own_lead(tokenizer))
        self.known: dict[str, tuple[int, ...]] = {}

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of the turns that are kept, and how many were cut.
        """
        whole = self._ids(self.separator.join(utterances))
        kept, first = whole, 0
        while self.limit and len(kept) > self.limit and first + 1 < len(utterances):
            first += 1
            kept = self._ids(self.separator.join(utterances[first:]))
        if self.limit and len(kept) > self.limit:
            room = max(1, self.limit - self.lead)
            kept = [*kept[: self.lead], *kept[-room:]]
        return kept, len(whole) - len(kept)

    def continuation(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply, its end token included.

        What the tokenizer puts before a text, the decoder reads before it is asked.
        """
        if text not in self.known:
            if len(self.known) >= KNOWN:
                self.known.clear()
            self.known[text] = tuple(self._ids(text)[self.lead :])
        return self.known[text]

    def _ids(self, text: str) -> list[int]:
        ids = self.tokenizer(text, split_special_tokens=True)['input_ids']
        end = self.tokenizer.eos_token_id
        return [*ids, *([] if end is None or ids[-1:] == [end] else [end])]


def judge_signature(
    folder: Path, network: Any, reader: JoinedTurns, system: System
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
            'turns': repr(reader.separator),
            'cut': 'left, whole turns',
            'text_truncate': reader.limit,
            'dtype': str(network.dtype).removeprefix('torch.'),
            'quantised': system.opt.get('hf_quantisation') or 'none',
            'attention': network.config._attn_implementation,
        }
    )
