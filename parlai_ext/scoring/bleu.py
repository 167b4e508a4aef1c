"""
BLEU-2 of a response and its references, by the library `sacrebleu`, and ROUGE-L.

BLEU (Papineni et al. 2002) with word pairs as the longest n-grams, of one sentence. No
setting gives all published numbers, so there are two and neither is "the" BLEU-2:

``sacrebleu``: what the library does with a sentence: its tokenizer 13a, case kept,
exponential smoothing.
``words``: words parted by blanks, lower case, no smoothing. On the 360 responses of
TopicalChat-USR it gives the correlations 0.459 (Pearson) and 0.462 (Spearman) of
PairEval's Table 1 (Park et al. 2024).

In both, as in the library's `sentence_bleu`, the only word of a response of one word
counts alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from parlai_ext.core.options import option
from parlai_ext.scoring.base import Items, ItemScore
from parlai_ext.scoring.references import (
    OVERALL,
    Pair,
    ReferenceScorer,
    response_pairs,
)

ORDER = 2
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    'sacrebleu': {},
    'words': {'lowercase': True, 'tokenize': 'none', 'smooth_method': 'none'},
}


@dataclass(frozen=True)
class BleuOptions:
    """
    How texts become words, and what several references mean.
    """

    setting: str = option(
        'sacrebleu',
        choices=SETTINGS,
        help='sacrebleu: as the library scores a sentence; words: parted by blanks, '
        'lower case, without smoothing',
    )
    references: str = option(
        'best',
        choices=('best', 'together'),
        help='with several references: the best score over them, or BLEU with all of '
        'them together, which takes n-grams of each',
    )


class Bleu2(ReferenceScorer):
    """
    BLEU-2 from 0 to 100; higher is better.
    """

    name = 'bleu_2'
    options_class = BleuOptions
    options: BleuOptions
    module, package = 'sacrebleu.metrics', 'sacrebleu'

    @cached_property
    def bleu(self) -> Any:
        """
        The library's BLEU in this setting.
        """
        # force: no warning that a text looks tokenized, which is on purpose here
        return self.library.BLEU(
            max_ngram_order=ORDER,
            effective_order=True,
            force=True,
            **SETTINGS[self.options.setting],
        )

    def pair_scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """
        Return the BLEU of each response and reference.
        """
        return [self._sentence_bleu(response, [text]) for response, text in pairs]

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the BLEU of each response, as `references` says.
        """
        scores = super().score(items)
        if self.options.references == 'best':
            return scores
        for place, item in enumerate(items):
            references = [text for _, text in response_pairs(item)]
            if len(references) > 1:
                bleu = self._sentence_bleu(item.text, references)
                scores[place] = ItemScore({OVERALL: bleu})
        return scores

    def _sentence_bleu(self, response: str, references: list[str]) -> float:
        return float(self.bleu.sentence_score(response, references).score)


ROUGE_L = 'rougeL'


@dataclass(frozen=True)
class RougeOptions:
    """
    Which words count as the same.
    """

    stemmer: bool = option(False, help='words of one Porter stem are the same word')


class RougeL(ReferenceScorer):
    """
    F1 of ROUGE-L, from 0 to 1; higher is better.

    The F1 of the longest common subsequence of words (Lin 2004), by the library
    `rouge-score`, whose tokenizer knows lower-case ASCII letters and digits only; a
    text without any has no score.
    """

    name = 'rouge_l'
    options_class = RougeOptions
    options: RougeOptions
    module, package = 'rouge_score.rouge_scorer', 'rouge-score'
    no_score = 'the response or its references have no ASCII letter or digit'

    def pair_scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """
        Return the F1 of each response and reference.
        """
        rouge = self.library.RougeScorer([ROUGE_L], use_stemmer=self.options.stemmer)
        return [
            float(rouge.score(reference, response)[ROUGE_L].fmeasure)
            if _has_words(response) and _has_words(reference)
            else None
            for response, reference in pairs
        ]


def _has_words(text: str) -> bool:
    return any(c.isascii() and c.isalnum() for c in text.lower())
