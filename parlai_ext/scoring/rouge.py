"""
ROUGE-L of a response and its references, by the library `rouge-score`.

The F1 of the longest common subsequence of words (Lin 2004). The library's tokenizer
knows lower-case ASCII letters and digits only; a text without any has no score.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.options import option
from parlai_ext.scoring.references import Pair, ReferenceScorer

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
