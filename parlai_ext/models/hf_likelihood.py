"""
A Hugging Face model as a `LanguageModel`; it reads turns as its own agent does.

Decoders of encoder-decoders take no mask of a tree, so a tree is read as its paths, one
row each. The keys and values of a context are still computed once, and nodes that paths
share go through the output layer once.
"""

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

from parlai_ext.core import (
    DATA_ERRORS,
    JsonObject,
    Question,
    System,
    UserError,
    errors_about,
    options_from_opt,
    options_of,
    require_known,
    shortened,
    signature_line,
)
from parlai_ext.engines import Machine
from parlai_ext.models.likelihood import (
    Causal,
    EncodedContexts,
    EncoderDecoder,
    TreeBatch,
    Vectorizer,
    check_causal,
    reserved_positions,
    select_rows,
)
from parlai_ext.models.questions import plain_ids
from parlai_ext.systems import hub
from parlai_ext.systems.families import HubFamily
from parlai_ext.systems.hf import FormOptions, padded_rows
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.pretrained import (
    chosen_device,
    loading_arguments,
    max_positions,
    read,
    smallest_limit,
    surrounding_tokens,
)

FORMATS = ('auto', 'plain')
# options of ext:hf that a judge has, too; some change only how it would chat
OPTIONS = [
    one.dest()
    for one in (*options_of(ModelOptions).values(), *options_of(FormOptions).values())
    if one.name != 'prompt_start'
]


def load_hf_judge(
    system: System, family: HubFamily, machine: Machine
) -> Causal | EncoderDecoder:
    """
    Return a Hugging Face model as a `LanguageModel`. Code in its folder is never run.

    :param system: an ``ext:hf`` or a ``hugging_face/dialogpt``; it is downloaded if it
        is missing.
    :param machine: in half precision on a GPU, unless the options name a precision.
    :raises UserError: if there is no such model, or it cannot judge.
    """
    opt = system.opt
    label = opt.get('hf_model') or opt.get('model') or system.name
    with errors_about(f'judge {label}'):
        options, device = checked_options(opt, family, machine)
        arguments = loading_arguments(options, device)
        folder = family.fetched_weights(opt).parent
        _, tokenizer, network = read(folder, device, arguments)
        turns = turn_reader(opt, tokenizer, network, family.text_truncate)
        # all that the numbers depend on, and no paths
        fields = {
            'model': type(network).__name__,
            'content': hub.files_hash(folder),
            **turns.signed,
            'dtype': str(network.dtype).removeprefix('torch.'),
            'quantised': options.quantisation,
            'attention': network.config._attn_implementation,
        }
        signature, tokens = signature_line(fields), machine.tokens
        if network.config.is_encoder_decoder:
            return check_seq2seq(Seq2Seq(network, turns, signature, tokens))
        begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
        judge = Causal(
            network,
            turns,
            signature,
            start=end if begin is None else begin,
            positions=max_positions(network.config, tokenizer),
            tokens=tokens,
        )
        return check_causal(judge)


def checked_options(
    opt: JsonObject, family: HubFamily, machine: Machine
) -> tuple[ModelOptions, torch.device]:
    """
    Return how a judge is loaded, and where.

    :raises UserError: for options that a judge cannot have, and for a family whose
        models cannot judge.
    """
    given = {**opt, 'no_cuda': machine.no_cuda}
    options = options_from_opt(ModelOptions, given)
    device = chosen_device(options)
    written = str(opt.get('hf_format') or 'auto')
    if written == 'chat':
        raise UserError('hf_format: chat: a judge reads turns as they are; plain')
    require_known(written, FORMATS, f'hf_format: {written!r}')
    for key in opt:
        if key.startswith('hf_'):
            require_known(key, OPTIONS, f'{key}: there is no such option')
    if hub.trusts_code(opt):
        raise UserError('hf_trust_code: a judge that brings code of its own is not run')
    if not family.can_judge:
        raise UserError('model: no agent that can judge; ext:hf would do')
    if machine.fp16 and device.type == 'cuda' and 'hf_dtype' not in opt:
        options = replace(options, dtype='float16')
    return options, device


# --- turns as tokens, cut as the model's agent cuts them ------------------------------


