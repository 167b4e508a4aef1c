"""
Checks whether the order of the systems depends on choices: the systems that are
compared, the partners, the openers, the judge.

Each family of partners and each block of openers is left out in turn; every scorer that
has scored the run, and the trivial measures, rank the same systems; the variance of
scores is divided into what systems, partners and openers make of it; and every small
set of targets is ranked by itself, sets of one system with two siblings of it, too
(bipartite-play, 2022, sections 3 and 7.2).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, permutations, product
from operator import attrgetter
from pathlib import Path

import numpy as np

from parlai_ext.audit.record import (
    HOLDS,
    LEFT_OUT,
    NO_SYSTEM,
    NOT_SHOWN,
    Audit,
    Audited,
    LeftOut,
    PartResult,
    dialogues_first,
    middle_of,
    outcome_of,
    outcome_of_equality,
    settling_text,
)
from parlai_ext.core import UserError, frozen, grouped, require_known, scorer_name
from parlai_ext.files import read_shipped, text_lines
from parlai_ext.ranking.agreement import kendall, spearman
from parlai_ext.ranking.intervals import (
    FEWEST_OPENERS,
    Bools,
    Estimate,
    Floats,
    Ints,
    Sampling,
    draw_counts,
    draw_means,
    json_number,
    round_off_noise,
    system_means,
)
from parlai_ext.ranking.standings import (
    DialoguesNeeded,
    Standing,
    dialogues_needed,
    flipped_pairs,
    fold_games,
    rank_dimension,
    ranks_by_score,
    score_gap,
    significantly_better,
)
from parlai_ext.results.ranking import chosen_dimension, read_run_scores
from parlai_ext.view import shown_table
from parlai_ext.view.page import terminal_lines, terminal_sentence

Pair = tuple[int, int]
Cases = Mapping[str, Floats]  # the systems' scores, by what was left out


def check_partner_families(result: PartResult, audited: Audited) -> None:
    """
    Add how far ranks and scores move without each family of partners.
    """
    opponents = audited.opponents
    if len(opponents) < 2:
        raise LeftOut('there is one partner only, and nothing would be left')
    groups = grouped((audited.families[name], k) for k, name in enumerate(opponents))
    note, what = '', 'family of partners'
    if len(groups) == 1:
        (family,) = groups
        note = f' All partners are of one family ({family}), so that this run cannot '
        note += 'say what another family would do.'
        groups, what = {name: [k] for k, name in enumerate(opponents)}, 'partner'
    cases = {
        family: system_means(np.delete(audited.values, columns, 1))
        for family, columns in groups.items()
    }
    _add_cases(result, what, audited, cases, note)


def check_opener_blocks(result: PartResult, audited: Audited) -> None:
    """
    Add how far ranks and scores move without each block of openers.
    """
    size = audited.num_openers
    if size < 3:
        raise LeftOut('the run has fewer than three openers')
    games = np.arange(audited.values.shape[2]).reshape(-1, size)
    cases = {}
    n_blocks = min(audited.asked.opener_blocks, size)
    for block in np.array_split(np.arange(size), n_blocks):
        first, last = int(block[0]) + 1, int(block[-1]) + 1
        name = f'opener {first}' if first == last else f'openers {first} to {last}'
        cases[name] = system_means(np.delete(audited.values, games[:, block], 2))
    _add_cases(result, 'block of openers', audited, cases)


def _add_cases(
    result: PartResult, what: str, audited: Audited, cases: Cases, note: str = ''
) -> None:
    """
    Add the finding on these cases: the largest swings, and the pairs that were told
    apart and change places.
    """
    means = np.array(list(cases.values()))
    moves = np.array(list(map(ranks_by_score, means))) - audited.ranks
    moves[np.isnan(means).any(axis=1)] = 0  # there ranks are of fewer systems
    drift = means - audited.means
    pairs = sorted({p for own in means for p in flipped_pairs(audited.means, own)})
    claimed = [pair for pair in pairs if audited.better[pair]]
    silent, names = np.argwhere(np.isnan(means)).tolist(), list(cases)
    text = terminal_sentence(
        'left_out',
        audited=audited,
        what=what,
        names=names,
        move=_largest(moves),
        drift=_largest(drift),
        pairs=list(map(audited.pair_name, claimed or pairs)),
        is_claimed=bool(claimed),
        settling='' if claimed else _settling_text(audited, pairs),
        silent=[f'{audited.systems[k]} without {names[n]}' for n, k in silent],
    )
    outcome = outcome_of(
        shown=audited.claims > 0 and not pairs and not silent, refuted=bool(claimed)
    )
    result.report(text + note, outcome)
    for n, case in enumerate(cases):
        for k, rank in enumerate(ranks_by_score(means[n])):
            numbers = {
                'score': json_number(means[n, k]),
                'score change': json_number(drift[n, k]),
                'rank': rank,
                'rank change': rank - audited.ranks[k],
            }
            result.add(f'without {case}', audited.systems[k], numbers)


def _largest(changes: Floats | Ints) -> tuple[int, int, float]:
    """
    Return case and system of the change that is farthest from 0, the first of equal
    ones, and the change.
    """
    place = int(np.nanargmax(np.abs(changes)))
    return *divmod(place, changes.shape[1]), changes.flat[place].item()


def _settling_text(audited: Audited, pairs: Sequence[Pair]) -> str:
    """
    Return about how many openers would tell these pairs apart. Without any, where the
    ranking tells no two systems apart either, the nearest two; else ''.
    """

    def needed(pair: Pair) -> DialoguesNeeded:
        first, second = pair
        return dialogues_needed(
            (audited.systems[first], audited.systems[second]),
            audited.values[[first, second]],
            math.comb(len(audited.systems), 2),
            audited.sampling,
        )

    order = [k for k in audited.by_rank if k in audited.compared]
    if pairs:
        wanted = max(map(needed, pairs), key=dialogues_first)
    elif audited.claims or len(order) < 2:
        return ''
    else:
        wanted = min(map(needed, combinations(order, 2)), key=dialogues_first)
    return settling_text(audited, wanted, audited.num_openers)


def check_judge_swap(result: PartResult, audited: Audited) -> None:
    """
    Add how the ranking agrees with those of the run's other scorers that gave a score,
    each by its overall or first dimension.
    """
    for store in audited.run.score_stores():
        if store.signature == audited.scores.scorer_signature:
            continue
        tables = read_run_scores(audited.run, store.signature, {}).tables
        dimension = chosen_dimension(tables.scores)
        name = f'{scorer_name(store.signature)} {store.root.name[:6]} on {dimension}'
        values = tables.cells(
            tables.scores[dimension], audited.systems, audited.opponents
        )
        if not np.isnan(values).all():
            _compare(audited, name, values, result, is_scorer=True)
    if not result.findings:
        result.report(
            'Other judges are left out: one scorer only has scored this run; '
            '`parlai score_dialogues --scorer NAME` adds one.',
            LEFT_OUT,
        )
    tables = audited.scores.tables
    for name, values in tables.signed_baselines.items():
        values = tables.cells(values, audited.systems, audited.opponents)
        _compare(audited, name.replace('_', ' '), values, result, is_scorer=False)


def _compare(
    audited: Audited, name: str, values: Floats, result: PartResult, is_scorer: bool
) -> None:
    """
    Add the rank correlations with another judge, and the pairs that flip: of a scorer
    a finding, too.

    :param values: of the judge; larger ones are better.
    """
    theirs = system_means(values)
    known = ~np.isnan(theirs)
    mine, swapped = audited.means[known], theirs[known]
    tau, rho = (
        json_number(coefficient(mine[None], swapped[None])[0])
        for coefficient in (kendall, spearman)
    )
    flips = flipped_pairs(audited.means, theirs)  # of those with both
    better = significantly_better(draw_means(values, audited.sampling))
    disputed = [(i, j) for i, j in flips if audited.better[i, j] and better[j, i]]
    result.add(name, '', {'Kendall tau-b': tau, 'Spearman rho': rho})
    for k, rank in enumerate(ranks_by_score(theirs)):
        if known[k]:
            result.add(name, audited.systems[k], {'rank': rank})
    for pair in flips:
        case = f'{name}: {audited.pair_name(pair, "over")}'
        result.add(case, '', {'flips beyond chance': float(pair in disputed)})
    if not is_scorer:
        return
    n_pairs = math.comb(len(mine), 2)
    n_alike = int((audited.better & better).sum())
    text = terminal_sentence(
        'judge_swap',
        name=name,
        tau=tau,
        rho=rho,
        n_flips=len(flips),
        n_pairs=n_pairs,
        disputed=[audited.pair_name(pair, 'over') for pair in disputed],
        n_alike=n_alike,
    )
    outcome = outcome_of(
        shown=0 < n_pairs <= 2 * n_alike,
        refuted=bool(disputed) or (tau is not None and tau <= 0),
    )
    result.report(text, outcome)


# --- shares of the variance -----------------------------------------------------------

FACTORS = ('system', 'partner', 'opener')
REST = 'rest'
# what the choice of partners and openers could change in a ranking; with one partner or
# one opener a part of it cannot be told from the rest
WITH_SYSTEM = ('system × partner', 'system × opener')


@frozen
class VarianceShares:
    """
    Variance components by name (``system``, ``system × partner``, …, ``rest``), of
    which one is above 0.
    """

    components: Mapping[str, float]

    @cached_property
    def shares(self) -> dict[str, float]:
        """
        The shares of the components, which sum to 1.
        """
        counted = {name: max(0.0, value) for name, value in self.components.items()}
        total = sum(counted.values())
        return {name: value / total for name, value in counted.items()}

    @property
    def tells_all(self) -> bool:
        """
        True if what a choice of partners and openers could change is apart from the
        rest.
        """
        return all(name in self.components for name in WITH_SYSTEM)

    @property
    def system_and_choice(self) -> tuple[float, float]:
        """
        The shares of the system, and of what a choice of partners and openers could
        change at most.
        """
        names = WITH_SYSTEM if self.tells_all else (*WITH_SYSTEM, REST)
        of_choice = sum(self.shares.get(name, 0.0) for name in names)
        return self.shares.get('system', 0.0), of_choice


def variance_shares(values: Floats) -> VarianceShares | None:
    """
    Return the variance components of ``[system, partner, opener]`` scores and their
    shares; `None` where they cannot be told apart (fewer than two levels, no variance,
    too few scores).

    **Model.** The score of system ``t`` with partner ``p`` over opener ``j`` is the sum
    of a mean, an effect of each of the three, an effect of each pair of them (a system
    that does well with one partner: system × partner), and the rest, all independent
    with mean 0: crossed random effects, the two- and three-facet design of
    generalizability theory (Brennan 2001, "Generalizability Theory", chapter 4).

    **Estimate.** Henderson's method I (Henderson 1953, "Estimation of variance and
    covariance components", Biometrics 9): for each set of factors the sum over its
    cells of ``n * mean²``, and its expectation under the model, which is linear in the
    components; the equations are solved. Where every cell has a score these are the
    classical ANOVA estimates; where cells are missing, as on the diagonal of
    all-play-all, they are unbiased all the same. One below 0 counts as 0 in a share.

    **Limits.** Five systems are five draws from the systems that there might be: the
    share of systems is rough, and it is of *these* systems. A factor with one level has
    no component.
    """
    scored = ~np.isnan(values)
    levels = [
        np.flatnonzero(scored.any(axis=_others([axis], values.ndim)))
        for axis in range(values.ndim)
    ]
    axes = [axis for axis, own in enumerate(levels) if len(own) > 1]
    if not axes:
        return None
    for axis in _others(axes, values.ndim)[::-1]:
        values = np.asarray(values.take(levels[axis][0], axis))
    components = _components(values, [FACTORS[k] for k in axes])
    if components is None or max(components.values()) <= 0:
        return None
    return VarianceShares(components)


def _others(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    return tuple(k for k in range(ndim) if k not in axes)


def _components(values: Floats, names: list[str]) -> dict[str, float] | None:
    """
    Return the variance components of a table whose axes are these factors; the effect
    of all factors together is the rest.
    """
    present = ~np.isnan(values)
    counts = present.astype(np.float64)
    # centred, so that squares keep their digits
    cells = np.where(present, values - values[present].mean(), 0.0)
    axes = range(values.ndim)
    effects = [effect for k in axes for effect in combinations(axes, k + 1)]
    squares = []  # for each effect, the sum over its cells of n * mean²
    for effect in effects:
        away = _others(effect, values.ndim)
        sums, numbers = cells.sum(axis=away), counts.sum(axis=away)
        squares.append(float(np.sum(sums**2 / np.where(numbers > 0, numbers, 1))))
    grand = float(cells.sum()) ** 2 / counts.sum()
    matrix = np.array(
        [
            [_coefficient(counts, rows, effect) for effect in effects]
            for rows in [(), *effects]
        ]
    )
    # the mean's own square is in every sum, N times: it goes with the first row
    equations = matrix[1:] - matrix[0]
    right = np.array(squares) - grand
    if np.linalg.matrix_rank(equations) < len(effects):
        return None
    estimates = np.linalg.solve(equations, right)
    return {
        REST if len(effect) == values.ndim else ' × '.join(names[k] for k in effect): (
            float(estimate)
        )
        for effect, estimate in zip(effects, estimates, strict=True)
    }


def _coefficient(
    counts: Floats, rows: tuple[int, ...], effect: tuple[int, ...]
) -> float:
    """
    Return how often the variance of ``effect`` is in the expected sum of squares of the
    cells of ``rows``.
    """
    away = _others((*rows, *effect), counts.ndim)
    joint = counts.sum(axis=away, keepdims=True)
    levels = tuple(k for k in effect if k not in rows)
    squares = (joint**2).sum(axis=levels, keepdims=True)
    numbers = counts.sum(axis=_others(rows, counts.ndim), keepdims=True)
    return float(np.sum(squares / np.where(numbers > 0, numbers, 1)))


RESAMPLES = 200


def check_variance(result: PartResult, audited: Audited) -> None:
    """
    Add what share of the variance of scores comes from systems, partners, openers
    and their interactions. Floors are left out, where two other systems are ranked:
    they make the share of systems as large as they are bad.
    """
    if not audited.plan.scheme.is_played:
        raise LeftOut('the openers of imported dialogues are unknown')
    # the mean of a pair's games over one opener
    every = fold_games(audited.values, audited.sampling.games_per_opener)
    table = every[audited.compared]
    shares = variance_shares(table)
    if shares is None or 'system' not in shares.shares:
        raise LeftOut('there are too few dialogues, or their scores do not vary')
    draws = drawn_shares(table, audited.sampling.seed)
    over_openers = Estimate(shares.shares['system'], *middle_of(draws[:, 0]))
    n_floors = len(every) - len(table)
    case = 'without floors' if n_floors else 'all systems'
    _add_shares(result, case, shares)
    result.add(case, 'system', {'share over openers': over_openers})
    with_floors = variance_shares(every) if n_floors else None
    if with_floors is not None:
        _add_shares(result, 'all systems', with_floors)
    text = terminal_sentence(
        'variance',
        shares=shares,
        system=over_openers,
        n_systems=len(table),
        n_floors=n_floors,
        with_floors=with_floors,
    )
    least, most = middle_of(draws[:, 0] - draws[:, 1])
    outcome = outcome_of(
        shown=least is not None and least > 0, refuted=most is not None and most < 0
    )
    result.report(text, outcome)


def drawn_shares(table: Floats, seed: int) -> Floats:
    """
    Return ``[draw, 2]``: the `system_and_choice` of openers drawn with replacement; no
    draws of fewer than three.
    """
    size, rng = table.shape[2], np.random.default_rng([seed, 15])
    resamples = [
        variance_shares(table[:, :, rng.integers(size, size=size)])
        for _ in range(RESAMPLES if size >= FEWEST_OPENERS else 0)
    ]
    pairs = [drawn.system_and_choice for drawn in resamples if drawn is not None]
    return np.array(pairs, np.float64).reshape(-1, 2)


def _add_shares(result: PartResult, case: str, shares: VarianceShares) -> None:
    for name, share in shares.shares.items():
        component = json_number(shares.components[name])
        result.add(case, name, {'share': json_number(share), 'component': component})


# --- which systems are compared -------------------------------------------------------

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


# --- the checks of sets ---------------------------------------------------------------


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
