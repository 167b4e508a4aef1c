"""
How a reply is drawn: ParlAI's names for it, as transformers' `generate` takes them.

What a row gets depends on its own tokens, never on its neighbours or its padding.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
)

from parlai_ext.core.errors import UserError
from parlai_ext.systems.chat.messages import ends_at

INFERENCE = ('greedy', 'beam', 'topk', 'nucleus', 'sample')
TOPK, TOPP = 10, 0.9  # ParlAI's


def add_decoding_options(parser: Any) -> None:
    """
    Add the group of options to a `ParlaiParser`.

    A default of `None` is the model's own `generation_config.json`.
    """
    group = parser.add_argument_group('Decoding')
    group.add_argument(
        '--inference',
        choices=INFERENCE,
        default='greedy',
        help='sample = as the model itself was made to be sampled',
    )
    group.add_argument('--beam-size', type=int, default=None)
    group.add_argument(
        '--beam-min-length', type=int, default=None, help='tokens of a reply, at least'
    )
    group.add_argument(
        '--beam-block-ngram',
        type=int,
        default=None,
        help='no n-gram of this size twice in a reply; 0 or less: no blocking',
    )
    group.add_argument(
        '--beam-length-penalty',
        type=float,
        default=None,
        help="the exponent of the length, as in transformers' length_penalty",
    )
    group.add_argument('--topk', type=int, default=None, help=f'topk: {TOPK}')
    group.add_argument('--topp', type=float, default=None, help=f'nucleus: {TOPP}')
    group.add_argument('--temperature', type=float, default=None)
    group.add_argument(
        '--repetition-penalty',
        type=float,
        default=None,
        help='over 1: words that were said, also by the other, get less likely',
    )


def decoding(
    own: GenerationConfig, opt: Mapping[str, Any], max_tokens: int
) -> GenerationConfig:
    """
    Return the model's generation config with the options over it.

    :raises UserError: ``option: what is wrong``.
    """
    config = copy.deepcopy(own)
    config.update(**_search(own, opt))
    if config.do_sample:
        config.update(**_sampling(own, opt))
    config.max_new_tokens, config.max_length, config.max_time = max_tokens, None, None
    config.num_return_sequences, config.return_dict_in_generate = 1, False
    if opt.get('beam_min_length') is not None:
        least = _least(opt, 'beam_min_length', 0)
        config.min_new_tokens, config.min_length = least, 0
    if opt.get('beam_block_ngram') is not None:
        config.no_repeat_ngram_size = max(0, opt['beam_block_ngram'])
    if opt.get('beam_length_penalty') is not None:
        config.length_penalty = opt['beam_length_penalty']
    if opt.get('repetition_penalty') is not None:
        config.repetition_penalty = _above_0(opt, 'repetition_penalty')
    return config


def _search(own: GenerationConfig, opt: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return what kind of search it is.
    """
    inference = opt.get('inference') or 'greedy'
    if inference not in INFERENCE:
        raise UserError(f'inference: {inference!r} is none of {", ".join(INFERENCE)}')
    found = {'do_sample': inference not in ('greedy', 'beam'), 'num_beams': 1}
    if inference == 'beam':
        size = opt.get('beam_size')
        if size is None and (own.num_beams or 1) > 1:
            size = own.num_beams
        if size is None or size < 2:
            raise UserError(f'beam_size: {size}; inference beam needs 2 or more')
        found['num_beams'] = size
    return found


