"""
Embedding average, extrema and greedy: a response and a reference by their word vectors.

The three of Liu et al. 2016 ("How NOT To Evaluate Your Dialogue System", section 3.2).
Words are those of nltk's Treebank tokenizer, in lower case; words without a vector are
left out, and a text of which no word has one cannot be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

from parlai_ext.scoring.base import model_option, row_cosines, tied, unit_rows
from parlai_ext.scoring.references import Pair, ReferenceScorer

TREEBANK = NLTKWordTokenizer()


@dataclass(frozen=True)
class EmbeddingOptions:
    """
    The vectors of words.
    """

    vectors: str = model_option(
        'glove-50d',
        'word_vectors',
        "word vectors: a catalogue name, or a text file such as GloVe's",
    )


def extrema(rows: np.ndarray) -> np.ndarray:
    """
    Return, of each column, the value farthest from zero; of two, the positive one.
    """
    high, low = rows.max(0), rows.min(0)
    return np.where(high >= -low, high, low)


class EmbeddingMetric(ReferenceScorer):
    """
    A similarity of two texts, from the vectors of their words. Subclasses define
    `similarity`.
    """

    options_class = EmbeddingOptions
    options: EmbeddingOptions
    package = 'nltk'
    version = 2
    no_score = 'no word of the response, or of its references, has a vector'

    def pair_scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """
        Return the similarity of each response and reference, from -1 to 1.
        """
        model = self.models.word_vectors(self.options.vectors)
        rows = {
            text: model.known_vectors(TREEBANK.tokenize(text.lower()))
            for pair in pairs
            for text in pair
        }
        return [
            tied(self.similarity(rows[response], rows[reference]))
            if len(rows[response]) and len(rows[reference])
            else None
            for response, reference in pairs
        ]

    def similarity(self, response: np.ndarray, reference: np.ndarray) -> float | None:
        """
        Return the similarity of two texts, each given by one row a word; by default the
        cosine of their pooled rows.
        """
        return row_cosines(self.pooled(response)[None], self.pooled(reference)[None])[0]

    @staticmethod
    def pooled(rows: np.ndarray) -> np.ndarray:
        """
        Return one row for all words of a text; by default their mean.
        """
        return np.asarray(rows.mean(0))


class EmbeddingAverage(EmbeddingMetric):
    """
    Cosine of the mean vectors of the words of both texts.
    """

    name = 'embedding_average'


class EmbeddingExtrema(EmbeddingMetric):
    """
    Cosine of the vectors of extrema: of each dimension the value that is farthest from
    zero among the words (Forgues et al. 2014).
    """

    name = 'embedding_extrema'
    pooled = staticmethod(extrema)


class EmbeddingGreedy(EmbeddingMetric):
    """
    Each word is matched with the most similar word of the other text; the mean cosine,
    of both directions (Rus and Lintean 2012).
    """

    name = 'embedding_greedy'

    def similarity(self, response: np.ndarray, reference: np.ndarray) -> float | None:
        """
        Return the mean of the mean best cosines in the two directions.
        """
        units = [
            unit_rows(rows[rows.any(1)].astype(float)) for rows in (response, reference)
        ]
        if not all(map(len, units)):
            return None
        cosines = units[0] @ units[1].T
        return float((cosines.max(1).mean() + cosines.max(0).mean()) / 2)
