"""
BERTScore: the tokens of a response and of a reference, matched by an encoder; and
BLEURT, a model that was trained to compare the two.

Each token is matched with the most similar token of the other text; precision is the
mean cosine over the response's tokens, recall that over the reference's, and F1 joins
them (Zhang et al. 2020, section 3). As in its authors' library `bert-score`, with which
the tests compare: the tokens that begin and end a text may be matched but count
nothing, tokens have equal weights (no idf), and nothing is rescaled by a baseline,
which would change no order. Unlike the library, we put no blank before a text for
RoBERTa, whose first token may therefore differ.

The library itself loads models past the catalogue and its checks, so the vectors come
from the scorer's own encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parlai_ext.core.options import option
from parlai_ext.scoring.base import (
    FROM,
    Items,
    ItemScore,
    encoder_option,
    model_option,
    tied,
    unit_rows,
)
from parlai_ext.scoring.references import Pair, ReferenceScorer

if TYPE_CHECKING:
    from parlai_ext.models.encoders import TokenVectors

CHUNK = 256  # pairs whose vectors are in memory at a time


@dataclass(frozen=True)
class BertScoreOptions:
    """
    The encoder, and which of its layers gives the vectors.
    """

    encoder: str = encoder_option()
    layer: int = option(
        0, low=0, help='the layer that gives the vectors of tokens; 0: the last one'
    )


class BertScore(ReferenceScorer):
    """
    F1 of BERTScore; higher is better, 1 is the same text.
    """

    name = 'bertscore'
    version = 2
    options_class = BertScoreOptions
    options: BertScoreOptions
    no_score = (
        'there is no F1: no token of the response or its references is read, or they '
        'are nowhere alike'
    )

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the best F1 of each response, and how many of its tokens were not read.
        """
        encoder = self.models.embedder(self.options.encoder)
        cut = encoder.cut_tokens([item.text for item in items])
        return [
            replace(item_score, cut=tokens)
            for item_score, tokens in zip(super().score(items), cut, strict=True)
        ]

    def pair_scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """
        Return the F1 of each response and reference.
        """
        scores: list[float | None] = []
        encoder = self.models.embedder(self.options.encoder)
        for start in range(0, len(pairs), CHUNK):
            chunk = pairs[start : start + CHUNK]
            texts = list(dict.fromkeys(text.strip() for pair in chunk for text in pair))
            vectors = encoder.token_vectors(texts, self.options.layer)
            by_text = dict(zip(texts, vectors, strict=True))
            scores += [
                tied(token_f1(by_text[response.strip()], by_text[reference.strip()]))
                for response, reference in chunk
            ]
        return scores


def token_f1(response: TokenVectors, reference: TokenVectors) -> float | None:
    """
    Return the F1 of the best cosines of the tokens of two texts; `None` where one of
    them has no token of its own, or precision or recall is not positive.
    """
    if not response.of_text.any() or not reference.of_text.any():
        return None
    cosines = (
        unit_rows(response.rows.astype(float))
        @ unit_rows(reference.rows.astype(float)).T
    )
    precision = cosines.max(1)[response.of_text].mean()
    recall = cosines.max(0)[reference.of_text].mean()
    if min(precision, recall) <= 0:
        return None
    return float(2 * precision * recall / (precision + recall))


@dataclass(frozen=True)
class BleurtOptions:
    """
    The regression model.
    """

    regressor: str = model_option(
        'hf:lucadiliello/BLEURT-20',
        'regressor',
        'the checkpoint, in the format of bleurt-pytorch or as a sequence classifier '
        f'with one output: {FROM}',
    )


class Bleurt(ReferenceScorer):
    """
    BLEURT: a regression model that was trained on people's ratings of translations.

    It reads reference and response as a pair; its only output is the score, about 0 to
    1, higher is better. Source: Sellam et al. (2020), "BLEURT: Learning Robust Metrics
    for Text Generation", and Pu et al. (2021) for BLEURT-20.
    """

    name = 'bleurt'
    fitted_on = ('translations of WMT',)
    options_class = BleurtOptions
    instead = 'a folder with its files would do: --scorer-option regressor=FOLDER'
    options: BleurtOptions

    def pair_scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """
        Return the number that the model gives each reference and response.
        """
        model = self.models.regressor(self.options.regressor)
        responses = [response for response, _ in pairs]
        return model.numbers([reference for _, reference in pairs], responses).tolist()
