"""
Token log-probabilities of many continuations of many contexts, for encoder-decoders.

Each context is encoded once, and all its continuations go through the decoder in one
batch. Plain torch: any model with ParlAI's generator interface will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

import torch

from parlai_ext.records import Answer, Question

T = TypeVar('T')


class Vectorizer(Protocol):
    """
    How a model's own vocabulary sees contexts and continuations.
    """

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of a history, and how many were cut.
        """
        ...

    def continuation(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply, its end token included.
        """
        ...


class EncoderDecoder:
    """
    A `Likelihood` over an encoder-decoder.

    :param model: has ``encoder(xs)``, ``reorder_encoder_states(states, rows)``,
        ``decode_forced(states, ys)`` (which puts its own start token in front) and
        ``NULL_IDX``, the padding. Padding must not change its results.
    :param batchsize: contexts in one encoder batch; a decoder batch holds as many
        rows, or all continuations of one context when these are more.
    """

    def __init__(
        self, model: Any, vectorizer: Vectorizer, signature: str, batchsize: int = 64
    ):
        self.model = model
        self.vectorizer = vectorizer
        self.signature = signature
        self.batchsize = batchsize
        self.device = next(model.parameters()).device

    def answer(
        self, questions: Sequence[Question], with_context: bool = False
    ) -> list[Answer]:
        """
        Return one `Answer` for each question, in their order.

        ``with_context`` changes nothing: an encoder gives its input no probability.
        """
        self.model.eval()
        answers: list[Answer] = []
        for start in range(0, len(questions), self.batchsize):
            answers += self._answer_batch(questions[start : start + self.batchsize])
        return answers

    def _answer_batch(self, questions: Sequence[Question]) -> list[Answer]:
        contexts = [self._context_ids(q) for q in questions]
        replies = [self._continuation_ids(q) for q in questions]
        rows = [(i, ids) for i, own in enumerate(replies) for ids in own]
        with torch.no_grad():
            states = self.model.encoder(self._padded([ids for ids, _ in contexts]))
            found = [
                logprobs
                for group in whole_contexts(rows, self.batchsize)
                for logprobs in self._decode(states, group)
            ]
        rest = iter(found)
        return [
            Answer(tuple(next(rest) for _ in own), None, cut)
            for own, (_, cut) in zip(replies, contexts, strict=True)
        ]

    def _decode(
        self, states: Any, rows: Sequence[tuple[int, tuple[int, ...]]]
    ) -> list[tuple[float, ...]]:
        """
        Return the token log-probabilities of rows of (place of context, token ids).
        """
        ys = self._padded([ids for _, ids in rows])
        places = torch.tensor([i for i, _ in rows], device=self.device)
        own = self.model.reorder_encoder_states(states, places)
        logits, _ = self.model.decode_forced(own, ys)
        # half precision would round a log-probability of -10 to the next 1/128
        wide = torch.promote_types(logits.dtype, torch.float32)
        logprobs = torch.log_softmax(logits, dim=-1, dtype=wide)
        picked = logprobs.gather(2, ys.unsqueeze(2)).squeeze(2).tolist()
        return [
            tuple(row[: len(ids)]) for row, (_, ids) in zip(picked, rows, strict=True)
        ]

    def _context_ids(self, question: Question) -> tuple[list[int], int]:
        first = question.context[0] if question.context else ''
        if isinstance(first, str):
            return self.vectorizer.context(question.context)  # type: ignore[arg-type]
        return list(question.context), 0  # type: ignore[arg-type]

    def _continuation_ids(self, question: Question) -> list[tuple[int, ...]]:
        return [
            self.vectorizer.continuation(c) if isinstance(c, str) else tuple(c)
            for c in question.continuations
        ]

    def _padded(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """
        Return rows as one matrix, padded on the right to at least one column.
        """
        width = max([1, *(len(row) for row in rows)])
        null = self.model.NULL_IDX
        padded = [[*row, *[null] * (width - len(row))] for row in rows]
        return torch.tensor(padded, dtype=torch.long, device=self.device)


def whole_contexts(
    rows: Sequence[tuple[int, T]], limit: int
) -> Iterator[list[tuple[int, T]]]:
    """
    Cut rows into runs of at most ``limit`` that never part one context's rows.

    A context with more rows than ``limit`` is a run of its own.
    """
    run: list[tuple[int, T]] = []
    start = 0
    while start < len(rows):
        end = start
        while end < len(rows) and rows[end][0] == rows[start][0]:
            end += 1
        if run and len(run) + end - start > limit:
            yield run
            run = []
        run += rows[start:end]
        start = end
    if run:
        yield run
