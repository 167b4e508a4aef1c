"""
Trivial baselines: what a ranking would be if scores measured length or repetition.

Each takes what one speaker said in one dialogue (its generated utterances, in order)
and returns one number, or `None` where there is nothing to measure. They are ranked
beside every scorer; one that agrees with people as well is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


def mean_length(texts: Sequence[str]) -> float | None:
    """
    Return the mean number of words of an utterance; `None` without utterances.
    """
    if not texts:
        return None
    return sum(len(text.split()) for text in texts) / len(texts)


def distinct_2(texts: Sequence[str]) -> float | None:
    """
    Return the share of distinct word pairs; `None` without a pair.

    Pairs are of neighbouring words within an utterance, case folded, and counted over
    the whole dialogue (Li et al. 2016).
    """
    return distinct_share(texts, 2)


def distinct_share(texts: Sequence[str], n: int) -> float | None:
    """
    Return the share of distinct word n-grams; `None` without any (`distinct_2`).
    """
    ngrams = [ngram for text in texts for ngram in word_ngrams(text, n)]
    return len(set(ngrams)) / len(ngrams) if ngrams else None


def word_ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    """
    Return the word n-grams of a text, case folded, in order.
    """
    words = text.casefold().split()
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def repeated_share(texts: Sequence[str]) -> float | None:
    """
    Return the share of utterances that repeat an earlier one; `None` without any.

    Case and spaces do not count. The lower the better.
    """
    if not texts:
        return None
    different = {' '.join(text.casefold().split()) for text in texts}
    return 1 - len(different) / len(texts)


BASELINES: Mapping[str, Callable[[Sequence[str]], float | None]] = {
    'mean_length': mean_length,
    'distinct_2': distinct_2,
    'repeated_share': repeated_share,
}

# Which end of a baseline is rank 1; longer first is a convention, not a judgement.
HIGHER_IS_BETTER: Mapping[str, bool] = {
    'mean_length': True,
    'distinct_2': True,
    'repeated_share': False,
}