def _sampling(own: GenerationConfig, opt: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return from what a word is drawn.
    """
    inference = opt['inference']
    found: dict[str, Any] = {}
    if inference != 'sample':
        names = ('min_p', 'typical_p', 'epsilon_cutoff', 'eta_cutoff', 'top_h')
        found = {name: None for name in names if getattr(own, name, None) is not None}
        found |= {'top_k': 0, 'top_p': 1.0, 'temperature': 1.0}
    if inference == 'topk' or (inference == 'sample' and opt.get('topk') is not None):
        found['top_k'] = _least(opt, 'topk', 1, TOPK)
    if inference == 'nucleus' or (
        inference == 'sample' and opt.get('topp') is not None
    ):
        found['top_p'] = _above_0(opt, 'topp', TOPP)
        if found['top_p'] > 1:
            raise UserError(f'topp: {found["top_p"]} is above 1')
    if opt.get('temperature') is not None:
        found['temperature'] = _above_0(opt, 'temperature')
    return found


def _above_0(opt: Mapping[str, Any], key: str, default: float = 1.0) -> float:
    value = opt.get(key)
    value = default if value is None else float(value)
    if not value > 0:
        raise UserError(f'{key}: {value} is not above 0')
    return value


def _least(opt: Mapping[str, Any], key: str, least: int, default: int = 0) -> int:
    value = opt.get(key)
    value = default if value is None else int(value)
    if value < least:
        raise UserError(f'{key}: {value} is less than {least}')
    return value


def without_prompt(config: GenerationConfig) -> tuple[GenerationConfig, dict[str, Any]]:
    """
    Return a causal model's config without what would count its padding as words, and
    what that was.

    transformers looks for repetitions in prompt and padding alike, and counts both
    for the least length.
    """
    config = copy.deepcopy(config)
    found = {
        'penalty': config.repetition_penalty or 1.0,
        'ngram': config.no_repeat_ngram_size or 0,
    }
    config.repetition_penalty, config.no_repeat_ngram_size = 1.0, 0
    config.min_length = 0
    return config, found


def processors(over: Mapping[str, Any], mask: torch.Tensor) -> LogitsProcessorList:
    """
    Return what `without_prompt` took: over a reply (n-grams), over all but the padding.

    :param mask: one row a prompt, 0 where it is padding.
    """
    found = LogitsProcessorList()
    if over['penalty'] != 1.0:
        found.append(Unpadded(RepetitionPenaltyLogitsProcessor(over['penalty']), mask))
    if over['ngram'] > 0:
        found.append(
            InReply(NoRepeatNGramLogitsProcessor(over['ngram']), mask.shape[1])
        )
    return found


class InReply(LogitsProcessor):
    """
    A processor that sees the reply alone.
    """

    def __init__(self, inner: LogitsProcessor, start: int):
        self.inner, self.start = inner, start

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        """
        Return the changed scores.
        """
        return self.inner(input_ids[:, self.start :], scores)


class Unpadded(LogitsProcessor):
    """
    A processor of the set of tokens that were there, the padding aside.
    """

    def __init__(self, inner: LogitsProcessor, mask: torch.Tensor):
        self.inner, self.mask = inner, mask

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        """
        Return the changed scores.
        """
        width = self.mask.shape[1]
        beams = input_ids.shape[0] // self.mask.shape[0]
        mask = self.mask.repeat_interleave(beams, 0).to(input_ids.device).bool()
        last = input_ids[:, width - 1 : width]  # padding is on the left
        seen = input_ids.clone()
        seen[:, :width] = torch.where(mask, seen[:, :width], last)
        return self.inner(seen, scores)


class AtStopString(StoppingCriteria):
    """
    Ends a row when its reply holds a stop string; the others go on.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str], start: int):
        self.tokenizer, self.stop, self.start = tokenizer, tuple(stop), start

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """
        Return one truth value a row.
        """
        rows = input_ids[:, self.start :].tolist()
        texts = self.tokenizer.batch_decode(rows)
        over = [ends_at(text, self.stop) is not None for text in texts]
        return torch.tensor(over, device=input_ids.device)


def stopping(tokenizer: Any, stop: Sequence[str], start: int) -> StoppingCriteriaList:
    """
    Return the criteria for stop strings; none, when there are none.
    """
    here = [AtStopString(tokenizer, stop, start)] if stop else []
    return StoppingCriteriaList(here)


def said(
    tokenizer: Any, ids: Sequence[int], ends: set[int], stop: Sequence[str]
) -> list[int]:
    """
    Return the tokens of a reply: up to an end token, or to the token that completed a
    stop string; what follows is padding.
    """
    n = next((i for i, one in enumerate(ids) if one in ends), len(ids))
    kept = list(ids[:n])
    if not stop or ends_at(tokenizer.decode(kept), stop) is None:
        return kept
    lengths = range(1, len(kept) + 1)
    whole = next(
        k for k in lengths if ends_at(tokenizer.decode(kept[:k]), stop) is not None
    )
    return kept[:whole]
