"""
Hugging Face encoder-decoders (T5, BART and the like) as models of `encoder_decoder`.

Their decoders cannot be told who sees whom, so a tree is read as its paths, a row each;
keys and values of a context are made once all the same, and what paths share reaches
the output layer once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

from parlai_ext.core.errors import UserError

TRIAL = 6  # tokens
TOLERANCE = {torch.float16: 0.05, torch.bfloat16: 0.5, torch.float64: 1e-9}


@dataclass(frozen=True)
class Memory:
    """
    Encoded contexts, their mask, and each layer's keys and values.
    """

    states: torch.Tensor
    mask: torch.Tensor
    held: tuple[tuple[torch.Tensor, torch.Tensor], ...]


class OfRows:
    """
    A layer's keys and values of some contexts, copied only while the layer needs them.
    """

    def __init__(self, held: tuple[torch.Tensor, torch.Tensor], rows: torch.Tensor):
        self.held = held
        self.rows = rows

    @property
    def keys(self) -> torch.Tensor:
        return self.held[0].index_select(0, self.rows.to(self.held[0].device))

    @property
    def values(self) -> torch.Tensor:
        return self.held[1].index_select(0, self.rows.to(self.held[1].device))


class Seq2Seq:
    """
    An `encoder_decoder.Model` over a Hugging Face model with an output layer `lm_head`.

    :param start: what the decoder reads before the first token of a continuation.
    """

    def __init__(self, model: Any, start: tuple[int, ...]):
        self.model = model.eval()
        self.start = start
        self.null = model.config.pad_token_id
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        self.device = model.get_input_embeddings().weight.device
        config = model.config
        scaled = getattr(config, 'scale_decoder_outputs', False)
        self.scale = config.d_model**-0.5 if scaled else 1.0

    def encode(self, xs: torch.Tensor, hold: bool) -> Memory:
        """
        Return encoded contexts; reading the start tokens makes keys and values.
        """
        mask = xs != self.null
        mask[:, 0] = True  # an empty context is one padding
        states = self.model.get_encoder()(input_ids=xs, attention_mask=mask)[0]
        begin = torch.tensor([self.start], device=self.device)
        found = self.model.get_decoder()(
            input_ids=begin.expand(len(xs), -1),
            encoder_hidden_states=states,
            encoder_attention_mask=mask,
            use_cache=True,
        )
        layers = found.past_key_values.cross_attention_cache.layers
        return Memory(states, mask, tuple((one.keys, one.values) for one in layers))

    def keep(self, memory: Memory, rows: torch.Tensor) -> Memory:
        """
        Return the memory of some contexts.
        """
        some = [OfRows(one, rows) for one in memory.held]
        held = tuple((one.keys, one.values) for one in some)
        return Memory(memory.states[rows], memory.mask[rows], held)

    def decode(
        self, memory: Memory, ys: torch.Tensor, at: torch.Tensor, sees: torch.Tensor
    ) -> torch.Tensor:
        """
        Return the decoder's output for the nodes of trees.
        """
        owners, paths = paths_of(sees.cpu())
        width = max(map(len, paths))
        nodes = torch.tensor([[*p, *[0] * (width - len(p))] for p in paths])
        own = torch.tensor([[t < len(p) for t in range(width)] for p in paths])
        rows = torch.tensor(owners)
        nodes, own, rows = (one.to(self.device) for one in (nodes, own, rows))
        hidden = self._read(memory, ys[rows[:, None], nodes], rows)
        found = hidden.new_zeros(*ys.shape, hidden.shape[-1])
        places = rows[:, None].expand_as(nodes)
        found[places[own], nodes[own]] = hidden[own]
        return found

    def _read(
        self, memory: Memory, ys: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        layers: list[Any] = [OfRows(one, rows) for one in memory.held]
        cache.cross_attention_cache.layers = layers
        cache.is_updated = dict.fromkeys(range(len(memory.held)), True)
        found: torch.Tensor = self.model.get_decoder()(
            input_ids=ys,
            encoder_hidden_states=memory.states[rows],
            encoder_attention_mask=memory.mask[rows],
            past_key_values=cache,
            use_cache=True,
        )[0]
        return found

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return what the model's output layer says.
        """
        found: torch.Tensor = self.model.get_output_embeddings()(hidden * self.scale)
        bias = getattr(self.model, 'final_logits_bias', None)
        return found if bias is None else found + bias


def paths_of(sees: torch.Tensor) -> tuple[list[int], list[list[int]]]:
    """
    Return, for each leaf of each tree, the tree's place and the nodes from its root.

    :param sees: ``[trees, nodes, nodes]``; a node comes after those that it follows,
        the root of a tree is its first, and padding does not see it.
    """
    leaves = (sees.sum(1) == 1) & sees[:, :, 0]  # seen by themselves alone
    owners, paths = [], []
    for tree, leaf in leaves.nonzero().tolist():
        owners.append(tree)
        paths.append(sees[tree, leaf].nonzero()[:, 0].tolist())
    return owners, paths


def checked(model: Seq2Seq) -> Seq2Seq:
    """
    Return the model if it says of a trial what its own forward pass says.

    :raises UserError: when it does not, or does not know how to be asked.
    """
    kind = type(model.model).__name__
    context, reply = range(TRIAL), range(TRIAL, 2 * TRIAL)
    few = model.vocabulary - 3
    xs, ys = (
        torch.tensor([[3 + t % few for t in one]], device=model.device)
        for one in (context, reply)
    )
    begin = torch.tensor([model.start], device=model.device)
    whole = torch.cat([begin, ys], 1)
    n = whole.shape[1]
    line = torch.arange(n, device=model.device)[None]
    sees = torch.ones(1, n, n, dtype=torch.bool, device=model.device).tril()
    try:
        with torch.inference_mode():
            hidden = model.decode(model.encode(xs, False), whole, line, sees)
            found = model.logits(hidden[0]).log_softmax(-1)
            told = model.model(input_ids=xs, decoder_input_ids=whole).logits[0]
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError) as e:
        why = ' '.join(str(e).split())[:200]
        raise UserError(f'{kind} cannot be asked as an encoder-decoder: {why}') from e
    difference = (found - told.log_softmax(-1)).abs().max().item()
    if not difference <= TOLERANCE.get(found.dtype, 1e-3):
        raise UserError(
            f'{kind}: its numbers are off by {difference:.1e} from its own forward '
            'pass; T5 or BART, or a causal model, would do'
        )
    return model
