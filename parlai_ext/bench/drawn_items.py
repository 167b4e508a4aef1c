"""
Which items of a judged set are scored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from parlai_ext.core.nouns import content_id
from parlai_ext.data.judged.judged_set import JudgedItem, JudgedSet


def drawn_set(judged_set: JudgedSet, max_items: int | None, seed: int) -> JudgedSet:
    """
    Return a set with at most ``max_items`` items, in the order of the file.

    Items that are alike (of one context or dialogue: `JudgedSet.groups`) are drawn
    together or not at all. Groups of the same systems make a stratum; each stratum
    gives the same share. A larger draw with the same seed holds every smaller one.
    """
    if max_items is None or len(judged_set.items) <= max_items:
        return judged_set
    members: dict[int, list[int]] = defaultdict(list)
    for place, group in enumerate(judged_set.groups()):
        members[group].append(place)
    chosen: list[int] = []
    for places in _drawing_order(judged_set.items, list(members.values()), seed):
        if chosen and len(chosen) + len(places) > max_items:
            break
        chosen += places
    items = tuple(judged_set.items[place] for place in sorted(chosen))
    return replace(judged_set, items=items)


def _drawing_order(
    items: Sequence[JudgedItem], groups: Sequence[list[int]], seed: int
) -> list[list[int]]:
    """
    Return groups of items in random order, such that every beginning of the list has
    about the same share of each stratum.
    """
    strata: dict[frozenset[str], list[tuple[str, list[int]]]] = defaultdict(list)
    for places in groups:
        texts = [list(items[place].utterances) for place in places]
        systems = frozenset(items[place].system for place in places)
        strata[systems].append((content_id('bench draw', seed, texts), places))
    ordered = []
    for stratum in strata.values():
        for k, (key, places) in enumerate(sorted(stratum)):
            ordered.append(((k + 0.5) / len(stratum), key, places))
    return [places for _, _, places in sorted(ordered)]
