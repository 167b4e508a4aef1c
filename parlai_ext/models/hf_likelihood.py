"""
A Hugging Face model as a `LanguageModel`; it reads turns as its own agent does.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import System
from parlai_ext.core.options import options_from_opt
from parlai_ext.core.signature import signature_line
from parlai_ext.models.likelihood import seq2seq
from parlai_ext.models.likelihood.causal import (
    Causal,
    check_causal,
    max_positions,
    reserved_positions,
)
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.systems import hub
from parlai_ext.systems.families import HubFamily, family_of
from parlai_ext.systems.hub import PREFIX, ModelOptions
from parlai_ext.systems.pretrained import (
    BOUNDLESS,
    chosen_device,
    loading_arguments,
    read,
    surrounding_tokens,
)

FORMATS = ('auto', 'plain')
# options of ext:hf that a judge has, too: its model and its input
OPTIONS = (
    'hf_dtype',
    'hf_quantisation',
    'hf_format',
    'hf_model',
    'hf_revision',
    'hf_device',
    'hf_device_map',
    'hf_trust_code',
    'hf_turn_separator',
    'hf_context_tokens',
)
# options that change only how it would chat, which a judge does not do
CHAT_OPTIONS = ('hf_system_role', 'hf_template_args', 'hf_date')


def load_hf_judge(
    system: System, *, dtype: str | None, no_cuda: bool, fp16: bool | None, tokens: int
) -> Causal | EncoderDecoder:
    """
    Return a Hugging Face model as a `LanguageModel`. Code in its folder is never run.

    :param system: an ``ext:hf`` or a ``hugging_face/dialogpt``; it is downloaded if it
        is missing.
    :param dtype: of weights and sums, instead of the one in the system's options.
    :param fp16: half precision on a GPU, unless the options name a precision.
    :param tokens: the most tokens in one forward pass, padding counted.
    :raises UserError: if there is no such model, or it cannot judge.
    """
    opt = {**system.opt, **({'hf_dtype': dtype} if dtype else {})}
    try:
        device_opt = {**opt, 'no_cuda': no_cuda}
        device = chosen_device(options_from_opt(ModelOptions, device_opt, PREFIX))
        if fp16 and device.type == 'cuda':
            opt.setdefault('hf_dtype', 'float16')
        system = System(system.name, opt)
        family = check_options(system)
        options = options_from_opt(ModelOptions, opt, PREFIX)
        arguments = loading_arguments(options, device)
        folder = family.fetched_weights(system.opt).parent
        allowed = ', which no judge may run'
        config, tokenizer, model = read(folder, device, arguments, allowed=allowed)
        if config.is_encoder_decoder:
            return _encoder_decoder(system, folder, tokenizer, model, tokens)
        truncate = family.text_truncate
        return _causal(system, folder, tokenizer, model, tokens, truncate)
    except UserError as error:
        label = system.opt.get('hf_model') or system.opt.get('model') or system.name
        raise UserError(f'judge {label}: {error}') from None


def check_options(system: System) -> HubFamily:
    """
    Return the family of a judge.

    :raises UserError: for options that a judge cannot have, or if its models cannot
        judge.
    """
    written = system.opt.get('hf_format') or 'auto'
    if written == 'chat':
        raise UserError('hf_format: chat: a judge reads turns as they are; plain')
    if written not in FORMATS:
        raise UserError(f'hf_format: {written!r} is none of {", ".join(FORMATS)}')
    for key in system.opt:
        if key.startswith('hf_') and key not in (*OPTIONS, *CHAT_OPTIONS):
            raise UserError(f'{key}: there is no such option; {nearest(key, OPTIONS)}')
    if hub.truthy(system.opt.get('hf_trust_code')):
        raise UserError('hf_trust_code: a judge that brings code of its own is not run')
    family = family_of(system.opt)
    if not isinstance(family, HubFamily) or not family.can_judge:
        raise UserError('model: no agent that can judge; ext:hf would do')
    return family


def _causal(
    system: System,
    folder: Path,
    tokenizer: Any,
    network: Any,
    tokens: int,
    truncate: int | None,
) -> Causal:
    """
    Return a decoder-only model as a judge, after a check that it can read trees.

    :param truncate: where ParlAI's agent of its family cuts by default.
    """
    opt = system.opt
    most = smallest_limit(max_positions(network.config), tokenizer.model_max_length)
    if truncate is not None:
        asked = int(opt.get('text_truncate') or opt.get('truncate') or -1)
        limit: int | None = asked if asked > 0 else truncate
    else:
        limit = opt.get('hf_context_tokens')
    free = most and most - reserved_positions(most)
    # ParlAI's agents, which have a `text_truncate`, cut within a turn
    turns = TurnVectorizer(
        tokenizer,
        opt.get('hf_turn_separator') or None,
        truncate is None,
        smallest_limit(limit, free),
    )
    reads = {
        'turns': 'end token' if turns.separator is None else repr(turns.separator),
        'cut': 'left, whole turns' if turns.whole_turns else 'left',
        'text_truncate': turns.limit,
        'positions': most,
    }
    begin = tokenizer.bos_token_id
    return check_causal(
        Causal(
            network,
            turns,
            judge_signature(folder, network, reads, system),
            start=tokenizer.eos_token_id if begin is None else begin,
            positions=most,
            tokens=tokens,
        )
    )


def smallest_limit(*limits: Any) -> int | None:
    """
    Return the smallest of these numbers of tokens; `None` if nothing limits them.
    """
    known = (int(limit) for limit in limits if limit)
    return min((limit for limit in known if limit < BOUNDLESS), default=None)


def _encoder_decoder(
    system: System, folder: Path, tokenizer: Any, network: Any, tokens: int
) -> EncoderDecoder:
    """
    Return an encoder-decoder as a judge, after a check of its numbers.
    """
    positions = max_positions(network.config)
    limit = smallest_limit(
        system.opt.get('hf_context_tokens'), positions, tokenizer.model_max_length
    )
    separator = system.opt.get('hf_turn_separator') or '\n'
    reads = {
        'turns': repr(separator),
        'cut': 'left, whole turns',
        'text_truncate': limit,
    }
    start = (decoder_start(network), *surrounding_tokens(tokenizer)[0])
    return EncoderDecoder(
        seq2seq.check_seq2seq(seq2seq.Seq2Seq(network, start)),
        JoinedTurns(tokenizer, separator, limit),
        judge_signature(folder, network, reads, system),
        tokens,
    )


def decoder_start(network: Any) -> int:
    """
    Return the token that the decoder reads first.
    """
    config = network.config
    for name in ('decoder_start_token_id', 'bos_token_id'):
        token = getattr(config, name, None)
        if token is not None and config.pad_token_id is not None:
            return int(token)
    raise UserError('its config names no decoder_start_token_id and pad_token_id')


def judge_signature(
    folder: Path, network: Any, reads: Mapping[str, Any], system: System
) -> str:
    """
    Return the signature of a judge: one line that holds all that its numbers depend on,
    and no paths.

    :param reads: how turns become tokens.
    """
    return signature_line(
        {
            'model': type(network).__name__,
            'content': hub.files_hash(folder),
            **reads,
            'dtype': str(network.dtype).removeprefix('torch.'),
            'quantised': system.opt.get('hf_quantisation') or 'none',
            'attention': network.config._attn_implementation,
        }
    )


# --- turns as tokens, cut as the model's agent cuts them ------------------------------

KNOWN_TEXTS = 10_000  # texts whose tokens are remembered


class TurnVectorizer:
    """
    Turns as token ids. Each turn is tokenized by itself, so that later turns do not
    change the tokens of earlier ones.

    The tokens that a tokenizer puts before every text (Llama: the begin token) come
    first.
    """

    def __init__(
        self,
        tokenizer: Any,
        separator: str | None = None,
        whole_turns: bool = True,
        limit: int | None = None,
    ):
        if tokenizer.eos_token_id is None and separator is None:
            raise UserError(
                'hf_turn_separator: the tokenizer has no end token; give a separator, '
                'such as a new line'
            )
        self.tokenizer = tokenizer
        self.separator, self.whole_turns, self.limit = separator, whole_turns, limit
        self.lead, _ = surrounding_tokens(tokenizer)
        self.continuation = lru_cache(KNOWN_TEXTS)(self._ids)

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of the turns that are kept, and how many were cut.
        """
        turns = [self.continuation(text) for text in utterances]
        tokens = [token for turn in turns for token in turn]
        if self.limit is None:
            return [*self.lead, *tokens], 0
        room = max(1, self.limit - len(self.lead))
        kept = min(len(tokens), room)
        if self.whole_turns and len(tokens) > room:
            whole = 0
            for turn in reversed(turns):
                if whole + len(turn) > room:
                    break
                whole += len(turn)
            kept = whole or room
        cut = len(tokens) - kept
        return [*self.lead, *tokens[cut:]], cut

    def _ids(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of one turn, its end included.
        """
        end = self.separator
        # a text that spells an end token out does not get that token
        ids = self.tokenizer.encode(
            text + (end or ''), add_special_tokens=False, split_special_tokens=True
        )
        return (*ids, *([self.tokenizer.eos_token_id] if end is None else []))


class JoinedTurns:
    """
    Turns joined by a separator and tokenized as one text, as ``ext:hf`` gives them to
    an encoder-decoder.

    A context that is too long loses whole turns; a single turn loses its beginning.
    """

    def __init__(self, tokenizer: Any, separator: str, limit: int | None):
        self.tokenizer = tokenizer
        self.separator = separator
        self.limit = limit
        self.lead = len(surrounding_tokens(tokenizer)[0])
        self.continuation = lru_cache(KNOWN_TEXTS)(self._reply_ids)

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

    def _reply_ids(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply, its end token included.

        The tokens that the tokenizer puts before a text are left out, since they are
        among the decoder's start tokens.
        """
        return tuple(self._ids(text)[self.lead :])

    def _ids(self, text: str) -> list[int]:
        ids = self.tokenizer(text, split_special_tokens=True)['input_ids']
        end = self.tokenizer.eos_token_id
        return [*ids, *([] if end is None or ids[-1:] == [end] else [end])]
