"""
Does an order depend on the partners or the openers? Each family of partners and each
block of openers is left out in turn.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from parlai_ext.audit.audited import (
    Audited,
    dialogues_first,
    first_names,
    openers_to_tell_apart,
    ranks_of,
    settling_text,
)
from parlai_ext.audit.record import PartResult, outcome_of
from parlai_ext.ranking.newcomers import flipped_pairs, means_without
from parlai_ext.ranking.separation import DialoguesNeeded
from parlai_ext.ranking.table import Floats, json_number

Pair = tuple[int, int]
Cases = Mapping[str, Floats]  # the systems' scores, by what was left out


def check_partner_families(audited: Audited, families: Mapping[str, str]) -> PartResult:
    """
    Return how far ranks and scores move without each family of partners.
    """
    result, opponents = PartResult('partner families'), audited.opponents
    if len(opponents) < 2:
        return result.leave_out(
            'Families of partners are left out: there is one partner only, and nothing '
            'would be left.'
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
    cases = {
        family: means_without(audited.values, 1, np.array(columns))
        for family, columns in groups.items()
    }
    return _add_cases(result, what, audited, cases, note)


def check_opener_blocks(audited: Audited, num_blocks: int) -> PartResult:
    """
    Return how far ranks and scores move without each block of openers.
    """
    result, size = PartResult('opener blocks'), audited.num_openers
    if size < 3:
        return result.leave_out(
            'Blocks of openers are left out: the run has fewer than three openers.'
        )
    games = np.arange(size * audited.games_per_opener).reshape(-1, size)
    cases = {}
    for block in np.array_split(np.arange(size), min(num_blocks, size)):
        first, last = int(block[0]) + 1, int(block[-1]) + 1
        name = f'opener {first}' if first == last else f'openers {first} to {last}'
        cases[name] = means_without(audited.values, 2, games[:, block].ravel())
    return _add_cases(result, 'block of openers', audited, cases)


def _add_cases(
    result: PartResult, what: str, audited: Audited, cases: Cases, note: str = ''
) -> PartResult:
    """
    Add the finding on these cases: the largest swings, and the pairs that were told
    apart and change places.
    """
    flips = [flipped_pairs(audited.means, means) for means in cases.values()]
    pairs = sorted({pair for case in flips for pair in case})
    claimed = [pair for pair in pairs if audited.better[pair]]
    unscored = [
        f'{audited.systems[k]} without {name}'
        for name, means in cases.items()
        for k in np.flatnonzero(np.isnan(means))
    ]
    text = (
        f'Without any one {what} of {len(cases)}, {_moves_text(audited, cases)}; '
        f'{_pairs_text(audited, pairs, claimed)}.'
    )
    if unscored:
        text += f' No score is left of {first_names(unscored, "as well as")}.'
    result.report(
        text + note,
        outcome_of(
            shown=audited.claims > 0 and not pairs and not unscored,
            refuted=bool(claimed),
        ),
    )
    for case, means in cases.items():
        for k, rank in enumerate(ranks_of(means)):
            mean, before = float(means[k]), float(audited.means[k])
            about = (f'without {case}', audited.systems[k])
            result.add(*about, 'score', json_number(mean))
            result.add(*about, 'score change', json_number(mean - before))
            result.add(*about, 'rank', rank)
            result.add(*about, 'rank change', rank - audited.ranks[k])
    return result


def _moves_text(audited: Audited, cases: Cases) -> str:
    """
    Return by how many places ranks, and by how much scores move at most.
    """
    names = list(cases)
    moves = [
        (abs(rank - audited.ranks[k]), -n, k, rank)
        for n, means in enumerate(cases.values())
        if not np.isnan(means).any()  # else ranks are of fewer systems
        for k, rank in enumerate(ranks_of(means))
    ]
    places, n, system, rank = max(moves, key=lambda one: one[:2], default=(0, 0, 0, 0))
    rank_text = 'by no place'
    if places:
        rank_text = (
            f'at most {places} {"place" if places == 1 else "places"} '
            f'({audited.systems[system]}, from {audited.ranks[system]} to {rank}, '
            f'without {names[-n]})'
        )
    drift = np.array(list(cases.values())) - audited.means
    case, moved = np.unravel_index(int(np.nanargmax(np.abs(drift))), drift.shape)
    return (
        f'ranks move {rank_text}, scores at most '
        f'{audited.score(float(drift[case, moved]))} ({audited.systems[int(moved)]}, '
        f'without {names[int(case)]})'
    )


def _pairs_text(
    audited: Audited, pairs: Sequence[Pair], claimed: Sequence[Pair]
) -> str:
    """
    Return which pairs change places, those that the ranking tells apart first.
    """

    def needed(pair: Pair) -> DialoguesNeeded:
        return openers_to_tell_apart(
            audited,
            audited.values[list(pair)],
            (audited.systems[pair[0]], audited.systems[pair[1]]),
            len(audited.systems),
            audited.games_per_opener,
        )

    names = first_names([audited.pair_name(p) for p in claimed or pairs], 'as well as')
    if claimed:
        return f'told apart by the ranking, yet turned over: {names}'
    if pairs:
        most = max(map(needed, pairs), key=dialogues_first)
        settling = settling_text(audited, most, audited.num_openers)
        return (
            f'{names} change places, and the ranking does not tell them apart; '
            f'{settling}'
        )
    text = 'no two systems change places; the ranking tells '
    text += f'{audited.claims_text} apart'
    order = [k for k in audited.by_rank if k in audited.compared]
    if audited.claims or len(order) < 2:
        return text
    fewest = min(map(needed, combinations(order, 2)), key=dialogues_first)
    return f'{text}; {settling_text(audited, fewest, audited.num_openers)}'
