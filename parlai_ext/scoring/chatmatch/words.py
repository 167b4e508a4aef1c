"""
Words and stems of a turn, as tf-idf and the concepts see them, and distinct-1 and -2.

Lower case, without ASCII punctuation, Treebank tokens, Porter stems. A tournament
says the same words over and over, so every word is looked at once.
"""

import string
from functools import lru_cache
from itertools import pairwise

from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

CACHED = 1 << 16
UNPUNCTUATED = {ord(mark): None for mark in string.punctuation}
TREEBANK = NLTKWordTokenizer()
PORTER = PorterStemmer()
CONTRACTED = {
    'cannot': ('can', 'not'),
    'gimme': ('gim', 'me'),
    'gonna': ('gon', 'na'),
    'gotta': ('got', 'ta'),
    'lemme': ('lem', 'me'),
    'wanna': ('wan', 'na'),
}
# the script adds them against division by 0, and its numbers show it
ABOVE, BELOW = 1e-12, 1e-5


@lru_cache(CACHED)
def words(text: str) -> tuple[str, ...]:
    """
    Return the words of a text.

    The Treebank rules have nothing to do on ASCII text without punctuation but to part
    a few contractions; other text (curly quotes, dashes, emoji) goes through all.
    """
    plain = text.lower().translate(UNPUNCTUATED)
    if not plain.isascii():
        return tuple(TREEBANK.tokenize(plain))
    return tuple(p for word in plain.split() for p in CONTRACTED.get(word, (word,)))


@lru_cache(CACHED)
def stem(word: str) -> str:
    """
    Return the Porter stem of a word.
    """
    root: str = PORTER.stem(word)
    return root


@lru_cache(CACHED)
def stems(text: str) -> tuple[str, ...]:
    """
    Return the stems of a text's words.
    """
    return tuple(map(stem, words(text)))


@lru_cache(CACHED)
def distinct(text: str, unit: str) -> tuple[float, float]:
    """
    Return distinct-1 and distinct-2 (Li et al. 2016) of a turn: the share of different
    unigrams and of different bigrams.

    Of characters, as the script computes it; or of words, exactly, where a turn without
    bigrams has a distinct-2 of 0.
    """
    seen, above, below = words(text), 0.0, 0.0
    if unit == 'character':
        seen, above, below = tuple(text), ABOVE, BELOW
    shares = []
    for n, different in (1, set(seen)), (2, set(pairwise(seen))):
        total = max(0, len(seen) - n + 1) + below
        shares.append((len(different) + above) / total if total else 0.0)
    return shares[0], shares[1]
