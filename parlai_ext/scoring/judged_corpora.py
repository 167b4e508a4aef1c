"""
How near a response is to the corpora on which a learned judge was tried.

A corpus is a few points, the means of clusters of the sentence embeddings of its
responses with their last turns. They lie in ``corpora.safetensors`` beside the judge's
card, change no score and are in no signature.
"""

from collections.abc import Mapping

import numpy as np

from parlai_ext.core import frozen

CORPORA = 'corpora.safetensors'
THRESHOLD = 'threshold'  # the name of its tensor; the others are of corpora
# the evidence: a cosine, and the place of the nearest corpus among the names
NEARNESS, NEAREST_CORPUS = 'nearness', 'nearest_corpus'


@frozen
class JudgedCorpora:
    """
    The corpora on which a judge was tried.

    :param points: ``[points, features]``, of unit length.
    :param owners: of each point, the place of its corpus in `names`.
    :param threshold: the mean nearness below which a run's dialogues are called unlike
        all of them.
    """

    names: tuple[str, ...]
    points: np.ndarray
    owners: np.ndarray
    threshold: float

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, np.ndarray]) -> 'JudgedCorpora':
        """
        Return the corpora of a file's numbers: by corpus its points, and the threshold.

        :raises ValueError: where there are no such numbers.
        """
        names = tuple(sorted(set(tensors) - {THRESHOLD}))
        owners = np.repeat(range(len(names)), [len(tensors[name]) for name in names])
        points = np.concatenate([tensors[name] for name in names]).astype(np.float32)
        [threshold] = tensors.get(THRESHOLD, np.zeros(0))
        return cls(names, points, owners, round(float(threshold), 3))

    def nearest(self, vector: np.ndarray) -> tuple[float, int]:
        """
        Return the highest cosine of a vector of unit length with any point, and the
        place of that point's corpus.
        """
        cosines = self.points @ vector
        best = int(cosines.argmax())
        return float(cosines[best]), int(self.owners[best])


def vector_in_dialogue(response: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """
    Return the vector of a response with its last turn: the direction between the two.

    :param response, turns: of unit length, the turns oldest first.
    """
    both = response + turns[-1] if len(turns) else response
    return both / max(float(np.linalg.norm(both)), 1e-9)
