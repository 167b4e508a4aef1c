"""
Token log-probabilities of many continuations of many contexts, for causal models.

All continuations of a context, and the later turns of its dialogue, are one tree of
tokens and one row of a forward pass: a mask lets each token see what is before it on its
own branch, and positions count along the branch. Each distinct prefix is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from parlai_ext.errors import UserError
from parlai_ext.likelihood.budget import Budget
from parlai_ext.likelihood.causal_masks import Masks
from parlai_ext.likelihood.encoder_decoder import Vectorizer
from parlai_ext.likelihood.prefix_packs import CONTEXT, Asked, Costs, Pack, packed
from parlai_ext.records import Answer, Question

TOKENS = 4096
RESERVED = 64  # positions kept free for a continuation, whether it needs them or not
CHUNK = 2**24  # logits that are normalised at once
SIDE = 'left'


class Causal:
    """
    A `Likelihood` over a decoder-only model.

    An empty context is ``start`` alone. A context that is too long loses its oldest
    tokens, so that `RESERVED` positions, or as many as the question's longest
    continuation needs, are left. ``Answer.context`` has one number for each context
    token but the first kept one, which nothing comes before.

    :param model: a Hugging Face causal model; `checked` tells whether it can be asked.
    :param start: the token that stands for an empty context.
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
        costs = Costs(6 * self.width, self.budget.tokens)
        packs = packed(asked, costs, with_context)
        found = self.budget.run(
            [len(pack.tree) for pack in packs],
            lambda group: self._step([packs[i] for i in group]),
            self.progress,
        )
        rows: dict[tuple[int, int], tuple[float, ...]] = {}
        for pack, logprobs in zip(packs, found, strict=True):
            for key, edges in pack.rows.items():
                rows[key] = tuple(logprobs[edge] for edge in edges)
        return [
            Answer(
                tuple(rows.get((q, k), ()) for k in range(len(one.continuations))),
                rows.get((q, CONTEXT), ()) if with_context else None,
                one.cut,
            )
            for q, one in enumerate(asked)
        ]

    def _asked(self, question: Question) -> Asked:
        context, cut = self._context_ids(question.context)
        replies = tuple(self._continuation_ids(one) for one in question.continuations)
        if self.positions is not None:
            longest = max(map(len, replies), default=0)
            if longest >= self.positions:
                raise UserError(
                    f'a continuation of {longest} tokens does not fit into the '
                    f"model's {self.positions} positions with a context before it"
                )
            kept = max(1, self.positions - max(longest, RESERVED))
            cut += max(0, len(context) - kept)
            context = context[-kept:]
        if not context:
            if self.start is None:
                raise UserError('an empty context, and no start token to stand for it')
            context = (self.start,)
        return Asked(context, replies, cut)

    def _context_ids(
        self, context: tuple[str, ...] | tuple[int, ...]
    ) -> tuple[tuple[int, ...], int]:
        if not all(isinstance(one, str) for one in context):
            return context, 0  # type: ignore[return-value]
        if not context or self.vectorizer is None:
            return (), 0
        ids, cut = self.vectorizer.context(context)  # type: ignore[arg-type]
        return tuple(ids), cut

    def _continuation_ids(self, continuation: str | tuple[int, ...]) -> tuple[int, ...]:
        if isinstance(continuation, str):
            assert self.vectorizer is not None, 'texts need a vectorizer'
            return self.vectorizer.continuation(continuation)
        return tuple(continuation)

    def _step(self, packs: Sequence[Pack]) -> list[list[float]]:
        """
        Return the log-probabilities of each tree's edges, from one forward pass.
        """
        width = max(len(pack.tree) for pack in packs)
        ids, depths, ends = (
            torch.tensor(rows, device=self.device)
            for rows in zip(*(_padded(pack, width) for pack in packs), strict=True)
        )
        edges = [
            (i * width + node, t) for i, p in enumerate(packs) for node, t in p.edges
        ]
        rows = {row: i for i, row in enumerate(dict.fromkeys(row for row, _ in edges))}
        with torch.inference_mode(), only_rows(self.model, list(rows)):
            logits = self.model(
                input_ids=ids,
                attention_mask=self.masks.of_trees(ends, depths),
                position_ids=depths,
                use_cache=False,
            ).logits[0]
            picked = logprobs(
                logits, [rows[row] for row, _ in edges], [token for _, token in edges]
            )
        flat = iter(picked)
        return [[next(flat) for _ in pack.edges] for pack in packs]


def _padded(pack: Pack, width: int) -> tuple[list[int], list[int], list[int]]:
    """
    Return tokens, depths and ends of a tree's nodes, and of padding behind them.
    """
    tree, n = pack.tree, len(pack.tree)
    more = [0] * (width - n)
    alone = list(range(n + 1, width + 1))
    return tree.tokens + more, tree.depths + more, tree.ends + alone


def logprobs(
    logits: torch.Tensor, rows: Sequence[int], tokens: Sequence[int]
) -> list[float]:
    """
    Return the log-probability of ``tokens[i]`` in ``logits[rows[i]]``.

    Half precision is widened before it is normalised, since it would round -10 to the
    next 1/128; a few rows at a time, since wide logits are the largest thing there is.
    """
    wide = torch.promote_types(logits.dtype, torch.float32)
    few = max(1, CHUNK // logits.shape[1])
    totals = torch.cat([torch.logsumexp(c.to(wide), 1) for c in logits.split(few)])
    at = torch.tensor(rows, device=logits.device)
    own = logits[at, torch.tensor(tokens, device=logits.device)].to(wide)
    found: list[float] = (own - totals[at]).tolist()
    return found


@contextmanager
def only_rows(model: Any, rows: Sequence[int]) -> Iterator[None]:
    """
    Let a model compute logits of these rows only, of all nodes of a batch in a line.

    What a model does to its logits afterwards (a cap, a scale) it still does.
    """

    def pick(_: Any, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden = given[0].flatten(0, -2)
        at = torch.tensor(rows, device=hidden.device)
        return (hidden[at].unsqueeze(0), *given[1:])

    hook = model.get_output_embeddings().register_forward_pre_hook(pick)
    try:
        yield
    finally:
        hook.remove()
