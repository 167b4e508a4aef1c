"""
Token log-probabilities of many continuations of many contexts, for encoder-decoders.

Each different context is encoded once, however many questions have it, and its
cross-attention keys and values are computed once. All its continuations go through the
decoder as one tree, and only nodes whose prediction is wanted go through
the output layer. A model has to offer the protocol `TreeReader`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch

from parlai_ext.core.nouns import Answer, Question, content_id
from parlai_ext.core.watch import NO_WATCH
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.logprobs import (
    kept_logprobs,
    pick_function,
    sliced_logprobs,
)
from parlai_ext.models.likelihood.prefix_tree import PrefixTree, Tokens, run_bounds
from parlai_ext.models.likelihood.vectorizer import (
    Vectorizer,
    context_ids,
    continuation_ids,
)

LARGEST_TREE = 512  # nodes
LOGITS = 2**24  # numbers that the output layer writes at once
KNOWN_TREES = 256  # sets of continuations whose trees are remembered
Logprobs = dict[Tokens, tuple[float, ...]]  # by continuation


@dataclass(frozen=True)
class EncodedContexts:
    """
    Encoded contexts, their mask, and the cross-attention keys and values of each layer
    where these are computed.
    """

    states: torch.Tensor
    mask: torch.Tensor
    keys_values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Tree:
    """
    The tree of some continuations after the tokens a decoder starts with.

    The probability of ``targets[i]`` is read at node ``nodes[i]``: all tokens of all
    continuations, one after the other. A continuation's last token is a target and no
    node: nothing follows it.
    """

    continuations: Sequence[Tokens]
    prefixes: PrefixTree
    nodes: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.prefixes)

    def visible(self) -> np.ndarray:
        """
        Return ``[n, n]``: True where a node sees another, itself or one it follows.
        """
        visible = np.eye(len(self), dtype=bool)
        for node, parent in enumerate(self.prefixes.parents):
            if parent >= 0:
                visible[node] |= visible[parent]
        return visible


def build_trees(
    continuations: Sequence[Tokens], start: Tokens, limit: int
) -> tuple[Tree, ...]:
    """
    Return trees of at most about ``limit`` nodes that together hold every continuation.

    The cost of attention grows with the square of a tree's size. A single continuation
    that is longer is a tree of its own.

    :param start: the tokens that the decoder reads first; the last of them predicts a
        continuation's first token.
    """
    ordered = sorted(set(continuations))
    bounds = run_bounds(ordered, limit) if ordered else ()
    return tuple(build_tree(ordered[first:last], start) for first, last in bounds)


def build_tree(continuations: Sequence[Tokens], start: Tokens) -> Tree:
    """
    Return the tree of these continuations.
    """
    tree = PrefixTree()
    last = tree.add(start)[-1]
    nodes: list[int] = []
    for ids in continuations:
        nodes += [last, *tree.add(ids[:-1], last)][: len(ids)]
    targets = [token for ids in continuations for token in ids]
    return Tree(
        continuations, tree, np.array(nodes, np.int64), np.array(targets, np.int64)
    )


class TreeReader(Protocol):
    """
    An encoder-decoder whose decoder can read a tree as if it were a sequence.

    `model` has the weights; `null` is the padding token, which must not change results;
    `start` are the tokens that the decoder reads before a continuation; `vocabulary` is
    the number of logits.
    """

    model: Any
    null: int
    start: tuple[int, ...]
    vocabulary: int
    device: torch.device

    def encode(self, xs: torch.Tensor, keys_values: bool) -> Any:
        """
        Return the encoded contexts ``[contexts, tokens]``.

        :param keys_values: compute the decoder's keys and values of the contexts now,
            since several trees will be decoded.
        """
        ...

    def select(self, encoded: Any, rows: torch.Tensor) -> Any:
        """
        Return the encoded contexts of these rows.
        """
        ...

    def decode(
        self, encoded: Any, ys: torch.Tensor, depths: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """
        Return the input of the output layer, ``[contexts, nodes, features]``.

        :param ys: tokens ``[contexts, nodes]``.
        :param depths: their positions ``[contexts, nodes]``.
        :param mask: ``[contexts, nodes, nodes]``, true where the second index sees the
            third.
        """
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return logits ``[n, vocabulary]`` of ``[n, features]``.
        """
        ...


