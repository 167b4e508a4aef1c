"""
Token log-probabilities of many continuations of many contexts, for causal models.

All continuations of a context, and the later turns of its dialogue, are one tree of
tokens and one row of a forward pass: a mask lets each token see what is before it on
its own branch, and positions count along the branch. Each distinct prefix is computed
once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Answer, Question
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.logprobs import picked, sliced
from parlai_ext.models.likelihood.prefix_packs import (
    CONTEXT,
    Asked,
    Costs,
    Pack,
    packed,
    packs_of,
)
from parlai_ext.models.likelihood.prefix_tree import Preorder, tree_mask
from parlai_ext.models.likelihood.vectorizer import (
    Vectorizer,
    context_ids,
    continuation_ids,
)
from parlai_ext.systems.torch_memory import is_out_of_memory

Rows = dict[tuple[int, int], tuple[float, ...]]
TOKENS = 4096
REPLY = 128  # positions kept free for a continuation, as an agent does for a reply
ENOUGH = 1024  # tokens that keep a device busy


class Causal:
    """
    A `Likelihood` over a decoder-only model.

    An answer's ``continuations[k]`` has one number for each token of continuation k;
    its ``context``, when asked for, one for each context token that was kept but the
    first, before which there is nothing. An empty context is ``start`` alone. Of a
    context that is too long the oldest tokens are cut, so that `reserved` positions, or
    as many as the question's longest continuation has tokens, are left.

    Numbers do not depend on what else is asked but for rounding: some 1e-12 in float64,
    1e-5 in float32; in half precision as much as the model's own sums differ.

    :param model: a Hugging Face causal model; `causal_checks.checked` tells whether it
        can be asked.
    :param positions: the most tokens of context and continuation.
    :param tokens: of a forward pass, padding counted.
    :param progress: called with the number of trees that were finished.
    """

    def __init__(
        self,
        model: Any,
        vectorizer: Vectorizer | None,
        signature: str,
        *,
        start: int | None = None,
        positions: int | None = None,
        tokens: int = TOKENS,
        progress: Callable[[int], object] | None = None,
    ):
        self.model = model
        self.vectorizer = vectorizer
        self.signature = signature
        self.start = start
        self.positions = positions
        self.budget = Budget(tokens)
        self.progress = progress
        self.masks = Masks.of(model)
        self.head = Head(model)
        self.device = model.get_input_embeddings().weight.device
        self.width = int(model.config.get_text_config().hidden_size)

    def answer(
        self, questions: Sequence[Question], with_context: bool = False
    ) -> list[Answer]:
        """
        Return one `Answer` for each question, in their order.
        """
        self.model.eval()
        asked = [self._asked(question) for question in questions]
        packs = packed(asked, self._costs(self.budget.tokens), with_context)
        rows = self._answers(packs, self.progress)
        return [
            Answer(
                tuple(rows.get((q, k), ()) for k in range(len(one.continuations))),
                rows.get((q, CONTEXT), ()) if with_context else None,
                one.cut,
            )
            for q, one in enumerate(asked)
        ]

    def _answers(
        self, packs: Sequence[Pack], progress: Callable[[int], object] | None
    ) -> Rows:
        """
        Return the answers of all trees, as many of them at a time as the budget has it.
        """
        found: Rows = {}
        for rows in self.budget.run(
            [len(pack.tree) for pack in packs],
            lambda group: self._step([packs[i] for i in group]),
            progress,
        ):
            found.update(rows)
        return found

    def _asked(self, question: Question) -> Asked:
        context: tuple[int, ...] = ()
        cut, given = 0, question.context
        # texts that nobody can read count as none
        if given and not (self.vectorizer is None and isinstance(given[0], str)):
            context, cut = context_ids(self.vectorizer, given)
        replies = continuation_ids(self.vectorizer, question.continuations)
        if self.positions is not None:
            longest = max(map(len, replies), default=0)
            if longest >= self.positions:
                raise UserError(
                    f'a continuation of {longest} tokens does not fit into the '
                    f"model's {self.positions} positions with a context before it"
                )
            kept = max(1, self.positions - max(longest, reserved(self.positions)))
            cut += max(0, len(context) - kept)
            context = context[-kept:]
        if not context:
            if self.start is None:
                raise UserError('an empty context, and no start token to stand for it')
            context = (self.start,)
        return Asked(context, replies, cut)

    def _costs(self, tokens: int) -> Costs:
        return Costs(6 * self.width, tokens)

    def _step(self, packs: Sequence[Pack]) -> list[Rows]:
        """
        Return the answers of some trees; one too large for the memory is divided.
        """
        if len(packs) > 1:
            return [rows for some in alike(packs) for rows in self._pass(some)]
        tree, parts = packs[0].tree, packs[0].parts
        try:
            if len(tree) <= self.budget.tokens:
                return self._pass(packs)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(packs_of(parts, self._costs(max(1, len(tree) // 2)))) == 1:
                raise
            self.budget.tokens = len(tree) // 2
        # outside the handler, whose traceback would hold the tensors
        smaller = packs_of(parts, self._costs(self.budget.tokens))
        if len(smaller) == 1:
            return self._pass(packs)
        gc.collect()
        return [self._answers(smaller, None)]

    def _pass(self, packs: Sequence[Pack]) -> list[Rows]:
        """
        Return the answers of some trees, from one forward pass.
        """
        orders = [pack.tree.preorder() for pack in packs]
        width = max(len(pack.tree) for pack in packs)
        ids, depths, ends = (
            torch.tensor(rows, device=self.device)
            for rows in zip(*(_padded(order, width) for order in orders), strict=True)
        )
        inputs = {
            'input_ids': ids,
            'attention_mask': self.masks.of_trees(ends, depths),
            'position_ids': depths,
            'use_cache': False,
        }
        rows, tokens = [], []
        for i, (pack, order) in enumerate(zip(packs, orders, strict=True)):
            rows += [i * width + order.places[node] for node, _ in pack.edges]
            tokens += [token for _, token in pack.edges]
        logprobs = iter(self.head.logprobs(inputs, rows, tokens))
        return [
            answered(pack, list(islice(logprobs, len(pack.edges)))) for pack in packs
        ]


def alike(packs: Sequence[Pack]) -> list[list[Pack]]:
    """
    Return trees, widest first, in groups that need little padding; a device that has
    less than `ENOUGH` to do would not be faster with less.
    """
    found: list[list[Pack]] = []
    for pack in packs:
        width = len(found[-1][0].tree) if found else 0
        padding = width - len(pack.tree)
        if not found or (padding * 8 > width and width * len(found[-1]) >= ENOUGH):
            found.append([])
        found[-1].append(pack)
    return found


def answered(pack: Pack, logprobs: Sequence[float]) -> Rows:
    """
    Return the log-probabilities of a tree's sequences, given those of its edges.
    """
    return {
        key: tuple(logprobs[edge] for edge in edges) for key, edges in pack.rows.items()
    }


def reserved(positions: int) -> int:
    """
    Return how many positions a context leaves free, needed or not.
    """
    return min(REPLY, positions // 4)


def _padded(order: Preorder, width: int) -> tuple[list[int], list[int], list[int]]:
    """
    Return tokens, depths and ends of a tree's nodes, and of padding behind them.
    """
    n = len(order.tokens)
    more = [0] * (width - n)
    alone = list(range(n + 1, width + 1))
    return order.tokens + more, order.depths + more, order.ends + alone


# --- masks ---

FULL, SLIDING = 'full_attention', 'sliding_attention'


@dataclass(frozen=True)
class Masks:
    """
    Which masks a model takes.

    :param kinds: of its layers; a model with several takes a mask for each by name.
    :param window: how far back layers with a sliding window look.
    :param additive: the dtype of masks that are added, or `None` for true and false.
    """

    kinds: tuple[str, ...]
    window: int | None
    additive: torch.dtype | None

    @classmethod
    def of(cls, model: Any) -> Masks:
        """
        Return the masks that a Hugging Face model takes.

        :raises UserError: for layers that a tree cannot be shown to.
        """
        config = model.config.get_text_config()
        if (why := untreelike(config)) is not None:
            raise UserError(
                f'{type(model).__name__}: {why} cannot read a tree of continuations; a '
                'model with position ids and a mask of its own would do'
            )
        window = getattr(config, 'sliding_window', None)
        kinds = getattr(config, 'layer_types', None)
        kinds = sorted(set(kinds or [SLIDING if window else FULL]))
        attention = config._attn_implementation
        if attention not in ('sdpa', 'eager'):
            raise UserError(
                f'{type(model).__name__}: attention {attention!r} takes no mask of our '
                'own; sdpa or eager would do'
            )
        additive = None if attention == 'sdpa' else model.dtype
        return cls(tuple(kinds), window, additive)

    def of_trees(self, ends: torch.Tensor, depths: torch.Tensor) -> Any:
        """
        Return the mask of a batch of trees, or one for each kind of layer.
        """
        found = {
            kind: self._cast(
                tree_mask(ends, depths, self.window if kind == SLIDING else None)
            )
            for kind in self.kinds
        }
        return found if len(found) > 1 else found[self.kinds[0]]

    def _cast(self, seen: torch.Tensor) -> torch.Tensor:
        if self.additive is None:
            return seen
        least = torch.finfo(self.additive).min
        zero = torch.zeros((), dtype=self.additive, device=seen.device)
        return torch.where(seen, zero, least)


def untreelike(config: Any) -> str | None:
    """
    Return what of a model places its tokens by their order in a row; `None` if nothing.

    What is not known here, a trial finds out (`causal_checks`).
    """
    if getattr(config, 'alibi', False) or config.model_type in ('bloom', 'mpt'):
        return 'ALiBi'
    if 'local' in getattr(config, 'attention_layers', ()):
        return 'local attention'
    kinds = sorted(set(getattr(config, 'layer_types', None) or ()))
    unknown = [kind for kind in kinds if kind not in (FULL, SLIDING)]
    return f'layers of {", ".join(unknown)}' if unknown else None


# --- the output layer ---

LOGITS = 2**23  # numbers that are written at once


class Head:
    """
    The log-probabilities of tokens, given what stands before a model's output layer.

    Some models change their logits behind that layer (Gemma caps, Cohere scales). What
    they do cannot be known from outside, so that theirs are made in one go.
    """

    def __init__(self, model: Any):
        self.model = model
        self.layer = model.get_output_embeddings()
        self._plain: bool | None = None

    def logprobs(
        self, inputs: dict[str, Any], rows: Sequence[int], tokens: Sequence[int]
    ) -> list[float]:
        """
        Return log P(``tokens[i]``) at ``rows[i]``, of all nodes of a batch in a line.

        :param inputs: what the model is called with.
        """
        asked = sorted(set(rows))
        place = {row: i for i, row in enumerate(asked)}
        at = torch.tensor([place[row] for row in rows])
        ids = torch.tensor(tokens)
        with torch.inference_mode():
            if not self.plain:
                with _rows(self.layer, asked):
                    logits = self.model(**inputs).logits[0]
                return picked(logits, at, ids).tolist()
            with _rows(self.layer, asked, let=1) as kept:
                self.model(**inputs)
            size = max(1, LOGITS // self.layer.weight.shape[0])
            return sliced(self.layer, kept[0], at, ids, size).tolist()

    @property
    def plain(self) -> bool:
        """
        Whether the model's logits are what its output layer says, and no more.
        """
        if self._plain is None:
            probe = torch.zeros(
                1,
                2,
                dtype=torch.long,
                device=self.model.get_input_embeddings().weight.device,
            )
            with _rows(self.layer, [0, 1]) as kept:
                whole = self.model(input_ids=probe, use_cache=False).logits[0]
            self._plain = torch.equal(whole, self.layer(kept[0]))
        return self._plain


@contextmanager
def _rows(
    layer: torch.nn.Module, rows: Sequence[int], let: int | None = None
) -> Iterator[list[torch.Tensor]]:
    """
    Let a layer see these rows only, of all nodes of a batch in a line; what it would
    have seen is handed out.

    :param let: how many of them it really sees.
    """
    kept: list[torch.Tensor] = []

    def pick(_: Any, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden = given[0].flatten(0, -2)
        kept.append(hidden[torch.tensor(rows, device=hidden.device)])
        return (kept[0][:let].unsqueeze(0), *given[1:])

    hook = layer.register_forward_pre_hook(pick)
    try:
        yield kept
    finally:
        hook.remove()
