"""
Hugging Face encoder-decoders (T5, BART and the like) as tree readers.

Their decoders take no mask of a tree, so a tree is read as its paths, one row each. The
keys and values of a context are still computed once, and nodes that paths share go
through the output layer once.
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

from parlai_ext.core.errors import UserError
from parlai_ext.models.likelihood.encoder_decoder import EncodedContexts
from parlai_ext.systems.hf.generate import padded_rows

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
        return self.whole[0].index_select(0, self.rows.to(self.whole[0].device))

    @property
    def values(self) -> torch.Tensor:
        return self.whole[1].index_select(0, self.rows.to(self.whole[1].device))


class Seq2Seq:
    """
    A `TreeReader` over a Hugging Face model with an output layer `lm_head`.

    :param start: the tokens that the decoder reads before a continuation.
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
        layers = decoded.past_key_values.cross_attention_cache.layers
        layer_keys_values = tuple((layer.keys, layer.values) for layer in layers)
        return EncodedContexts(states, mask, layer_keys_values)

    def decode(
        self,
        encoded: EncodedContexts,
        ys: torch.Tensor,
        depths: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """
        Return the decoder's output for the nodes of trees: every path from a root is
        decoded by itself.

        :param ys: the token of each node of each tree.
        :param depths: not used; a path's positions say the same.
        :param mask: ``mask[tree, node, ancestor]`` is true for a node's ancestors.
        """
        tree_of_path, paths = root_paths(mask.cpu())
        nodes, mask = padded_rows(paths, 0, right=True)
        rows = torch.tensor(tree_of_path)
        nodes, is_node, rows = (
            tensor.to(self.device) for tensor in (nodes, mask.bool(), rows)
        )
        hidden = self._decode_paths(encoded, ys[rows[:, None], nodes], rows)
        output = hidden.new_zeros(*ys.shape, hidden.shape[-1])
        trees = rows[:, None].expand_as(nodes)
        output[trees[is_node], nodes[is_node]] = hidden[is_node]
        return output

    def _decode_paths(
        self, encoded: EncodedContexts, ys: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        """
        Return the decoder's output for paths from root to leaf: path ``ys[i]`` belongs
        to the context ``rows[i]``, whose cross-attention keys and values are used
        again.
        """
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        layers: list[Any] = [SelectedRows(layer, rows) for layer in encoded.keys_values]
        cache.cross_attention_cache.layers = layers
        cache.is_updated = dict.fromkeys(range(len(layers)), True)
        output: torch.Tensor = self.model.get_decoder()(
            input_ids=ys,
            encoder_hidden_states=encoded.states[rows],
            encoder_attention_mask=encoded.mask[rows],
            past_key_values=cache,
            use_cache=True,
        )[0]
        return output

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return the logits of the model's output layer.
        """
        logits: torch.Tensor = self.model.get_output_embeddings()(hidden * self.scale)
        bias = getattr(self.model, 'final_logits_bias', None)
        return logits if bias is None else logits + bias


def root_paths(mask: torch.Tensor) -> tuple[list[int], list[list[int]]]:
    """
    Return, for each leaf of each tree, the tree's index and the nodes from the root to
    the leaf.

    :param mask: ``[trees, nodes, nodes]``; a node comes after those that it follows,
        the root of a tree is its first, and padding does not see it.
    """
    leaves = (mask.sum(1) == 1) & mask[:, :, 0]  # seen only by themselves
    owners, paths = [], []
    for tree, leaf in leaves.nonzero().tolist():
        owners.append(tree)
        paths.append(mask[tree, leaf].nonzero()[:, 0].tolist())
    return owners, paths


def check_seq2seq(model: Seq2Seq) -> Seq2Seq:
    """
    Return the model if, on a small example, it gives the numbers of its own forward
    pass.

    :raises UserError: if it does not, or cannot be called in this way.
    """
    kind = type(model.model).__name__
    context, reply = range(EXAMPLE), range(EXAMPLE, 2 * EXAMPLE)
    few = model.vocabulary - 3
    xs, ys = (
        torch.tensor([[3 + t % few for t in text]], device=model.device)
        for text in (context, reply)
    )
    begin = torch.tensor([model.start], device=model.device)
    whole = torch.cat([begin, ys], 1)
    n = whole.shape[1]
    depths = torch.arange(n, device=model.device)[None]
    mask = torch.ones(1, n, n, dtype=torch.bool, device=model.device).tril()
    try:
        with torch.inference_mode():
            hidden = model.decode(model.encode(xs, False), whole, depths, mask)
            ours = model.logits(hidden[0]).log_softmax(-1)
            theirs = model.model(input_ids=xs, decoder_input_ids=whole).logits[0]
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError) as e:
        problem = ' '.join(str(e).split())[:200]
        raise UserError(
            f'{kind} cannot be asked as an encoder-decoder: {problem}'
        ) from e
    difference = (ours - theirs.log_softmax(-1)).abs().max().item()
    if not difference <= TOLERANCE.get(ours.dtype, 1e-3):
        raise UserError(
            f'{kind}: its numbers are off by {difference:.1e} from its own forward '
            'pass; use T5 or BART, or a causal model'
        )
    return model
