"""
Does an order depend on the partners, the openers or the judge?

Each family of partners and each block of openers is left out in turn; every scorer that
has scored the run, and the trivial measures, rank the same systems; and the variance of
scores is divided into what systems, partners and openers make of it.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from parlai_ext.audit.audited import (
    Audited,
    dialogues_first,
    middle_of,
    settling_text,
)
from parlai_ext.audit.record import LEFT_OUT, LeftOut, PartResult, outcome_of
from parlai_ext.core import frozen, grouped, scorer_name
from parlai_ext.ranking.agreement import kendall, spearman
from parlai_ext.ranking.intervals import (
    FEWEST_OPENERS,
    Estimate,
    Floats,
    Ints,
    draw_means,
    json_number,
    system_means,
)
from parlai_ext.ranking.standings import (
    DialoguesNeeded,
    dialogues_needed,
    flipped_pairs,
    fold_games,
    ranks_by_score,
    significantly_better,
)
from parlai_ext.results.rank import chosen_dimension, read_run_scores
from parlai_ext.view.page import terminal_sentence

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
TIMES = ' × '


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
        REST if len(effect) == values.ndim else TIMES.join(names[k] for k in effect): (
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
