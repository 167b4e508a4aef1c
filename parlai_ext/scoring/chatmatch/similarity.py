"""
How alike the turns of one dialogue are: the cosine of their tf-idf vectors.

idf is smoothed, ``log((1 + turns) / (1 + turns with it)) + 1``, as scikit-learn's is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from parlai_ext.scoring.chatmatch.words import stems


def similarities(texts: Sequence[str]) -> np.ndarray:
    """
    Return the cosine of every two turns; a turn without words is like no other.
    """
    columns: dict[str, int] = {}
    places = [[columns.setdefault(s, len(columns)) for s in stems(t)] for t in texts]
    lengths = [len(row) for row in places]
    if not columns:
        return np.zeros((len(texts), len(texts)))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.fromiter((p for row in places for p in row), np.int64, starts[-1])
    shape = (len(texts), len(columns))
    counts = csr_array((np.ones(len(flat)), flat, starts), shape=shape)
    counts.sum_duplicates()
    known = np.bincount(counts.indices, minlength=len(columns))
    idf = np.log((1 + len(texts)) / (1 + known)) + 1
    counts.data *= idf[counts.indices]
    norms = np.sqrt(counts.multiply(counts).sum(axis=1))
    rows = np.repeat(np.arange(len(texts)), np.diff(counts.indptr))
    counts.data /= norms[rows]
    product: np.ndarray = (counts @ counts.T).toarray()
    return product
