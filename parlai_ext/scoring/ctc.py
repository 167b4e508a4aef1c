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

from parlai_ext.core.display import single_spaced
from parlai_ext.core.errors import UserError
from parlai_ext.core.options import option
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.knowledge import (
    NO_KNOWLEDGE,
    has_knowledge,
    knowledge_text,
)

ENGAGING, KNOWLEDGE = 'Engaging', 'Uses Knowledge'  # as USR's annotators call them
MOST_TOKENS = 256  # of a response, its begin token counted
SUPPORTED = 0  # the label of a word that the context supports
WHERE = (
    'a folder with its weights, config.json and tokenizer would do '
    '(docs/trained_metrics.md says where they are)'
)
NO_MODEL = 'no model is named for it'
NO_WORD = 'the response has no word'
QUOTES = str.maketrans('“”‘’', '""\'\'')
# NLTK's 179 stop words of English, which come from Snowball's list
STOP_WORDS = """
i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself
yourselves he him his himself she she's her hers herself it it's its itself they them
their theirs themselves what which who whom this that that'll these those am is are was
were be been being have has had having do does did doing a an the and but if or because
as until while of at by for with about against between into through during before after
above below to from up down in out on off over under again further then once here there
when where why how all any both each few more most other some such no nor not only own
same so than too very s t can will just don don't should should've now d ll m o re ve y
ain aren aren't couldn couldn't didn didn't doesn doesn't hadn hadn't hasn hasn't haven
haven't isn isn't ma mightn mightn't mustn mustn't needn needn't shan shan't shouldn
shouldn't wasn wasn't weren weren't won won't wouldn wouldn't
"""
LEFT_OUT = frozenset(STOP_WORDS.split())


def _aligner_option(checkpoint: str) -> Any:
    return option(
        None,
        help=f"the authors' {checkpoint}, or another token classifier of two labels: "
        'a folder, or hf:REPOSITORY[@REVISION]',
        metavar='MODEL',
        model='token_classifier',
        path=True,
    )


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
                f'are on no model hub; {WHERE}'
            )

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        knowledge = [clean_text(knowledge_text(item)) for item in items]
        both = [
            f'{text}\n\n\n{clean_text(chr(10).join(item.context))}'
            for text, item in zip(knowledge, items, strict=True)
        ]
        engaging = self._aligned(self.options.engaging_model, items, both)
        grounded = self._aligned(self.options.knowledge_model, items, knowledge)
        return [
            _item_score({ENGAGING: one, KNOWLEDGE: other})
            for one, other in zip(
                engaging,
                [
                    aligned if has_knowledge(item) else _Aligned(None, NO_KNOWLEDGE)
                    for aligned, item in zip(grounded, items, strict=True)
                ],
                strict=True,
            )
        ]

    def _aligned(
        self, name: str | None, items: Sequence[ScoringItem], contexts: Sequence[str]
    ) -> list[_Aligned]:
        """
        Return the score of each response beside its context.
        """
        if name is None:
            return [_Aligned(None, NO_MODEL)] * len(items)
        model = self.models.token_classifier(name)
        responses = [single_spaced(clean_text(item.response or '')) for item in items]
        return [
            self._sum(labels.words, labels.probabilities, labels.cut)
            for labels in model.word_labels(responses, contexts, MOST_TOKENS)
        ]

    def _sum(self, words: Sequence[str], probabilities: Any, cut: int) -> _Aligned:
        if not words:
            return _Aligned(None, NO_WORD)
        supported = [float(row[SUPPORTED]) for row in probabilities]
        counted = [
            value
            for word, value in zip(words, supported, strict=True)
            if self.options.stop_words == 'counted' or word not in LEFT_OUT
        ]
        return _Aligned(math.fsum(counted), None, supported, cut)


@dataclass(frozen=True)
class _Aligned:
    """
    One score of one response, and the probability of each of its words.
    """

    value: float | None
    reason: str | None = None
    words: Sequence[float] = ()
    cut: int = 0


def clean_text(text: str) -> str:
    """
    Return a text in lower case with plain quotes and single blanks; lines stay lines.
    """
    return re.sub(r'[^\S\n]+', ' ', text.translate(QUOTES)).strip().lower()


def _item_score(aligned: dict[str, _Aligned]) -> ItemScore:
    return ItemScore(
        {name: one.value for name, one in aligned.items()},
        {name: one.reason for name, one in aligned.items()},
        evidence={name: list(one.words) for name, one in aligned.items() if one.words},
        cut=max(one.cut for one in aligned.values()),
    )
