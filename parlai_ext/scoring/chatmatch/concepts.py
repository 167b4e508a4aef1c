"""
Algorithm 3: a concept that comes back after a while is a bonus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parlai_ext.scoring.chatmatch.rules import Rules
from parlai_ext.scoring.chatmatch.words import stems, words


def find_recalls(
    texts: Sequence[str], concepts: Mapping[str, str], rules: Rules
) -> tuple[int | None, ...]:
    """
    Return, for each turn, the earlier turn whose concept it recalls, or `None`.

    :param concepts: word to concept, in the order in which they were found.
    """
    important = important_concepts(texts, concepts, rules.concept_share)
    raw = rules.manner.raw_concepts
    last: dict[str, int] = {}
    recalls: list[int | None] = []
    for i, text in enumerate(texts):
        recalled = None
        if raw and i == 0:  # the script does not look at the first turn
            recalls.append(None)
            continue
        for word in text.split() if raw else words(text):
            concept = concepts.get(word)
            if concept is None or concept not in important:
                continue
            before = last.get(concept, i)
            if i - before > rules.recall_distance and recalled is None:
                recalled = before
            last[concept] = i
        recalls.append(recalled)
    return tuple(recalls)


def important_concepts(
    texts: Sequence[str], concepts: Mapping[str, str], share: float
) -> set[str]:
    """
    Return this share of the concepts, those that the fewest turns mention.

    Rare first is high inverse document frequency first. Among equals, the concept
    that was found first goes first.
    """
    known = dict.fromkeys(concepts.values(), 0)
    for text in texts:
        for concept in set(stems(text)):
            if concept in known:
                known[concept] += 1
    ordered = sorted(known, key=lambda concept: known[concept])
    return {c for rank, c in enumerate(ordered) if rank < len(ordered) * share}
