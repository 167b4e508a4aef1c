"""
Token log-probabilities of many continuations of many contexts, for encoder-decoders.

Each different context is encoded once, however many questions have it, and its
cross-attention keys and values are computed once. All its continuations go through the
decoder as one tree (`prefixes`), and only what is asked goes through the output layer.
Plain torch: what a model has to offer is the protocol `Model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch

from parlai_ext.core.nouns import Answer, Question
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.logprobs import sliced
from parlai_ext.models.likelihood.prefixes import Tokens, Tree, forest
from parlai_ext.models.likelihood.vectorizer import (
    Vectorizer,
    context_ids,
    continuation_ids,
)

LARGEST_TREE = 512  # nodes
LOGITS = 2**24  # numbers that the output layer writes at once
KNOWN_FORESTS = 256
Found = dict[Tokens, tuple[float, ...]]


class Model(Protocol):
    """
    An encoder-decoder whose decoder can read a tree as if it were a sequence.

    `null` is the padding, which must not change its results; `start` is what its
    decoder reads before the first token of a continuation; `vocabulary` counts logits.
    """

    null: int
    start: tuple[int, ...]
    vocabulary: int
    device: torch.device

    def encode(self, xs: torch.Tensor, hold: bool) -> Any:
        """
        Return what the decoder has to know of contexts ``[contexts, tokens]``.

        :param hold: several trees will be decoded: compute keys and values now.
        """
        ...

    def keep(self, memory: Any, rows: torch.Tensor) -> Any:
        """
        Return the part of ``memory`` that is of these contexts.
        """
        ...

    def decode(
        self, memory: Any, ys: torch.Tensor, at: torch.Tensor, sees: torch.Tensor
    ) -> torch.Tensor:
        """
        Return ``[contexts, nodes, features]``, what the output layer reads.

        :param ys: tokens ``[contexts, nodes]``.
        :param at: their positions, alike.
        :param sees: ``[contexts, nodes, nodes]``, which node (second) sees which.
        """
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return ``[n, vocabulary]`` of ``[n, features]``.
        """
        ...


class EncoderDecoder:
    """
    A `Likelihood` over an encoder-decoder.

    :param budget: how many tokens, of contexts and trees together, go through at once.
    :param progress: called with the number of contexts that were finished.
    """

    tells_context = False  # its tokens have no probability

    def __init__(
        self,
        model: Model,
        vectorizer: Vectorizer | None,
        signature: str,
        budget: Budget | None = None,
        progress: Callable[[int], object] | None = None,
    ):
        self.model = model
        self.vectorizer = vectorizer
        self.signature = signature
        self.budget = budget or Budget()
        self.progress = progress
        self._forests: dict[tuple[Tokens, ...], tuple[Tree, ...]] = {}

    def answer(
        self, questions: Sequence[Question], with_context: bool = False
    ) -> list[Answer]:
        """
        Return one `Answer` for each question, in their order.

        ``with_context`` changes nothing: an encoder gives its input no probability.
        """
        contexts = [context_ids(self.vectorizer, q.context) for q in questions]
        replies = [
            continuation_ids(self.vectorizer, q.continuations) for q in questions
        ]
        asked: dict[Tokens, dict[Tokens, None]] = {}
        for (ids, _), own in zip(contexts, replies, strict=True):
            if own:
                asked.setdefault(ids, {}).update(dict.fromkeys(own))
        found = self._all(asked)
        return [
            Answer(tuple(found[ids][reply] for reply in own), None, cut)
            if own
            else Answer((), None, cut)
            for (ids, cut), own in zip(contexts, replies, strict=True)
        ]

    def _all(self, asked: dict[Tokens, dict[Tokens, None]]) -> dict[Tokens, Found]:
        """
        Return, by context, the log-probabilities of the continuations asked of it.
        """
        contexts = list(asked)
        trees = [self._forest(tuple(asked[ids])) for ids in contexts]
        widths = [
            len(ids) + max(len(tree.tokens) for tree in own)
            for ids, own in zip(contexts, trees, strict=True)
        ]

        def step(group: list[int]) -> list[Found]:
            with torch.inference_mode():
                return self._step(
                    [contexts[i] for i in group], [trees[i] for i in group]
                )

        found = self.budget.run(widths, step, self.progress)
        return dict(zip(contexts, found, strict=True))

    def _step(
        self, contexts: Sequence[Tokens], trees: Sequence[tuple[Tree, ...]]
    ) -> list[Found]:
        """
        Encode these contexts and decode their trees, the first tree of each together.
        """
        found: list[Found] = [{} for _ in contexts]
        most = max(map(len, trees))
        memory = self.model.encode(self._padded(contexts), hold=most > 1)
        for turn in range(most):
            rows = [i for i, own in enumerate(trees) if len(own) > turn]
            part = memory
            if len(rows) < len(contexts):
                part = self.model.keep(memory, self._tensor(rows))
            now = [trees[i][turn] for i in rows]
            for i, some in zip(rows, self._decode(part, now), strict=True):
                found[i].update(some)
        return found

    def _decode(self, memory: Any, trees: Sequence[Tree]) -> list[Found]:
        """
        Return the log-probabilities of one tree of each context.
        """
        ys = self._padded([tree.tokens for tree in trees])
        at = self._padded([tree.depths for tree in trees], 0)
        width = ys.shape[1]
        hidden = self.model.decode(memory, ys, at, self._sees(trees, width))
        # only nodes that predict something; of the start tokens the last alone does
        first = len(self.model.start) - 1
        sizes = [len(tree.tokens) - first for tree in trees]
        places = [np.arange(size) + (i * width + first) for i, size in enumerate(sizes)]
        shifts = np.cumsum([0, *sizes[:-1]]) - first
        nodes = [t.nodes + s for t, s in zip(trees, shifts, strict=True)]
        logprobs = sliced(
            self.model.logits,
            hidden.flatten(0, 1)[self._tensor(np.concatenate(places))],
            torch.from_numpy(np.concatenate(nodes)),
            torch.from_numpy(np.concatenate([tree.targets for tree in trees])),
            max(1, LOGITS // self.model.vocabulary),
        )
        rest = iter(logprobs.tolist())
        return [
            {ids: tuple(islice(rest, len(ids))) for ids in tree.continuations}
            for tree in trees
        ]

    def _forest(self, continuations: tuple[Tokens, ...]) -> tuple[Tree, ...]:
        """
        Return the trees of these continuations; FED asks the same ones every time.
        """
        if continuations not in self._forests:
            if len(self._forests) >= KNOWN_FORESTS:
                self._forests.clear()
            self._forests[continuations] = forest(
                continuations, self.model.start, LARGEST_TREE
            )
        return self._forests[continuations]

    def _sees(self, trees: Sequence[Tree], width: int) -> torch.Tensor:
        """
        Return ``[contexts, width, width]``; a padding node sees itself alone.
        """
        different = {id(tree): tree for tree in trees}
        found = np.zeros((len(different), width, width), dtype=bool)
        found[:, range(width), range(width)] = True
        for one, tree in zip(found, different.values(), strict=True):
            one[: len(tree.tokens), : len(tree.tokens)] = tree.sees()
        masks = self._tensor(found)
        if len(different) == 1:
            return masks.expand(len(trees), -1, -1)
        place = {key: i for i, key in enumerate(different)}
        return masks[[place[id(tree)] for tree in trees]]

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
