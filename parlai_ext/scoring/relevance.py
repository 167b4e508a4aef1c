"""
Is a response about what was said before? The cosine of their sentence embeddings.

A response that repeats the last turn has cosine 1, so relevance alone is no judge.
Source: the AM part of the baseline of DSTC10 Track 5 (Zhang et al. 2022), with an
encoder that was not adapted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.options import option
from parlai_ext.scoring.base import (
    Embedder,
    ItemScore,
    Scorer,
    ScoringItem,
    row_cosines,
)

ENCODER = 'minilm'
NO_CONTEXT = 'there is no context'
ZERO = 'the embedding of the response or of the context is zero'


@dataclass(frozen=True)
class RelevanceOptions:
    """
    The sentence encoder, and what a response is compared with.
    """

    encoder: str = option(
        ENCODER,
        help='the sentence encoder: a catalogue name, a folder, or hf:REPOSITORY',
        metavar='MODEL',
        model='embedder',
        path=True,
    )
    against: str = option(
        'last_turn',
        help='what a response is compared with: the last utterance before it, or the '
        'last four joined by spaces',
        choices=('last_turn', 'context'),
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
        turns = COMPARED_TURNS[self.options.against]
        cosines = context_cosines(encoder, items, turns)
        cut = encoder.cut_tokens([item.response or '' for item in items])
        return [
            ItemScore(
                {'Relevance': cosine},
                {'Relevance': ZERO if item.context else NO_CONTEXT},
                cut=tokens,
            )
            for item, cosine, tokens in zip(items, cosines, cut, strict=True)
        ]


COMPARED_TURNS = {'last_turn': 1, 'context': 4}


def context_cosines(
    encoder: Embedder, items: Sequence[ScoringItem], turns: int
) -> list[float | None]:
    """
    Return the cosine between each response and the end of its context; `None` where
    there is no context or an embedding is zero.

    :param turns: how many utterances of the context are joined, by spaces.
    """
    responses = [item.response or '' for item in items]
    contexts = [' '.join(item.context[-turns:]) for item in items]
    vectors = encoder.encode([*responses, *contexts])
    cosines = row_cosines(vectors[: len(items)], vectors[len(items) :])
    return [
        cosine if item.context else None
        for item, cosine in zip(items, cosines, strict=True)
    ]
