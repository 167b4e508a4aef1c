"""
Is a response about what was said before? The cosine of their sentence embeddings.

A response that repeats the last turn has cosine 1, so relevance alone is no judge.
Source: the AM part of the baseline of DSTC10 Track 5 (Zhang et al. 2022), with an
encoder that was not adapted.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from parlai_ext.core import frozen, option
from parlai_ext.scoring.base import (
    EncoderScorer,
    Items,
    ItemScore,
    ScoringItem,
    encoder_option,
    in_groups,
    row_cosines,
    tied,
)

if TYPE_CHECKING:  # which imports torch
    from parlai_ext.models.encoders import MeanPooling

LAST_TURNS = 4  # of a context, which `context` and `nearest` compare with
NO_CONTEXT = 'there is no context'
ZERO = 'the embedding of the response or of the context is zero'


@frozen
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


class Relevance(EncoderScorer):
    """
    Cosine between the embeddings of a response and of what was said before it.

    One score a response, from -1 to 1; higher is better. A response without a context
    has none.
    """

    name = 'relevance'
    version = 2
    unit = 'a cosine, at most 1'
    dimensions = ('Relevance',)
    options_class = RelevanceOptions
    options: RelevanceOptions

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the cosine of each response and its context.
        """
        against = self.options.against
        cosines = context_cosines(self.encoder, items, against)
        texts = [[item.text, *compared_turns(item, against)] for item in items]
        cut_tokens = in_groups(self.encoder.cut_tokens, texts)
        return [
            ItemScore(
                {'Relevance': tied(cosine)},
                {'Relevance': ZERO if item.context else NO_CONTEXT},
                cut=sum(cut),
            )
            for item, cosine, cut in zip(items, cosines, cut_tokens, strict=True)
        ]


def compared_turns(item: ScoringItem, against: str) -> Sequence[str]:
    """
    Return the texts of its context with which a response is compared.

    :param against: ``last_turn``, ``context`` or ``nearest`` (`RelevanceOptions`).
    """
    turns = item.context[-(1 if against == 'last_turn' else LAST_TURNS) :]
    return [' '.join(turns)] if turns and against == 'context' else turns


def context_cosines(
    encoder: 'MeanPooling', items: Items, against: str
) -> list[float | None]:
    """
    Return the cosine between each response and the end of its context; `None` where
    there is no context or an embedding is zero.

    :param against: as for `compared_turns`.
    """
    compared = [compared_turns(item, against) for item in items]
    return best_cosines(encoder.encode, items, compared)


def best_cosines(
    encode: Callable[[Sequence[str]], np.ndarray],
    items: Items,
    compared: Sequence[Sequence[str]],
) -> list[float | None]:
    """
    Return the largest cosine of each response and one of its texts; `None` where there
    is no text or an embedding is zero.

    :param encode: gives one row for each text.
    """

    def cosines(pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        vectors = encode(list(chain(*pairs)))
        return row_cosines(vectors[::2], vectors[1::2])

    pairs = [
        [(item.text, other) for other in others]
        for item, others in zip(items, compared, strict=True)
    ]
    return [
        max((cosine for cosine in some if cosine is not None), default=None)
        for some in in_groups(cosines, pairs)
    ]
