"""
What the learned judge sees of a response: one pass of a language model over the end of
its context, the response and a question about it, and sentence embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parlai_ext.core.nouns import Question
from parlai_ext.scoring.base import Embedder, ScoringItem

LAST_TURNS = 4  # of a context, which are read
LAYERS = (12, 16, 20, 24)
ASKED = 'Is that a good reply: relevant, specific and fluent? Answer:'
ANSWERS = (' Yes', ' No')
COMPARED = ('response', 'last turn', 'context', 'own turn')  # which are embedded


@dataclass(frozen=True)
class Reading:
    """
    What the models say of a response.

    :param logprobs: of the response's tokens after the context, the end token included.
    :param alone: the same without a context.
    :param answers: log-probability of each of `ANSWERS` after `ASKED`.
    :param states: ``[3, layers, features]``: the mean over the response's tokens, its
        last token, and the last token of `ASKED`.
    :param vectors: ``[4, features]``, the embeddings of `COMPARED`; 0 where there is no
        such text.
    :param cut: tokens of the context that the language model did not see.
    """

    logprobs: tuple[float, ...]
    alone: tuple[float, ...]
    answers: tuple[float, float]
    states: np.ndarray
    vectors: np.ndarray
    cut: int


def read_responses(
    judge: Any, encoder: Embedder, items: Sequence[ScoringItem], layers: Sequence[int]
) -> list[Reading]:
    """
    Return what the models say of each response.

    :param judge: a causal language model with `answer_with_states`.
    """
    asked = judge.vectorizer.tokenizer.encode(ASKED, add_special_tokens=False)
    ends = [
        judge.vectorizer.tokenizer.encode(text, add_special_tokens=False)[:1]
        for text in ANSWERS
    ]
    questions, lengths = [], []
    for item in items:
        ids = tuple(judge.vectorizer.continuation(item.response or ''))
        lengths.append(len(ids))
        both = tuple((*ids, *asked, *end) for end in ends)
        questions.append(Question(tuple(item.context[-LAST_TURNS:]), both))

    def reduce(states: Any, question: int) -> Any:
        # the state at which a token is predicted is that of the token before it
        of_response = states[1 : lengths[question]]
        if not len(of_response):
            of_response = states[:1]
        parts = (of_response.mean(0), of_response[-1], states[-1])
        return states.new_empty(0) if not parts else _stacked(parts)

    answers, states = judge.answer_with_states(questions, layers, reduce)
    texts = list(dict.fromkeys(item.response or '' for item in items))
    alone = dict(
        zip(texts, judge.answer([Question((), (t,)) for t in texts]), strict=True)
    )
    vectors = embed_items(encoder, items)
    return [
        Reading(
            answer.continuations[0][:length],
            alone[item.response or ''].continuations[0],
            (answer.continuations[0][-1], answer.continuations[1][-1]),
            state,
            vector,
            answer.num_truncated,
        )
        for item, answer, length, state, vector in zip(
            items, answers, lengths, states, vectors, strict=True
        )
    ]


def _stacked(parts: Sequence[Any]) -> Any:
    import torch

    return torch.stack(list(parts))


def compared_texts(item: ScoringItem) -> tuple[str, str, str, str]:
    """
    Return the texts that are embedded, in the order of `COMPARED`; empty where there is
    none.
    """
    turns = item.context[-LAST_TURNS:]
    last = turns[-1] if turns else ''
    own = turns[-2] if len(turns) > 1 else ''
    return item.response or '', last, ' '.join(turns), own


def embed_items(encoder: Embedder, items: Sequence[ScoringItem]) -> np.ndarray:
    """
    Return ``[items, 4, features]`` embeddings of unit length; zeros for no text.
    """
    texts = [text for item in items for text in compared_texts(item)]
    vectors = encoder.encode(texts)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    there = np.array([bool(text.strip()) for text in texts])[:, None]
    unit = np.where(there, vectors / np.maximum(lengths, 1e-9), 0)
    return unit.reshape(len(items), len(COMPARED), -1)