class EncoderDecoder:
    """
    A `Likelihood` over an encoder-decoder.

    :param budget: limits the tokens of contexts and trees that go through at once.
    :ivar watch: is told of finished work, and keeps it.
    """

    tells_context = False  # an encoder gives its input no probability

    def __init__(
        self,
        model: TreeReader,
        vectorizer: Vectorizer | None,
        signature: str,
        budget: Budget | None = None,
    ):
        self.model = model
        self.vectorizer = vectorizer
        self.signature = signature
        self.budget = budget or Budget()
        self.watch = NO_WATCH
        # FED asks for the same continuations every time
        self._trees = lru_cache(KNOWN_TREES)(
            lambda continuations: build_trees(continuations, model.start, LARGEST_TREE)
        )
        self._pick = pick_function(greedy=False)  # of the call under way

    @property
    def num_parameters(self) -> int:
        """
        How many weights the model has.
        """
        return sum(weight.numel() for weight in self.model.model.parameters())

    def answer(
        self,
        questions: Sequence[Question],
        with_context: bool = False,
        greedy: bool = False,
    ) -> list[Answer]:
        """
        Return one `Answer` for each question, in their order.

        ``with_context`` changes nothing: an encoder gives its input no probability.

        :param greedy: instead of log-probabilities, 1 for each token than which no
            other is likelier there, else 0.
        """
        self._pick = pick_function(greedy)
        contexts = [context_ids(self.vectorizer, q.context) for q in questions]
        replies = [
            continuation_ids(self.vectorizer, q.continuations) for q in questions
        ]
        wanted: dict[Tokens, dict[Tokens, None]] = {}
        for (ids, _), replies_here in zip(contexts, replies, strict=True):
            if replies_here:
                wanted.setdefault(ids, {}).update(dict.fromkeys(replies_here))
        logprobs = self._score_contexts(wanted)
        return [
            Answer(tuple(logprobs[ids][reply] for reply in replies_here), None, cut)
            for (ids, cut), replies_here in zip(contexts, replies, strict=True)
        ]

    def _score_contexts(
        self, wanted: dict[Tokens, dict[Tokens, None]]
    ) -> dict[Tokens, Logprobs]:
        """
        Return, by context, the log-probabilities of its continuations.
        """
        contexts = list(wanted)
        trees = [self._trees(tuple(wanted[ids])) for ids in contexts]
        widths = [
            len(ids) + max(map(len, context_trees))
            for ids, context_trees in zip(contexts, trees, strict=True)
        ]

        inputs = [[ids, list(wanted[ids])] for ids in contexts]
        told = ['greedy'] if self._pick is pick_function(True) else []
        call = content_id(self.signature, inputs, *told)

        @torch.inference_mode()
        def score_group(group: list[int]) -> list[Logprobs]:
            logprobs = kept_logprobs(
                self.watch,
                content_id(call, group),
                lambda: self._encode_and_decode(
                    [contexts[i] for i in group], [trees[i] for i in group]
                ),
            )
            self.watch.tell(len(group), len(contexts))
            return logprobs

        logprobs = self.budget.run(widths, score_group)
        return dict(zip(contexts, logprobs, strict=True))

    def _encode_and_decode(
        self, contexts: Sequence[Tokens], trees: Sequence[tuple[Tree, ...]]
    ) -> list[Logprobs]:
        """
        Return the log-probabilities of each context's trees: the first trees of all
        contexts are decoded together, then the second ones, and so on.
        """
        logprobs: list[Logprobs] = [{} for _ in contexts]
        most = max(map(len, trees))
        encoded = self.model.encode(self._padded(contexts), keys_values=most > 1)
        for k in range(most):
            rows = [
                i for i, context_trees in enumerate(trees) if len(context_trees) > k
            ]
            part = encoded
            if len(rows) < len(contexts):
                part = self.model.select(encoded, self._tensor(rows))
            decoded = self._decode(part, [trees[i][k] for i in rows])
            for i, some in zip(rows, decoded, strict=True):
                logprobs[i].update(some)
        return logprobs

    def _decode(self, encoded: Any, trees: Sequence[Tree]) -> list[Logprobs]:
        """
        Return the log-probabilities of one tree of each context.
        """
        ys = self._padded([tree.prefixes.tokens for tree in trees])
        depths = self._padded([tree.prefixes.depths for tree in trees], 0)
        width = ys.shape[1]
        hidden = self.model.decode(encoded, ys, depths, self._mask(trees, width))
        # only nodes that predict something: of the start tokens only the last one
        first = len(self.model.start) - 1
        sizes = [len(tree) - first for tree in trees]
        places = [np.arange(size) + (i * width + first) for i, size in enumerate(sizes)]
        shifts = np.cumsum([0, *sizes[:-1]]) - first
        nodes = [t.nodes + s for t, s in zip(trees, shifts, strict=True)]
        logprobs = sliced_logprobs(
            self.model.logits,
            hidden.flatten(0, 1)[self._tensor(np.concatenate(places))],
            torch.from_numpy(np.concatenate(nodes)),
            torch.from_numpy(np.concatenate([tree.targets for tree in trees])),
            max(1, LOGITS // self.model.vocabulary),
            self._pick,
        )
        numbers = iter(logprobs.tolist())
        return [
            {ids: tuple(islice(numbers, len(ids))) for ids in tree.continuations}
            for tree in trees
        ]

    def _mask(self, trees: Sequence[Tree], width: int) -> torch.Tensor:
        """
        Return the mask ``[contexts, width, width]``; padding sees only itself.
        """
        different = {id(tree): tree for tree in trees}
        visible = np.zeros((len(different), width, width), dtype=bool)
        visible[:, range(width), range(width)] = True
        for rows, tree in zip(visible, different.values(), strict=True):
            rows[: len(tree), : len(tree)] = tree.visible()
        masks = self._tensor(visible)
        if len(different) == 1:
            return masks.expand(len(trees), -1, -1)
        index = {key: i for i, key in enumerate(different)}
        return masks[[index[id(tree)] for tree in trees]]

    def _padded(
        self, rows: Iterable[Sequence[int]], padding: int | None = None
    ) -> torch.Tensor:
        """
        Return rows as one matrix, padded on the right to at least one column.
        """
        rows = list(rows)
        width = max([1, *map(len, rows)])
        fill = self.model.null if padding is None else padding
        return self._tensor([[*row, *[fill] * (width - len(row))] for row in rows])

    def _tensor(self, data: Any) -> torch.Tensor:
        return torch.as_tensor(data, device=self.model.device)
