"""
Distinct-1 and distinct-2 (Li et al. 2016) of one turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from parlai_ext.scoring.chatmatch.words import MEMORY, words

# the script adds them against division by 0, and its numbers show it
ABOVE, BELOW = 1e-12, 1e-5


@lru_cache(MEMORY)
def distinct(text: str, unit: str) -> tuple[float, float]:
    """
    Return the share of different unigrams and of different bigrams of a turn.

    Of characters, as the script computes it; or of words, exactly, where a turn without
    bigrams has a distinct-2 of 0.
    """
    if unit == 'character':
        return _share(text, 1, ABOVE, BELOW), _share(text, 2, ABOVE, BELOW)
    return _share(words(text), 1, 0.0, 0.0), _share(words(text), 2, 0.0, 0.0)


def _share(seen: Sequence[str], n: int, above: float, below: float) -> float:
    total = max(0, len(seen) - n + 1) + below
    different = set(seen) if n == 1 else set(zip(seen, seen[1:], strict=False))
    return (len(different) + above) / total if total else 0.0
