"""
Trivial baselines: what a ranking would be if scores measured length, repetition, or how
much of a response its partner has just said.

Each takes what one speaker said in one dialogue (its generated utterances, in order;
for the overlap also what it had heard before each) and returns one number, or `None`
where there is nothing to measure. They are ranked beside every scorer; one that agrees
with people as well is a warning.
"""

import re
from collections.abc import Sequence

import regex

from parlai_ext.core import mean

# a letter or digit has its marks with it, as vowels of Hindi are written
WORD = regex.compile(r"(?:[\p{L}\p{N}]\p{M}*)+(?:['’](?:[\p{L}\p{N}]\p{M}*)+)*")
# the same for a text of ASCII, as most of English is; `re` is faster than `regex`
ASCII_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
LAST_HEARD = 2  # turns of the partner that a response is compared with


def mean_length(texts: Sequence[str]) -> float | None:
    """
    Return the mean number of words of an utterance; `None` without utterances.
    """
    return mean([len(text.split()) for text in texts])


def distinct_share(texts: Sequence[str], n: int) -> float | None:
    """
    Return the share of distinct word n-grams; `None` without any.

    N-grams are of neighbouring words within an utterance, case folded, and counted over
    the whole dialogue (Li et al. 2016).
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


def words_of(text: str) -> list[str]:
    """
    Return the words of a text in lower case, without punctuation.
    """
    words: list[str] = (ASCII_WORD if text.isascii() else WORD).findall(text.lower())
    return words


def mean_overlap(texts: Sequence[str], heard: Sequence[Sequence[str]]) -> float | None:
    """
    Return the mean overlap of utterances; `None` where none has a word.

    The overlap is the share of an utterance's words that stand in the last two turns
    which its speaker heard. Case and punctuation do not count; a word that comes twice
    counts twice. Who heard nothing has an overlap of 0.

    :param heard: the partner's turns before each utterance.
    """
    shares = []
    for text, turns in zip(texts, heard, strict=True):
        known = set(words_of(' '.join(turns[-LAST_HEARD:])))
        if words := words_of(text):
            shares.append(sum(word in known for word in words) / len(words))
    return mean(shares)


# Which end of a baseline is rank 1; longer first is a convention, not a judgement, and
# so is more overlap first.
HIGHER_IS_BETTER = {
    'mean_length': True,
    'distinct_2': True,
    'repeated_share': False,
    'overlap': True,
}


def baseline_values(
    texts: Sequence[str], heard: Sequence[Sequence[str]]
) -> dict[str, float | None]:
    """
    Return all trivial baselines of what one speaker said in one dialogue.

    :param heard: the partner's turns before each utterance.
    """
    return {
        'mean_length': mean_length(texts),
        'distinct_2': distinct_share(texts, 2),
        'repeated_share': repeated_share(texts),
        'overlap': mean_overlap(texts, heard),
    }
