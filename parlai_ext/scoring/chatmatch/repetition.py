"""
Algorithms 1 and 2: who repeats, and who answers a repeated question otherwise.

How alike two turns are is the cosine of their tf-idf vectors, which are scikit-learn's:
idf is smoothed, ``log((1 + turns) / (1 + turns with it)) + 1``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parlai_ext.scoring.chatmatch.rules import ChatMatchOptions
from parlai_ext.scoring.chatmatch.words import stems

# equal turns have a cosine of 1 only up to rounding
ROUNDING = 1e-9


@dataclass(frozen=True)
class Echoes:
    """
    For each turn: the earlier turn it is penalised for repeating, the earlier answer it
    is penalised for contradicting, or `None`.
    """

    repeats: tuple[int | None, ...]
    contradicts: tuple[int | None, ...]


def find_echoes(texts: Sequence[str], rules: ChatMatchOptions) -> Echoes:
    """
    Return what every turn repeats and contradicts.
    """
    alike = similarities(texts)
    same = earlier_alike(alike, rules)
    # of the script, a lone last mark alone makes a repeated question
    asks = [
        text.split()[-1:] == ['?'] if rules.released else '?' in text for text in texts
    ]
    repeats: list[int | None] = []
    contradicts: list[int | None] = []
    asked_before: list[int] = []  # where the turn before this one was asked before
    for i in range(len(texts)):
        contradicts.append(contradicted_answer(alike[i], i, asked_before, rules))
        questions = [j for j in same[i] if asks[i] and asks[j]]
        # an answer to a repeated question may be the same again
        free = asked_before and not questions
        repeats.append(None if free or not same[i] else (questions or same[i])[-1])
        asked_before = questions
    return Echoes(tuple(repeats), tuple(contradicts))


def earlier_alike(alike: np.ndarray, rules: ChatMatchOptions) -> list[list[int]]:
    """
    Return, for each turn, the earlier turns it repeats: Rep(t).
    """
    turn = np.arange(len(alike))
    earlier = turn[None, :] < turn[:, None]
    if rules.released:
        earlier &= (turn[None, :] - turn[:, None]) % 2 == 0
    earlier[: rules.first_judged] = False
    repeated: list[list[int]] = [[] for _ in turn]
    rows, columns = np.nonzero(earlier & (alike >= rules.repetition - ROUNDING))
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        repeated[i].append(j)
    return repeated


def contradicted_answer(
    alike: np.ndarray, i: int, asked_before: Sequence[int], rules: ChatMatchOptions
) -> int | None:
    """
    Return the speaker's own earlier answer that turn ``i`` contradicts.

    :param alike: of turn ``i`` to every other.
    :param asked_before: where the question before turn ``i`` was asked before.
    """
    limit = rules.contradiction
    for j in asked_before:
        answer = j + 1
        # what the other speaker answered, nobody is bound to
        if (i - answer) % 2:
            continue
        equal = not rules.released and alike[answer] == limit
        if alike[answer] < limit or equal:
            return answer
    return None


def similarities(texts: Sequence[str]) -> np.ndarray:
    """
    Return the cosine of every two turns; a turn without words is like no other.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(map(stems, texts)):
        return np.zeros((len(texts), len(texts)))
    rows = TfidfVectorizer(analyzer=stems).fit_transform(texts)
    product: np.ndarray = (rows @ rows.T).toarray()
    return product
