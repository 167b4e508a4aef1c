"""
A scorer outside the package, in one file: similarity by sentence embeddings.
"""

from dataclasses import dataclass

from parlai_ext.core import option
from parlai_ext.scoring.base import ItemScore, Scorer, row_cosines


@dataclass(frozen=True)
class SimilarityOptions:
    """
    The encoder, and what a response is compared with.
    """

    encoder: str = option('minilm', help='sentence encoder', model='embedder')
    against: str = option(
        'last_turn',
        help='what a response is compared with',
        choices=('last_turn', 'context'),
    )


class Similarity(Scorer):
    """
    Cosine between the embeddings of a response and of its context, in [-1, 1].
    """

    name = 'similarity'
    dimensions = ('Similarity',)
    options_class = SimilarityOptions

    def score(self, items):
        """
        Return the similarity of each response; one without a context has none.
        """
        encoder = self.models.embedder(self.options.encoder)
        responses = [item.response or '' for item in items]
        contexts = [self._context(item) for item in items]
        vectors = encoder.encode([*responses, *contexts])
        cosines = row_cosines(vectors[: len(items)], vectors[len(items) :])
        return [
            ItemScore(
                {'Similarity': value if item.context else None},
                {'Similarity': None if item.context else 'there is no context'},
                evidence=[context],
                cut=cut,
            )
            for item, value, context, cut in zip(
                items, cosines, contexts, encoder.cut_tokens(responses), strict=True
            )
        ]

    def _context(self, item):
        turns = item.context if self.options.against == 'context' else item.context[-1:]
        return ' '.join(turns)