class TurnReader(Vectorizer):
    """
    Turns as the token ids of a tokenizer.

    :param separator: ends each turn, or stands between them; `None`: the end token.
    :param limit: of the tokens of a context; a longer one loses its beginning.
    :param whole_turns: it loses whole turns; a single turn loses its beginning.
    :ivar lead: the tokens that the tokenizer puts before every text.
    :ivar signed: what the signature of a judge says of it.
    """

    def __init__(
        self,
        tokenizer: Any,
        separator: str | None = None,
        limit: int | None = None,
        whole_turns: bool = True,
    ):
        self.tokenizer, self.separator = tokenizer, separator
        self.limit, self.whole_turns = limit, whole_turns
        self.lead, _ = surrounding_tokens(tokenizer)
        super().__init__()
        self.signed: dict[str, Any] = {
            'turns': 'end token' if separator is None else repr(separator),
            'cut': 'left, whole turns' if whole_turns else 'left',
            'text_truncate': limit,
        }


class SeparateTurns(TurnReader):
    """
    Each turn is tokenized by itself, so that later turns do not change the tokens of
    earlier ones.

    The tokens that a tokenizer puts before every text (Llama: the begin token) come
    first.
    """

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
            # the last turns that fit, or the end of the last one
            sizes = accumulate(len(turn) for turn in reversed(turns))
            kept = max((size for size in sizes if size <= room), default=0) or room
        cut = len(tokens) - kept
        return [*self.lead, *tokens[cut:]], cut

    def reply_ids(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of one turn, its end included.
        """
        end = self.separator
        # a text that spells an end token out does not get that token
        ids = plain_ids(self.tokenizer, text + (end or ''), split_special_tokens=True)
        return (*ids, *([self.tokenizer.eos_token_id] if end is None else []))


class JoinedTurns(TurnReader):
    """
    Turns joined by a separator and tokenized as one text, as ``ext:hf`` gives them to
    an encoder-decoder.
    """

    separator: str

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
            room = max(1, self.limit - len(self.lead))
            kept = [*kept[: len(self.lead)], *kept[-room:]]
        return kept, len(whole) - len(kept)

    def reply_ids(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply. What the tokenizer puts before a text is left
        out: it is among the decoder's start tokens.
        """
        return tuple(self._ids(text)[len(self.lead) :])

    def _ids(self, text: str) -> list[int]:
        ids = self.tokenizer(text, split_special_tokens=True)['input_ids']
        end = self.tokenizer.eos_token_id
        return [*ids, *([] if end is None or ids[-1:] == [end] else [end])]


def turn_reader(
    opt: JsonObject, tokenizer: Any, network: Any, truncate: int | None
) -> TurnReader:
    """
    Return the reader of a model's turns.

    :param truncate: where ParlAI's agent of its family cuts by default; such agents cut
        within a turn.
    """
    form = options_from_opt(FormOptions, opt)
    separator, limit = form.turn_separator, form.context_tokens
    most = max_positions(network.config, tokenizer)
    if network.config.is_encoder_decoder:
        return JoinedTurns(tokenizer, separator or '\n', smallest_limit(limit, most))
    if tokenizer.eos_token_id is None and not separator:
        raise UserError(
            'hf_turn_separator: the tokenizer has no end token; give a separator, such '
            'as a new line'
        )
    if truncate is not None:
        asked, limit = opt.get('text_truncate') or opt.get('truncate'), truncate
        if isinstance(asked, str | int | float) and int(asked) > 0:
            limit = int(asked)
    limit = smallest_limit(limit, most and most - reserved_positions(most))
    turns = SeparateTurns(tokenizer, separator or None, limit, truncate is None)
    turns.signed['positions'] = most
    return turns


# --- encoder-decoders: T5, BART and the like ------------------------------------------

EXAMPLE = 6  # tokens of the context and of the reply that a model is tried with
TOLERANCE = {torch.float16: 0.05, torch.bfloat16: 0.5, torch.float64: 1e-9}


@dataclass(eq=False)
class SelectedRows:
    """
    A layer's keys and values of some contexts, copied only while the layer needs them.
    """

    whole: tuple[torch.Tensor, ...]
    rows: torch.Tensor

    @property
    def keys(self) -> torch.Tensor:
        return select_rows(self.rows, self.whole[0])

    @property
    def values(self) -> torch.Tensor:
        return select_rows(self.rows, self.whole[1])


class Seq2Seq(EncoderDecoder):
    """
    A Hugging Face model with an output layer `lm_head`. Its decoder reads what the
    tokenizer puts before every text after its first token, before a continuation.

    :raises UserError: when the config names no first token, or none for padding.
    """

    vectorizer: TurnReader

    def __init__(self, model: Any, *args: Any):
        super().__init__(model, *args)
        config = model.config
        names = ('decoder_start_token_id', 'bos_token_id')
        tokens = [getattr(config, name, None) for name in names]
        first = next((token for token in tokens if token is not None), None)
        if first is None or config.pad_token_id is None:
            raise UserError(f'its config names no {names[0]} and pad_token_id')
        self.start = int(first), *self.vectorizer.lead
        self.null = config.pad_token_id
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        self.device = model.get_input_embeddings().weight.device
        scaled = getattr(config, 'scale_decoder_outputs', False)
        self.scale = config.d_model**-0.5 if scaled else 1.0

    def encode(self, xs: torch.Tensor, keys_values: bool) -> EncodedContexts:
        """
        Return the encoded contexts; the decoder reads the start tokens to compute the
        keys and values.
        """
        mask = xs != self.null
        mask[:, 0] = True  # an empty context is one padding token
        states = self.model.get_encoder()(input_ids=xs, attention_mask=mask)[0]
        begin = torch.tensor([self.start], device=self.device)
        decoded = self.model.get_decoder()(
            input_ids=begin.expand(len(xs), -1),
            encoder_hidden_states=states,
            encoder_attention_mask=mask,
            use_cache=True,
        )
        layers = decoded.cache.cross_attention_cache.layers
        layer_keys_values = tuple((layer.keys, layer.values) for layer in layers)
        return EncodedContexts(states, mask, layer_keys_values)

    def decode(self, encoded: EncodedContexts, trees: TreeBatch) -> torch.Tensor:
        """
        Return the decoder's output for the nodes of trees: every path from a root is
        decoded by itself.
        """
        ys = trees.nodes[0]
        tree_of_path, paths = [], []
        for tree, pack in enumerate(trees.packs):
            ends = pack.order.ends
            for leaf, end in enumerate(ends):
                if end == leaf + 1:  # nothing follows it
                    tree_of_path.append(tree)
                    paths.append([i for i in range(end) if ends[i] > leaf])
        nodes, mask = padded_rows(paths, 0, right=True)
        rows = torch.tensor(tree_of_path)
        nodes, is_node, rows = (
            tensor.to(self.device) for tensor in (nodes, mask.bool(), rows)
        )
        # the contexts' cross-attention keys and values are used again
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        layers: list[Any] = [SelectedRows(layer, rows) for layer in encoded.keys_values]
        cache.cross_attention_cache.layers = layers
        cache.is_updated = dict.fromkeys(range(len(layers)), True)
        hidden: torch.Tensor = self.model.get_decoder()(
            input_ids=ys[rows[:, None], nodes],
            encoder_hidden_states=encoded.states[rows],
            encoder_attention_mask=encoded.mask[rows],
            cache=cache,
            use_cache=True,
        )[0]
        output = hidden.new_zeros(*ys.shape, hidden.shape[-1])
        tree_of_node = rows[:, None].expand_as(nodes)
        output[tree_of_node[is_node], nodes[is_node]] = hidden[is_node]
        return output

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return the logits of the model's output layer.
        """
        logits: torch.Tensor = self.model.get_output_embeddings()(hidden * self.scale)
        bias = getattr(self.model, 'final_logits_bias', None)
        return logits if bias is None else logits + bias


def check_seq2seq(judge: Seq2Seq) -> Seq2Seq:
    """
    Return the judge if, on a small example, it gives the numbers of its model's own
    forward pass.

    :raises UserError: if it does not, or cannot be called in this way.
    """
    kind, start = type(judge.model).__name__, len(judge.start)
    few = judge.vocabulary - 3
    ids = [3 + i % few for i in range(2 * EXAMPLE)]
    context, reply = tuple(ids[:EXAMPLE]), tuple(ids[EXAMPLE:])
    xs, ys = (
        torch.tensor([row], device=judge.device)
        for row in (context, (*judge.start, *reply))
    )
    try:
        [answer] = judge.answer([Question(context, (reply,))])
        with torch.inference_mode():
            output = judge.model(input_ids=xs, decoder_input_ids=ys)
            logits = output.logits[0, start - 1 :]
    except DATA_ERRORS as e:
        raise UserError(
            f'{kind} cannot be asked as an encoder-decoder: {shortened(str(e))}'
        ) from e
    theirs = logits.log_softmax(-1)[range(EXAMPLE), reply]
    ours = torch.tensor(answer.continuations[0], device=theirs.device)
    difference = (ours - theirs).abs().max().item()
    if not difference <= TOLERANCE.get(theirs.dtype, 1e-3):
        raise UserError(
            f'{kind}: its numbers are off by {difference:.1e} from its own forward '
            'pass; use T5 or BART, or a causal model'
        )
    return judge
