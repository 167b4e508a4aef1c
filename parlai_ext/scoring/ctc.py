"""
CTC: how many words of a response are aligned with what it should be built on.

A token classifier reads the response and then its context and says of each word whether
the context supports it. A score is the sum of these probabilities over the words that
are no stop words, so that a longer response may have more.

Source: Deng et al. (2021), "Compression, Transduction, and Creation: A Unified
Framework for Evaluating Natural Language Generation": the discriminative aligner, and
the package ctc_score of the authors (MIT licence), from which the preparation of texts
comes. Engagingness is aligned with knowledge and dialogue, groundedness with knowledge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.options import option
from parlai_ext.scoring.base import (
    FROM,
    NO_KNOWLEDGE,
    Items,
    ItemScore,
    Scorer,
    model_option,
)
from parlai_ext.scoring.english import LEFT_OUT
from parlai_ext.view.text import single_spaced

ENGAGING, KNOWLEDGE = 'Engaging', 'Uses Knowledge'  # as USR's annotators call them
MOST_TOKENS = 256  # of a response, its begin token counted
SUPPORTED = 0  # the label of a word that the context supports
QUOTES = str.maketrans('“”‘’', '""\'\'')


def _aligner_option(checkpoint: str) -> Any:
    what = f"the authors' {checkpoint}, or another token classifier of two labels"
    return model_option(None, 'token_classifier', f'{what}: {FROM}')


@dataclass(frozen=True)
class CtcOptions:
    """
    The aligners. Without one, its dimension has no scores.
    """

    engaging_model: str | None = _aligner_option('fact_history_to_response')
    knowledge_model: str | None = _aligner_option('fact_to_response')
    stop_words: str = option(
        'left_out',
        choices=('left_out', 'counted'),
        help='whether stop words count in the sum',
    )


class Ctc(Scorer):
    """
    ``Engaging``: the words that knowledge and dialogue support; ``Uses Knowledge``: the
    words that the knowledge supports. Both are sums of probabilities; higher is better.

    Without facts or a persona the former reads the word for no fact, and there is none
    of the latter. The evidence is the probability of each word.
    """

    name = 'ctc'
    dimensions = (ENGAGING, KNOWLEDGE)
    options_class = CtcOptions
    options: CtcOptions

    def prepare(self) -> None:
        """
        Refuse to begin without any model.
        """
        if self.options.engaging_model is None and self.options.knowledge_model is None:
            raise UserError(
                'scorer ctc: engaging_model, knowledge_model: the checkpoints of CTC '
                'are on no model hub; a folder with its weights, config.json and '
                'tokenizer would do (docs/trained_metrics.md says where they are)'
            )

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        knowledge = [clean_text(item.knowledge) for item in items]
        both = [
            f'{text}\n\n\n{clean_text(chr(10).join(item.context))}'
            for text, item in zip(knowledge, items, strict=True)
        ]
        engaging = self._aligned(ENGAGING, self.options.engaging_model, items, both)
        grounded = self._aligned(
            KNOWLEDGE, self.options.knowledge_model, items, knowledge
        )
        scores = []
        for item, one, other in zip(items, engaging, grounded, strict=True):
            known = other
            if not item.has_knowledge:
                known = ItemScore({}, {KNOWLEDGE: NO_KNOWLEDGE}, {})
            scores.append(
                ItemScore(
                    {**one.values, **known.values},
                    {**one.reasons, **known.reasons},
                    {**one.evidence, **known.evidence},
                    max(one.cut, known.cut),
                )
            )
        return scores

    def _aligned(
        self,
        dimension: str,
        name: str | None,
        items: Items,
        contexts: Sequence[str],
    ) -> list[ItemScore]:
        """
        Return the score of each response beside its context in one dimension.
        """
        if name is None:
            nothing = ItemScore({}, {dimension: 'no model is named for it'}, {})
            return [nothing] * len(items)
        model = self.models.token_classifier(name)
        responses = [single_spaced(clean_text(item.text)) for item in items]
        aligned = []
        for labels in model.word_labels(responses, contexts, MOST_TOKENS):
            supported = [float(row[SUPPORTED]) for row in labels.probabilities]
            counted = [
                value
                for word, value in zip(labels.words, supported, strict=True)
                if self.options.stop_words == 'counted' or word not in LEFT_OUT
            ]
            value = math.fsum(counted) if supported else None
            evidence = {dimension: supported} if supported else {}
            aligned.append(
                ItemScore(
                    {dimension: value},
                    {dimension: 'the response has no word'},
                    evidence,
                    labels.cut,
                )
            )
        return aligned


def clean_text(text: str) -> str:
    """
    Return a text in lower case with plain quotes and single blanks; lines stay lines.
    """
    return re.sub(r'[^\S\n]+', ' ', text.translate(QUOTES)).strip().lower()
