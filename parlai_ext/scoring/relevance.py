"""
Is a response about what was said before? The cosine of their sentence embeddings.

A response that repeats the last turn has cosine 1, so relevance alone is no judge.
Source: the AM part of the baseline of DSTC10 Track 5 (Zhang et al. 2022), with an
encoder that was not adapted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.options import option
from parlai_ext.scoring.base import (
    Embedder,
    ItemScore,
    Scorer,
    ScoringItem,
    row_cosines,
)

ENCODER = 'minilm'
LAST_TURNS = 4  # of a context, which `context` and `nearest` compare with
NO_CONTEXT = 'there is no context'
ZERO = 'the embedding of the response or of the context is zero'


def encoder_option(default: str = ENCODER) -> Any:
    """
    Return the option that names the sentence encoder inside a scorer.
    """
    return option(
        default,
        help='the sentence encoder: a catalogue name, a folder, or '
        'hf:REPOSITORY[@REVISION]',
        metavar='MODEL',
        model='embedder',
        path=True,
    )


@dataclass(frozen=True)
class RelevanceOptions:
    """
    The sentence encoder, and what a response is compared with.
    """

    encoder: str = encoder_option()
    against: str = option(
        'last_turn',
        help='what a response is compared with: the last utterance before it, the last '
        'four joined by spaces (context), or the most similar one of the last four '
        '(nearest)',
        choices=('last_turn', 'context', 'nearest'),
    )


class Relevance(Scorer):
    """
    Cosine between the embeddings of a response and of what was said before it.

    One score a response, from -1 to 1; higher is better. A response without a context
    has none.
    """

    name = 'relevance'
    dimensions = ('Relevance',)
    options_class = RelevanceOptions
    options: RelevanceOptions

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the cosine of each response and its context.
        """
        encoder = self.models.embedder(self.options.encoder)
        cosines = context_cosines(encoder, items, self.options.against)
        cut = encoder.cut_tokens([item.response or '' for item in items])
        return [
            ItemScore(
                {'Relevance': cosine},
                {'Relevance': ZERO if item.context else NO_CONTEXT},
                cut=tokens,
            )
            for item, cosine, tokens in zip(items, cosines, cut, strict=True)
        ]


def context_cosines(
    encoder: Embedder, items: Sequence[ScoringItem], against: str
) -> list[float | None]:
    """
    Return the cosine between each response and the end of its context; `None` where
    there is no context or an embedding is zero.

    :param against: ``last_turn``, ``context`` or ``nearest`` (`RelevanceOptions`).
    """
    compared = [_compared_texts(item.context, against) for item in items]
    pairs = [
        (item.response or '', text)
        for item, texts in zip(items, compared, strict=True)
        for text in texts
    ]
    if not pairs:
        return [None] * len(items)
    vectors = encoder.encode([text for pair in pairs for text in pair])
    cosines = iter(row_cosines(vectors[::2], vectors[1::2]))
    return [
        max((c for c in [next(cosines) for _ in texts] if c is not None), default=None)
        for texts in compared
    ]


def _compared_texts(context: Sequence[str], against: str) -> list[str]:
    last = list(context[-LAST_TURNS:])
    if against == 'last_turn':
        return last[-1:]
    if against == 'context':
        return [' '.join(last)] if last else []
    return last
