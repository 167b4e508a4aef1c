"""
How a reply is drawn: ParlAI's names for it, as transformers' `generate` takes them.

What a row gets depends on its own tokens, never on its neighbours or its padding.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
)

from parlai_ext.core.errors import UserError
from parlai_ext.core.options import option
from parlai_ext.systems.chat.messages import REPLY_MAX_TOKENS, ends_at

INFERENCE = ('greedy', 'beam', 'topk', 'nucleus', 'sample')
TOPK, TOPP = 10, 0.9  # ParlAI's


@dataclass(frozen=True)
class DecodingOptions:
    """
    How a reply is drawn. `None` stands for the model's own `generation_config.json`.
    """

    inference: str = option(
        'greedy',
        choices=INFERENCE,
        help='sample = as the model itself was made to be sampled',
    )
    beam_size: int | None = option(None, help='hypotheses of a beam search')
    beam_min_length: int | None = option(
        None, low=0, help='tokens of a reply, at least'
    )
    beam_block_ngram: int | None = option(
        None, help='no n-gram of this size twice in a reply; 0 or less: no blocking'
    )
    beam_length_penalty: float | None = option(
        None, help="the exponent of the length, as in transformers' length_penalty"
    )
    topk: int | None = option(None, low=1, help=f'topk: {TOPK}')
    topp: float | None = option(None, above=0, high=1, help=f'nucleus: {TOPP}')
    temperature: float | None = option(None, above=0, help='1 leaves the chances alone')
    repetition_penalty: float | None = option(
        None,
        above=0,
        help='over 1: words that were said, also by the other, get less likely',
    )
    reply_max_tokens: int = option(
        REPLY_MAX_TOKENS, low=1, help='a reply ends after so many tokens'
    )


def generation_config(
    models_config: GenerationConfig, options: DecodingOptions
) -> GenerationConfig:
    """
    Return the model's generation config with the options over it.

    :raises UserError: ``option: what is wrong``.
    """
    config = copy.deepcopy(models_config)
    config.update(**_search_settings(models_config, options))
    if config.do_sample:
        config.update(**_sampling_settings(models_config, options))
    config.max_new_tokens = options.reply_max_tokens
    config.max_length, config.max_time = None, None
    config.num_return_sequences, config.return_dict_in_generate = 1, False
    if options.beam_min_length is not None:
        config.min_new_tokens, config.min_length = options.beam_min_length, 0
    if options.beam_block_ngram is not None:
        config.no_repeat_ngram_size = max(0, options.beam_block_ngram)
    if options.beam_length_penalty is not None:
        config.length_penalty = options.beam_length_penalty
    if options.repetition_penalty is not None:
        config.repetition_penalty = options.repetition_penalty
    return config


def _search_settings(
    models_config: GenerationConfig, options: DecodingOptions
) -> dict[str, Any]:
    """
    Return the config values that choose between greedy search, beam search and
    sampling.

    :param models_config: the model's own generation config.
    :raises UserError: for a beam search without a size.
    """
    if options.inference != 'beam':
        return {'do_sample': options.inference != 'greedy', 'num_beams': 1}
    size = options.beam_size
    if size is None and (models_config.num_beams or 1) > 1:
        size = models_config.num_beams
    if size is None or size < 2:
        raise UserError(f'beam_size: {size}; inference beam needs 2 or more')
    return {'do_sample': False, 'num_beams': size}


def _sampling_settings(
    models_config: GenerationConfig, options: DecodingOptions
) -> dict[str, Any]:
    """
    Return the config values that shape the distribution from which tokens are drawn.

    Inference ``sample`` leaves the model's own values alone where no option is given;
    ``topk`` and ``nucleus`` turn every other restriction of the model off.

    :param models_config: the model's own generation config.
    """
    inference = options.inference
    values: dict[str, Any] = {}
    if inference != 'sample':
        names = ('min_p', 'typical_p', 'epsilon_cutoff', 'eta_cutoff', 'top_h')
        values = {
            name: None
            for name in names
            if getattr(models_config, name, None) is not None
        }
        values |= {'top_k': 0, 'top_p': 1.0, 'temperature': 1.0}
    if inference == 'topk' or (inference == 'sample' and options.topk is not None):
        values['top_k'] = TOPK if options.topk is None else options.topk
    if inference == 'nucleus' or (inference == 'sample' and options.topp is not None):
        values['top_p'] = TOPP if options.topp is None else options.topp
    if options.temperature is not None:
        values['temperature'] = options.temperature
    return values


@dataclass(frozen=True)
class Penalties:
    """
    What a reply may not repeat: a repetition penalty, and the size of n-grams.
    """

    repetition: float = 1.0
    ngram: int = 0


def without_penalties(config: GenerationConfig) -> tuple[GenerationConfig, Penalties]:
    """
    Return a causal model's config with its penalties switched off, and the penalties.

    transformers looks for repetitions in prompt and padding alike, and counts both
    for the least length; `penalty_processors` leaves the padding out.
    """
    config = copy.deepcopy(config)
    ngram = config.no_repeat_ngram_size or 0
    penalties = Penalties(config.repetition_penalty or 1.0, ngram)
    config.repetition_penalty, config.no_repeat_ngram_size = 1.0, 0
    config.min_length = 0
    return config, penalties


def penalty_processors(penalties: Penalties, mask: torch.Tensor) -> LogitsProcessorList:
    """
    Return processors for the n-grams of a reply and the repetitions of all but padding.

    :param mask: one row a prompt, 0 where it is padding.
    """
    processors = LogitsProcessorList()
    if penalties.repetition != 1.0:
        inner: LogitsProcessor = RepetitionPenaltyLogitsProcessor(penalties.repetition)
        processors.append(Unpadded(inner, mask))
    if penalties.ngram > 0:
        inner = NoRepeatNGramLogitsProcessor(penalties.ngram)
        processors.append(InReply(inner, mask.shape[1]))
    return processors


@dataclass(eq=False)
class InReply(LogitsProcessor):
    """
    A processor that sees the reply alone.
    """

    inner: LogitsProcessor
    start: int

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        """
        Return the next token's scores as the inner processor changes them, which sees
        the reply without its prompt.
        """
        return self.inner(input_ids[:, self.start :], scores)


@dataclass(eq=False)
class Unpadded(LogitsProcessor):
    """
    A processor of the set of tokens that were there, the padding aside.
    """

    inner: LogitsProcessor
    mask: torch.Tensor

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        """
        Return the next token's scores as the inner processor changes them, which sees a
        real token in the place of padding.
        """
        width = self.mask.shape[1]
        beams = input_ids.shape[0] // self.mask.shape[0]
        mask = self.mask.repeat_interleave(beams, 0).to(input_ids.device).bool()
        last = input_ids[:, width - 1 : width]  # padding is on the left
        seen = input_ids.clone()
        seen[:, :width] = torch.where(mask, seen[:, :width], last)
        return self.inner(seen, scores)


@dataclass(eq=False)
class AtStopString(StoppingCriteria):
    """
    Ends a row when its reply holds a stop string; the others go on.
    """

    tokenizer: Any
    stop: Sequence[str]
    start: int

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """
        Return, for each row, True if its reply holds a stop string.
        """
        rows = input_ids[:, self.start :].tolist()
        texts = self.tokenizer.batch_decode(rows)
        over = [ends_at(text, self.stop) is not None for text in texts]
        return torch.tensor(over, device=input_ids.device)


def reply_tokens(
    tokenizer: Any, ids: Sequence[int], ends: set[int], stop: Sequence[str]
) -> list[int]:
    """
    Return the tokens of a reply: up to an end token, or to the token that completed a
    stop string; what follows is padding.
    """
    length = next((i for i, token in enumerate(ids) if token in ends), len(ids))
    reply = list(ids[:length])
    if not stop:
        return reply

    def has_stop(k: int) -> bool:
        return ends_at(tokenizer.decode(reply[:k]), stop) is not None

    if has_stop(length):
        length = next(k for k in range(1, length + 1) if has_stop(k))
    return reply[:length]
