"""
Deep AM-FM with references (Zhang, D'Haro et al. 2021), as the Track's baseline has it.

    AM      = the largest cosine of the embeddings of the response and of a reference
    FM      = the largest ratio of two losses: the response's and a reference's, each
              without context, the smaller one above
    Overall = (AM + FM) / 2

The program (compute_wr.py) mixes the references of neighbouring items up where an item
has several; with one reference each, the numbers are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.scoring.base import (
    Embedder,
    ItemScore,
    Scorer,
    ScoringItem,
    row_cosines,
)
from parlai_ext.scoring.likelihood import NO_PROBABILITY, judge_option
from parlai_ext.scoring.relevance import encoder_option
from parlai_ext.scoring.string_logprobs import Strings

NO_REFERENCE = 'there is no reference'
ZERO = 'the embedding of the response or of every reference is zero'


@dataclass(frozen=True)
class AmFmReferencesOptions:
    """
    The two models.
    """

    encoder: str = encoder_option()
    judge_model_file: str = judge_option()


class AmFmReferences(Scorer):
    """
    Three scores a response: AM (from -1 to 1), FM (above 0, at most 1) and their mean.
    FM says how alike the two losses are, not which is better.
    """

    name = 'amfm_references'
    needs = ('references',)
    dimensions = ('Overall', 'AM', 'FM')
    options_class = AmFmReferencesOptions
    options: AmFmReferencesOptions

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        encoder = self.models.embedder(self.options.encoder)
        judge = self.models.likelihood(self.options.judge_model_file)
        cosines = reference_cosines(encoder, items)
        ratios = loss_ratios(Strings(judge), items)
        scores = []
        for item, cosine, ratio in zip(items, cosines, ratios, strict=True):
            values = {'AM': cosine, 'FM': ratio, 'Overall': None}
            missing = {'AM': ZERO, 'FM': NO_PROBABILITY}
            if not item.references:
                missing = dict.fromkeys(missing, NO_REFERENCE)
            if cosine is not None and ratio is not None:
                values['Overall'] = (cosine + ratio) / 2
            overall = missing['AM' if cosine is None else 'FM']
            scores.append(ItemScore(values, {**missing, 'Overall': overall}))
        return scores


def reference_cosines(
    encoder: Embedder, items: Sequence[ScoringItem]
) -> list[float | None]:
    """
    Return the largest cosine of each response and one of its references; `None` where
    there is no reference or an embedding is zero.
    """
    pairs = [(i.response or '', reference) for i in items for reference in i.references]
    if not pairs:
        return [None] * len(items)
    vectors = encoder.encode([text for pair in pairs for text in pair])
    cosines = iter(row_cosines(vectors[::2], vectors[1::2]))
    return [
        max((c for c in some if c is not None), default=None)
        for some in ([next(cosines) for _ in item.references] for item in items)
    ]


def loss_ratios(strings: Strings, items: Sequence[ScoringItem]) -> list[float | None]:
    """
    Return the largest ratio of the losses of each response and one of its references.
    """
    texts = [text for item in items for text in (item.response or '', *item.references)]
    ids = [strings.ids(text, end=True) for text in texts]
    ids = [one[strings.num_over_limit(one) :] for one in ids]
    losses = map(mean_loss, strings.logprobs(ids))
    known = dict(zip(texts, losses, strict=True))
    return [_largest_ratio(item, known) for item in items]


def mean_loss(logprobs: Sequence[float]) -> float | None:
    """
    Return the mean loss of a string's tokens; `None` where it is not above 0 or not
    finite.
    """
    if not logprobs:
        return None
    loss = -math.fsum(logprobs) / len(logprobs)
    return loss if 0 < loss < math.inf else None


def _largest_ratio(item: ScoringItem, losses: dict[str, float | None]) -> float | None:
    own = losses[item.response or '']
    others = [losses[reference] for reference in item.references]
    if own is None:
        return None
    ratios = [min(own, one) / max(own, one) for one in others if one is not None]
    return max(ratios, default=None)
