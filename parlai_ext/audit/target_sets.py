"""
Does an order depend on which systems are compared? Every small set of targets, sets of
one system with two siblings of it, and what siblings do to each other's scores
(bipartite-play, 2022, sections 3 and 7.2).
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product
from operator import attrgetter
from pathlib import Path

import numpy as np

from parlai_ext.audit.audited import NO_SYSTEM, Audited, middle_of, outcome_of_equality
from parlai_ext.audit.record import (
    HOLDS,
    NOT_SHOWN,
    Audit,
    LeftOut,
    PartResult,
    outcome_of,
)
from parlai_ext.core import UserError, frozen, require_known
from parlai_ext.files import read_shipped, text_lines
from parlai_ext.ranking.intervals import (
    FEWEST_OPENERS,
    Bools,
    Estimate,
    Floats,
    Ints,
    Sampling,
    draw_counts,
    json_number,
    round_off_noise,
)
from parlai_ext.ranking.standings import Standing, rank_dimension, score_gap
from parlai_ext.view import shown_table
from parlai_ext.view.page import terminal_lines, terminal_sentence

MOST_SETS = 200_000
CELLS = (  # of Table 6, row by row
    'favored wins fair and unfair',
    'favored wins fair, loses unfair',
    'favored loses fair, wins unfair',
    'favored loses fair and unfair',
)
MOST_RANKED_SETS = 200  # sets that are ranked as a run is
FEW_BOOTSTRAPS = 100
SET_SIZE = 4  # as in the paper


# --- sets of systems, each ranked by itself ------------------------------------------
# In all-play-all the opponents of a system are the other systems of the set, so that a
# set can be chosen to make a system look bad. With fixed partners no score depends on
# the set. Both follow from one computation: a system's mean in a set is over its
# dialogues with opponents that are in the set, and with those that are no system of any
# set.
#
# Tables are ``[system, opponent, opener]`` as in `ranking.intervals`.


@frozen
class SetMeans:
    """
    The means of the systems of many sets.

    :param sets: ``[set, member]``, places of systems.
    :param means: the same shape: each member's mean in its set; NaN without dialogues.
    :param full: ``[system]``: its mean with all opponents.
    """

    sets: Ints
    means: Floats
    full: Floats


@frozen
class Swing:
    """
    How far choosing a set can move one system.

    `gain` and `loss` are the largest numbers of places that it rises and falls among
    the members of a set, against its place among the same members with all opponents;
    the sets are places of systems.
    """

    system: int
    gain: int
    gain_set: tuple[int, ...]
    loss: int
    loss_set: tuple[int, ...]


@frozen
class Turn:
    """
    Two systems of which one is better in the fair set and the other in the unfair one.
    """

    better: int
    worse: int
    fair_set: tuple[int, ...]
    unfair_set: tuple[int, ...]


@frozen
class Overturned(Turn):
    """
    Two systems that change places in `n_overturned` of the `n_sets` sets with both.

    The fair set is all systems; `margin` is by how much `worse` leads in the unfair
    one, where it leads most.
    """

    n_sets: int
    n_overturned: int
    margin: float


@frozen
class UnfairSets:
    """
    Table 6 for one unfavored system: how many favored systems win or lose against it
    in the set of all systems without two siblings (fair), and in a set with them
    (unfair).

    :param counts: of those that win in both, in the fair set only, in the unfair one
        only, and in neither.
    """

    unfavored: int
    siblings: tuple[int, ...]
    counts: tuple[int, ...]
    turns: tuple[Turn, ...] = ()


def set_means(values: Floats, own_place: Sequence[int], sets: Ints) -> SetMeans:
    """
    Return the means of the systems of each set.

    :param values: ``[system, opponent, opener]``.
    :param own_place: for each opponent the system that it is, or `NO_SYSTEM`.
    """
    # sums of scores, and their counts: with all opponents that stay, and of systems
    scored = ~np.isnan(values)
    sums = np.where(scored, values, 0.0).sum(axis=2)
    pairs = np.stack([sums, scored.sum(axis=2).astype(np.float64)])
    places = np.array(own_place)
    base = pairs[:, :, places == NO_SYSTEM].sum(axis=2)
    between = np.zeros((2, len(values), len(values)))
    between[:, :, places[places != NO_SYSTEM]] = pairs[:, :, places != NO_SYSTEM]
    inside = between[:, sets[:, :, None], sets[:, None, :]].sum(axis=3)
    total, n_scored = base[:, sets] + inside
    all_total, all_scored = base + between.sum(axis=2)
    with np.errstate(invalid='ignore'):
        means, full = total / n_scored, all_total / all_scored
    return SetMeans(sets, round_off_noise(means), round_off_noise(full))


def _ranks(means: Floats) -> Ints:
    """
    Return, for each row, one more than the number of larger means in it.
    """
    return 1 + (means[:, None, :] > means[:, :, None]).sum(axis=2)


def swings(result: SetMeans) -> list[Swing]:
    """
    Return the largest rise and fall of each system over all sets that it is in; of sets
    that move it equally far, the first.
    """
    rise = _ranks(result.full[result.sets]) - _ranks(result.means)
    rows = []
    for system in range(len(result.full)):
        at, member = np.nonzero(result.sets == system)
        moves = rise[at, member]
        best, worst = int(moves.argmax()), int(moves.argmin())
        rows.append(
            Swing(
                system,
                max(0, int(moves[best])),
                tuple(result.sets[at[best]].tolist()),
                max(0, -int(moves[worst])),
                tuple(result.sets[at[worst]].tolist()),
            )
        )
    return rows


def overturned_pairs(result: SetMeans) -> list[Overturned]:
    """
    Return every pair of systems with different full means that changes places in some
    set, the most lopsided first.
    """
    pairs = []
    systems = range(len(result.full))
    for better, worse in permutations(systems, 2):
        if not result.full[better] > result.full[worse]:
            continue
        is_worse, is_better = result.sets == worse, result.sets == better
        both = is_worse.any(axis=1) & is_better.any(axis=1)
        means = result.means[both]
        leads = means[is_worse[both]] - means[is_better[both]]
        if (leads > 0).any():
            worst = int(np.nanargmax(leads))
            unfair = tuple(result.sets[both][worst].tolist())
            n_overturned, margin = int((leads > 0).sum()), float(leads[worst])
            turn = (better, worse, tuple(systems), unfair)
            pairs.append(Overturned(*turn, len(leads), n_overturned, margin))
    return sorted(pairs, key=lambda pair: (-pair.margin, pair.better, pair.worse))


def unfair_sets(
    values: Floats, own_place: Sequence[int], families: Sequence[str | None]
) -> Iterator[UnfairSets]:
    """
    Yield Table 6 for each unfavored system and each two siblings of it.

    As in the paper, the fair set is all systems without the two siblings, and each of
    its other systems is favored once.

    :param values: ``[system, opponent, opener]``.
    :param own_place: for each opponent the system that it is, or `NO_SYSTEM`.
    :param families: of each system; `None` has no siblings.
    """
    for unfavored, family in enumerate(families):
        kin = [
            k
            for k, other in enumerate(families)
            if family is not None and other == family and k != unfavored
        ]
        for siblings in combinations(kin, 2):
            fair_set = [k for k in range(len(values)) if k not in siblings]
            if len(fair_set) > 1:
                yield unfair_set(values, own_place, unfavored, siblings, fair_set)


def unfair_set(
    values: Floats,
    own_place: Sequence[int],
    unfavored: int,
    siblings: tuple[int, ...],
    fair_set: Sequence[int],
) -> UnfairSets:
    """
    Return Table 6 for one unfavored system and its siblings: each other system of the
    fair set is favored once.
    """
    fair = _mean_by_system(values, own_place, fair_set)
    counts: Counter[tuple[bool, ...]] = Counter()
    turns = []
    for favored in fair_set:
        if favored == unfavored:
            continue
        members = sorted((favored, unfavored, *siblings))
        unfair = _mean_by_system(values, own_place, members)
        wins = tuple(one[favored] > one[unfavored] for one in (fair, unfair))
        counts[wins] += 1
        if wins in ((True, False), (False, True)):
            order = (favored, unfavored) if wins[0] else (unfavored, favored)
            turns.append(Turn(*order, tuple(fair_set), tuple(members)))
    cells = tuple(counts[wins] for wins in product((True, False), repeat=2))
    return UnfairSets(unfavored, siblings, cells, tuple(turns))


def _mean_by_system(
    values: Floats, own_place: Sequence[int], members: Sequence[int]
) -> dict[int, float]:
    means = set_means(values, own_place, np.array([members])).means[0]
    return dict(zip(members, means.tolist(), strict=True))


def sibling_effect(
    values: Floats,
    own_place: Sequence[int],
    families: Sequence[str | None],
    sampling: Sampling,
) -> tuple[float, Floats] | None:
    """
    Return by how much dialogues with a sibling score above what the two systems' other
    dialogues lead to expect, and bootstrap draws of it over openers.

    Expected is the sum of an effect of the system and one of its opponent, fitted by
    least squares to the mean scores of pairs that are no siblings. `None` where there
    are no siblings, or the other pairs do not determine what is expected of them.
    """
    scored = ~np.isnan(values)
    played = np.asarray(scored.any(axis=2))
    kin = [families[place] if place != NO_SYSTEM else None for place in own_place]
    same = [[f is not None and f == g for g in kin] for f in families]
    sibling = played & np.array(same, bool).reshape(played.shape)
    weights = _effect_weights(played, sibling)
    if weights is None:
        return None
    cells = np.where(scored, values, 0.0)
    rng = np.random.default_rng([sampling.seed, 0])
    drawn = draw_counts(values.shape[2], sampling.bootstraps, rng)
    counts = np.concatenate([np.ones((1, values.shape[2])), drawn])
    sums, numbers = (
        np.einsum('bj,tpj->btp', counts, side)
        for side in (cells, scored.astype(np.float64))
    )
    with np.errstate(invalid='ignore', divide='ignore'):
        means = sums / numbers
    effects = np.where(weights != 0, means * weights, 0.0).sum(axis=(1, 2))
    return float(effects[0]), effects[1:]


def _effect_weights(played: Bools, sibling: Bools) -> Floats | None:
    """
    Return ``[system, opponent]``: the sibling effect is the sum of the mean scores with
    these weights.
    """
    if not sibling.any():
        return None
    num_systems, num_opponents = played.shape

    def design(cells: Bools) -> Floats:
        rows, columns = np.nonzero(cells)
        return np.hstack([np.eye(num_systems)[rows], np.eye(num_opponents)[columns]])

    others = played & ~sibling
    fit, wanted = design(others), design(sibling)
    if not len(fit):
        return None
    inverse = np.linalg.pinv(fit)
    if not np.allclose(wanted @ inverse @ fit, wanted, atol=1e-8):
        return None
    weights = np.zeros(played.shape)
    weights[sibling] = 1 / sibling.sum()
    weights[others] = -(wanted.mean(axis=0) @ inverse)
    return weights


# --- what a paper found, and families ------------------------------------------------


def published(name: str) -> str:
    """
    Return what the paper found, to be held beside a finding.
    """
    return str(read_shipped('published', 'bipartite_play').data[name])


def siblings(audited: Audited) -> list[str | None]:
    """
    Return the family of each system that is not alone in it, else `None`.
    """
    names = [audited.families[name] for name in audited.systems]
    return [family if names.count(family) > 1 else None for family in names]


# ------------------------------------------------------------------------ the checks


def check_target_sets(part: PartResult, audited: Audited) -> None:
    """
    Add how ranks change with the set of targets, and by how much at worst.
    """
    n_systems, size = len(audited.systems), audited.asked.set_size
    if size is None:
        size = min(SET_SIZE, n_systems - 1)
    elif size >= n_systems:
        raise UserError(f'--set-size {size}: less than the {n_systems} systems is due')
    if size < 2:
        raise LeftOut(f'{n_systems} systems have no smaller set with an order in it')
    n_sets = math.comb(n_systems, size)
    if n_sets > MOST_SETS:
        raise LeftOut(
            f'{n_systems} systems have {n_sets:,} sets of {size}; a smaller --set-size '
            'has fewer'
        )
    sets = np.array(list(combinations(range(n_systems), size)))
    means = set_means(audited.values, audited.own_place, sets)
    if all(place == NO_SYSTEM for place in audited.own_place):
        _add_proof(audited, means, part)
    else:
        _add_swings(audited, means, part)


def _add_proof(audited: Audited, result: SetMeans, part: PartResult) -> None:
    """
    Add whether scores and order stay when sets of targets are ranked as a run is.
    """
    sets = result.sets
    step = -(-len(sets) // MOST_RANKED_SETS)
    ranked_sets, size = sets[::step], sets.shape[1]
    scores, orders = changed_when_alone(audited, ranked_sets)
    counts = {
        'changed scores': scores,
        'compared scores': ranked_sets.size,
        'changed orders': orders,
        'compared orders': len(ranked_sets) * math.comb(size, 2),
    }
    holds = not (scores or orders or (result.means != result.full[sets]).any())
    text = terminal_sentence(
        'target_proof',
        audited=audited,
        n_ranked=len(ranked_sets),
        n_sets=len(sets),
        size=size,
        holds=holds,
        counts=counts,
    )
    part.report(text, outcome_of(shown=holds, refuted=not holds))
    part.add(f'sets of {size}', '', counts)


def changed_when_alone(audited: Audited, sets: Ints) -> tuple[int, int]:
    """
    Return how many scores with their intervals, and how many orders of two, are others
    when the systems of each set are ranked by themselves.
    """
    whole = _ranked(audited, range(len(audited.systems)))
    # what of a standing must not depend on other targets: its rank interval may,
    # because it holds for all targets together
    numbers = attrgetter('score', 'low', 'high', 'low_fixed', 'high_fixed')
    scores = orders = 0
    for members in sets.tolist():
        alone = _ranked(audited, members)
        full = [whole[k] for k in members]
        both = zip(alone, full, strict=True)
        scores += sum(numbers(one) != numbers(other) for one, other in both)
        # each pair is there twice
        orders += int((_orders(alone) != _orders(full)).sum()) // 2
    return scores, orders


def _ranked(audited: Audited, members: Sequence[int]) -> Sequence[Standing]:
    """
    Return the standings of these systems when they alone are ranked.
    """
    places, sampling = list(members), audited.sampling
    standings, _ = rank_dimension(
        audited.values[places],
        audited.names(places),
        replace(sampling, bootstraps=min(FEW_BOOTSTRAPS, sampling.bootstraps)),
        ranked=[True] * len(places),
        counts=[(0, 0)] * len(places),
    )
    return standings


def _orders(standings: Sequence[Standing]) -> Ints:
    """
    Return ``[i, j]``: 1 where the first of two systems is behind the other, -1 where it
    is ahead, 0 for equal ranks.
    """
    ranks = np.array([one.rank or 0 for one in standings])
    return np.sign(ranks[:, None] - ranks)


def _add_swings(audited: Audited, result: SetMeans, part: PartResult) -> None:
    """
    Add the worst swing of each system, and which pairs can be turned over.
    """
    every_swing, pairs = swings(result), overturned_pairs(result)
    sure = [pair for pair in pairs if _is_sure(audited, pair)]
    n_silent = int(np.isnan(result.means).any(axis=1).sum())
    text, *more = terminal_lines(
        'target_sets',
        audited=audited,
        sets=result.sets,
        n_pairs=math.comb(len(audited.systems), 2),
        pairs=pairs,
        sure=sure,
        moved=[one for one in every_swing if one.gain or one.loss],
        worst=max(every_swing, key=lambda one: max(one.gain, one.loss)),
        n_silent=n_silent,
    )
    outcome = _outcome_of_turns(audited, len(pairs), len(sure))
    part.report(text, NOT_SHOWN if n_silent and outcome == HOLDS else outcome)
    for line in more:
        part.report(line)
    for one in every_swing:
        for quantity, places, own in (
            ('places gained', one.gain, one.gain_set),
            ('places lost', one.loss, one.loss_set),
        ):
            case = ' + '.join(audited.names(own)) if places else 'any set'
            part.add(case, audited.systems[one.system], {quantity: places})
    for pair in pairs:
        members = ' + '.join(audited.names(pair.unfair_set))
        case = f'{audited.pair_name((pair.worse, pair.better), "over")}: {members}'
        part.add(case, '', {'lead in the worst set': json_number(pair.margin)})


def _outcome_of_turns(audited: Audited, n_turns: int, n_sure: int) -> str:
    """
    Return the outcome of a check that counts orders turned over by a set, some of them
    beyond chance. Where the ranking tells nothing apart but floors, there is no order
    that a set could turn over.
    """
    shown = not n_turns and audited.claims > 0
    return outcome_of(shown=shown, refuted=n_sure > 0)


def _is_sure(audited: Audited, turn: Turn) -> bool:
    """
    True if both orders of two systems are beyond chance: the one within the fair set,
    and the other one within the unfair set. Systems of a set meet those in it, and
    those that are no ranked system.
    """
    values, met = audited.values[[turn.better, turn.worse]], audited.own_place
    fair, unfair = (
        score_gap(values[:, np.isin(met, (NO_SYSTEM, *members))], audited.sampling)
        for members in (turn.fair_set, turn.unfair_set)
    )
    return (fair.low or 0) > 0 and (unfair.high or 0) < 0


def check_unfair_sets(result: PartResult, audited: Audited) -> None:
    """
    Add how favored systems do in sets with an unfavored one that has two siblings
    among the targets, for every such system or the one that is named (Table 6 of the
    paper).

    :raises UserError: for a named system that is not audited.
    """
    tables = tables_six(audited)
    _, lost, gained, _ = np.sum([table.counts for table in tables], axis=0).tolist()
    n_favored = sum(sum(table.counts) for table in tables)
    n_sure = sum(_is_sure(audited, turn) for one in tables for turn in one.turns)
    text = terminal_sentence(
        'table_six',
        audited=audited,
        gained=gained,
        lost=lost,
        n_favored=n_favored,
        n_sure=n_sure,
        most=max(tables, key=lambda one: one.counts[2]),
        published=published('table_6'),
    )
    result.report(text, _outcome_of_turns(audited, gained + lost, n_sure))
    for table in tables:
        case = 'with ' + ' + '.join(audited.names(table.siblings))
        counts = dict(zip(CELLS, table.counts, strict=True))
        result.add(case, audited.systems[table.unfavored], counts)


def tables_six(audited: Audited) -> list[UnfairSets]:
    """
    Return Table 6 of the system that is named, or of each system with two siblings.

    :raises LeftOut: where there is none.
    """
    pairing = audited.plan.protocol.pairing
    if pairing != 'all_play_all':
        kind = 'bipartite-play' if pairing == 'bipartite' else pairing.replace('_', '-')
        raise LeftOut(
            'it is of runs in which every target talks with every other one (--pairing '
            f'all_play_all); this one is {kind}'
        )
    if audited.asked.unfavored:
        tables = [_named_set(audited)]
    else:
        kin = siblings(audited)
        tables = list(unfair_sets(audited.values, audited.own_place, kin))
    if len(audited.systems) < 4 or not tables:
        raise LeftOut(
            'it takes three targets of one family and another one; a roster declares '
            'families (family:)'
        )
    return tables


def _named_set(audited: Audited) -> UnfairSets:
    """
    Return Table 6 of the systems that the user names.
    """
    options, fair, lines = audited.asked, '--fair-set', []
    if options.fair_set:
        fair += f' {options.fair_set}'
        lines = [line.strip() for _, line in text_lines(Path(options.fair_set))]

    def places(option: str, names: Sequence[str]) -> tuple[int, ...]:
        for name in names:
            problem = f'{option}: no audited system {name!r}'
            require_known(name, audited.systems, problem)
        return tuple(sorted(audited.systems.index(name) for name in {*names}))

    similar = places('--similar', options.similar)
    (unfavored,) = places('--unfavored', [options.unfavored or ''])
    others = sorted({*range(len(audited.systems))} - {*similar})
    fair_set = places(fair, lines) or others
    if not similar or {*similar} & {unfavored, *fair_set} or len(fair_set) < 2:
        raise UserError(
            '--similar: systems are expected that are neither the unfavored one nor in '
            'the fair set of two or more'
        )
    if unfavored not in fair_set:
        raise UserError(f'{fair}: {options.unfavored!r} is not in it')
    return unfair_set(audited.values, audited.own_place, unfavored, similar, fair_set)


def table_six_lines(audit: Audit) -> Iterator[str]:
    """
    Yield the counts of Table 6 as the paper prints them, for one unfavored system.
    """
    rows = [row for row in audit.rows if row.quantity in CELLS]
    counts = {row.quantity: row.value for row in rows}
    cells = [f'{counts.get(cell, 0):g}' for cell in CELLS]
    yield f'Table 6: {rows[0].system} {rows[0].case}'
    headings = ('fair \\ unfair', 'favored wins', 'favored loses')
    lines = [('favored wins', *cells[:2]), ('favored loses', *cells[2:])]
    yield from shown_table(headings, lines).lines('  ')


def check_siblings(result: PartResult, audited: Audited) -> None:
    """
    Add whether systems of one family score otherwise with each other than with
    others.
    """
    if all(place == NO_SYSTEM for place in audited.own_place):
        raise LeftOut('no two targets talked with each other')
    kin = siblings(audited)
    drawn = sibling_effect(audited.values, audited.own_place, kin, audited.sampling)
    if drawn is None:
        raise LeftOut(
            'no two systems of one family talked with each other, or too few others '
            'did, which would tell what to expect of them; a roster declares families '
            '(family:)'
        )
    value, draws = drawn
    low, high = middle_of(draws)
    if audited.num_openers < FEWEST_OPENERS:
        low = high = None
    effect = Estimate(json_number(value), low, high)
    result.add('all families', '', {'effect': effect})
    text = terminal_sentence(
        'siblings', effect=effect, value=value, published=published('siblings')
    )
    result.report(text, outcome_of_equality(audited, effect))
