"""
Which dialogues the page carries: a bounded choice that is the same every time.

For each target the lowest, the middle and the highest scored, some without a score, and
the rest drawn by a hash of the dialogue's id, so that extremes do not stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.nouns import content_id


@dataclass(frozen=True)
class Candidate:
    """
    A dialogue that could be shown: where it lies and what it scored.
    """

    dialogue_id: str
    pairing_id: str
    shard: int
    target: str
    value: float | None


@dataclass(frozen=True)
class Pick:
    """
    A dialogue that is shown, and why it was chosen.
    """

    candidate: Candidate
    why: str


def choose(candidates: Sequence[Candidate], limit: int) -> list[Pick]:
    """
    Return at most ``limit`` picks, each target having as many as the others can spare.
    """
    by_target: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_target.setdefault(candidate.target, []).append(candidate)
    shares = fair_shares([len(found) for found in by_target.values()], limit)
    picks: list[Pick] = []
    for share, found in zip(shares, by_target.values(), strict=True):
        picks += _of_target(found, share)
    return picks


def fair_shares(sizes: Sequence[int], limit: int) -> list[int]:
    """
    Share ``limit`` places out evenly; what a small group leaves goes to the others.
    """
    shares = [0] * len(sizes)
    left = limit
    for done, i in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        shares[i] = min(sizes[i], left // (len(sizes) - done))
        left -= shares[i]
    return shares


def _of_target(found: Sequence[Candidate], share: int) -> list[Pick]:
    """
    Return ``share`` picks of one target: a fifth of each kind, the rest by hash.
    """
    scored = sorted(
        (c for c in found if c.value is not None),
        key=lambda c: (c.value, c.dialogue_id),
    )
    unscored = _shuffled([c for c in found if c.value is None])
    each = max(1, share // 5)
    middle = max(0, (len(scored) - each) // 2)
    kinds = [
        ('highest', scored[::-1][:each]),
        ('lowest', scored[:each]),
        ('middle', scored[middle : middle + each]),
        ('not scored', unscored[:each]),
        ('random', _shuffled(found)),
    ]
    picks: dict[str, Pick] = {}
    for why, some in kinds:
        for candidate in some:
            if len(picks) < share:
                picks.setdefault(candidate.dialogue_id, Pick(candidate, why))
    return list(picks.values())


def _shuffled(found: Sequence[Candidate]) -> list[Candidate]:
    return sorted(found, key=lambda c: content_id('report', c.dialogue_id))
