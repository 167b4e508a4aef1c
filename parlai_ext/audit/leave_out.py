"""
Does an order depend on the partners or the openers? Each family of partners and each
block of openers is left out in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from parlai_ext.audit.audited import Audited, ranks_of
from parlai_ext.audit.needed import (
    dialogues_first,
    most_dialogues,
    openers_to_tell_apart,
    settling_text,
)
from parlai_ext.audit.record import (
    Finding,
    PartResult,
    Row,
    left_out,
    outcome_of,
)
from parlai_ext.core.display import join_names
from parlai_ext.ranking.newcomers import flipped_pairs, means_without
from parlai_ext.ranking.separation import DialoguesNeeded
from parlai_ext.ranking.table import Floats, json_number

PARTNERS, OPENERS = 'partner families', 'opener blocks'
LISTED = 3  # pairs that are named
Pair = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """
    What was left out, and the systems' scores without it.
    """

    name: str
    means: Floats


def check_partner_families(audited: Audited, families: Mapping[str, str]) -> PartResult:
    """
    Return how far ranks and scores move without each family of partners.
    """
    opponents = audited.opponents
    if len(opponents) < 2:
        return left_out(
            PARTNERS,
            'Families of partners are left out: there is one partner only, and nothing '
            'would be left.',
        )
    groups: dict[str, list[int]] = {}
    for k, name in enumerate(opponents):
        groups.setdefault(families.get(name, name), []).append(k)
    note, what = '', 'family of partners'
    if len(groups) == 1:
        (family,) = groups
        note = f' All partners are of one family ({family}), so that this run cannot '
        note += 'say what another family would do.'
        groups, what = {name: [k] for k, name in enumerate(opponents)}, 'partner'
    cases = [
        Case(family, means_without(audited.values, 1, np.array(columns)))
        for family, columns in groups.items()
    ]
    return _result(PARTNERS, what, audited, cases, note)


def check_opener_blocks(audited: Audited, num_blocks: int) -> PartResult:
    """
    Return how far ranks and scores move without each block of openers.
    """
    size = audited.num_openers
    if size < 3:
        return left_out(
            OPENERS,
            'Blocks of openers are left out: the run has fewer than three openers.',
        )
    games = np.arange(size * audited.games_per_opener).reshape(-1, size)
    cases = [
        Case(
            _block_name(block),
            means_without(audited.values, 2, games[:, block].ravel()),
        )
        for block in np.array_split(np.arange(size), min(num_blocks, size))
    ]
    return _result(OPENERS, 'block of openers', audited, cases, '')


def _block_name(block: NDArray[np.int64]) -> str:
    first, last = int(block[0]) + 1, int(block[-1]) + 1
    return f'opener {first}' if first == last else f'openers {first} to {last}'


def _result(
    part: str, what: str, audited: Audited, cases: list[Case], note: str
) -> PartResult:
    """
    Return the finding on these cases: the largest swings, and the pairs that were told
    apart and change places.
    """
    moves = [
        (abs(rank - audited.ranks[k]), -n, k, case, rank)
        for n, case in enumerate(cases)
        if not np.isnan(case.means).any()  # else ranks are of fewer systems
        for k, rank in enumerate(ranks_of(case.means))
    ]
    places, _, system, case, rank = max(
        moves, key=lambda move: move[:2], default=(0, 0, 0, cases[0], 0)
    )
    drift = np.array([case.means - audited.means for case in cases])
    largest = np.unravel_index(int(np.nanargmax(np.abs(drift))), drift.shape)
    moved = int(largest[1])
    word = 'place' if places == 1 else 'places'
    rank_text = (
        f'at most {places} {word} ({audited.systems[system]}, from '
        f'{audited.ranks[system]} to {rank}, without {case.name})'
        if places
        else 'by no place'
    )
    text = (
        f'Without any one {what} of {len(cases)}, ranks move {rank_text}, scores at '
        f'most {audited.score(float(drift[largest]))} ({audited.systems[moved]}, '
        f'without {cases[int(largest[0])].name}); '
    )
    flips = [flipped_pairs(audited.means, case.means) for case in cases]
    pairs = sorted({pair for case in flips for pair in case})
    claimed = [pair for pair in pairs if audited.better[pair]]
    text += f'{_pairs_text(audited, pairs, claimed)}.'
    unscored = [
        f'{audited.systems[k]} without {case.name}'
        for case in cases
        for k in np.flatnonzero(np.isnan(case.means))
    ]
    if unscored:
        text += f' No score is left of {_first_names(unscored)}.'
    outcome = outcome_of(
        shown=audited.claims > 0 and not pairs and not unscored, refuted=bool(claimed)
    )
    return PartResult(
        (Finding(part, text + note, outcome),), tuple(_rows(part, audited, cases))
    )


def _pairs_text(
    audited: Audited, pairs: Sequence[Pair], claimed: Sequence[Pair]
) -> str:
    """
    Return which pairs change places, those that the ranking tells apart first.
    """
    if claimed:
        return (
            'told apart by the ranking, yet turned over: '
            f'{_pair_names(audited, claimed)}'
        )
    if pairs:
        needed = most_dialogues([_needed(audited, *pair) for pair in pairs])
        settling = settling_text(audited, needed, audited.num_openers)
        return (
            f'{_pair_names(audited, pairs)} change places, and the ranking does not '
            f'tell them apart; {settling}'
        )
    text = (
        f'no two systems change places; the ranking tells {audited.claims_text} apart'
    )
    if audited.claims:
        return text
    order = [k for k in audited.by_rank if k in audited.compared]
    by_pair = [_needed(audited, *pair) for pair in combinations(order, 2)]
    if not by_pair:
        return text
    fewest = min(by_pair, key=dialogues_first)
    settling = settling_text(audited, fewest, audited.num_openers)
    return f'{text}; {settling}'


def _needed(audited: Audited, better: int, worse: int) -> DialoguesNeeded:
    return openers_to_tell_apart(
        audited,
        audited.values[[better, worse]],
        (audited.systems[better], audited.systems[worse]),
        len(audited.systems),
        audited.games_per_opener,
    )


def _pair_names(audited: Audited, pairs: Sequence[Pair]) -> str:
    names = [f'{audited.systems[i]} and {audited.systems[j]}' for i, j in pairs]
    return _first_names(names)


def _first_names(names: Sequence[str]) -> str:
    more = [f'{len(names) - LISTED} more'] if len(names) > LISTED else []
    return join_names([*names[:LISTED], *more], 'as well as')


def _rows(part: str, audited: Audited, cases: list[Case]) -> list[Row]:
    rows = []
    for case in cases:
        for k, rank in enumerate(ranks_of(case.means)):
            mean, before = float(case.means[k]), float(audited.means[k])
            name, label = audited.systems[k], f'without {case.name}'
            rows += [
                Row(part, label, name, 'score', json_number(mean)),
                Row(part, label, name, 'score change', json_number(mean - before)),
                Row(part, label, name, 'rank', rank),
                Row(part, label, name, 'rank change', rank - audited.ranks[k]),
            ]
    return rows
