"""
Words and stems of a turn, as tf-idf and the concepts see them.

Lower case, without ASCII punctuation, Treebank tokens, Porter stems. A tournament
says the same words over and over, so every word is looked at once.
"""

from __future__ import annotations

import string
from functools import lru_cache

from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

MEMORY = 1 << 16
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


@lru_cache(MEMORY)
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


@lru_cache(MEMORY)
def stem(word: str) -> str:
    """
    Return the Porter stem of a word.
    """
    found: str = PORTER.stem(word)
    return found


@lru_cache(MEMORY)
def stems(text: str) -> tuple[str, ...]:
    """
    Return the stems of a text's words.
    """
    return tuple(map(stem, words(text)))
