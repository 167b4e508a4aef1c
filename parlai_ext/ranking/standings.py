"""
Standings from dialogue means: score, two intervals, rank, rank interval and tied group
for each system; what its unscored dialogues could change; how many dialogues it would
take to tell more systems apart; and what lies behind a ranking: spreads, means with
each partner, and comparisons of two systems, of a newcomer, of two orders.

Which systems differ, all pairs at once, and the ranks and groups that this leaves open.

Differences are paired (common draws of openers and partners), divided by their
bootstrap standard error, and held against the 95 % quantile of the largest of all: the
chance of even one false claim in the whole table is about 5 %. From the claims follow
simultaneous rank intervals (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for
ranks", Review of Economic Studies 91(1); Klein, Wright and Wieczorek 2020, JRSS A), and
tied groups as in the shared tasks of machine translation (Kocmi et al. 2022, "Findings
of WMT22", section 5.2): a group ends where every system above is better than every
system below. Fewer than three distinct openers make no claim.

Few units break the promise in spite of the widening by Student's t. Six equal systems
were told apart in simulation, instead of in 5 % of worlds, in 14 % with one partner and
5 openers, 9 % with 10, 6 % with 20; and, where partners make nearly all the difference
and count as a sample, in 17 % with 4 partners and 9 % with 8.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np
import scipy

from parlai_ext.core import frozen, is_floor, json_keys
from parlai_ext.ranking.intervals import (
    FEWEST_FOR_OTHERS,
    FEWEST_OPENERS,
    FEWEST_PARTNERS,
    LEVEL,
    Bools,
    Draws,
    Estimate,
    Floats,
    Ints,
    Sampling,
    degrees_of_freedom,
    draw_means,
    intervals_for,
    json_number,
    round_off_noise,
    student_bound,
    variances,
)
from parlai_ext.view import DASH, number

# What the scores of one dimension can tell apart, and how many dialogues it would
# take.
#
# **Model.** The difference of two systems in their dialogues with partner ``p`` over
# opener ``j`` is ``d + A_p + B_j + E_pj``: the difference itself, and effects of the
# partner, of the opener and of the single dialogue, independent, with mean 0. Their
# variances are estimated by the method of moments from the table of differences, as
# in an analysis of variance of two crossed random factors.
#
# **Formula.** With ``P`` partners and ``n`` openers the mean difference has the
# variance ``S(n) = a / P + b / n + e / (P n)``, where ``a``, ``b``, ``e`` are the
# variances of the three effects; ``a = 0`` where partners are fixed. The test of
# `ranks` claims a difference above ``c(n) sqrt(V(n))``; ``V = S`` where partners are
# fixed, and ``V = S + 2 e / (P n)`` where they count as a sample, because the
# two-way bootstrap counts the variance of single dialogues three times (Owen 2007).
# A true difference ``d`` is claimed in four of five repetitions as soon as ``d >=
# c(n) sqrt(V(n)) + 0.84 sqrt(S(n))``. The smallest such ``n`` is the answer.
# ``c(n)`` is Šidák's bound for all pairs of systems together, of Student's t with
# the degrees of freedom that `ranks` uses. It is a little above the bound of
# `ranks`, so that ``n`` is some per cent too large.
#
# **Assumption.** The true difference and the variances are those observed. The
# observed lead of the first over the second is on average too large, because it was
# picked as the largest: ``n`` is a rough figure, and rather too small.

Counts = Ints | int

# how often the difference is found when it is there
POWER = 0.8
# beyond this nobody goes on
MOST_OPENERS, MOST_PARTNERS = 20_000, 200


@frozen
class DialoguesNeeded:
    """
    How many partners and openers would tell one system from another.

    The partners are those of now, if any number of openers is enough with them. Else
    both numbers are those with the fewest dialogues. `n_dialogues` are those of each
    system. All are `None` where `reason` says why. They go with 1 / difference², so
    that their relative error is 2 error / difference; `is_rough`: that is above 1.
    """

    better: str
    worse: str
    n_partners: int | None = None
    n_openers: int | None = None
    n_dialogues: int | None = None
    reason: str | None = None
    is_rough: bool = False


@frozen
class Separation:
    """
    What can be told apart among the ranked systems on one dimension.

    `n_apart` of `n_pairs` pairs of systems differ by more than chance explains.
    `not_apart` names those that cannot be told from the first, best first. `needed` is
    for the first against the last where nothing can be told apart, and for the first
    against the best of `not_apart`, floors left out.
    """

    n_pairs: int
    n_apart: int
    first: str
    not_apart: tuple[str, ...]
    needed: tuple[DialoguesNeeded, ...] = ()


@frozen
class Components:
    """
    Variances of the difference of two systems: between partners, between openers, and
    of single dialogues.
    """

    partner: float
    opener: float
    dialogue: float

    def variance(
        self, partners: Counts, openers: Counts, times_dialogue: int = 1
    ) -> Floats:
        """
        Return the variance of the mean difference with these numbers of both.
        """
        single = self.dialogue / (np.asarray(partners) * np.asarray(openers))
        of_openers = self.opener / np.asarray(openers)
        return (
            self.partner / np.asarray(partners) + of_openers + times_dialogue * single
        )


def separation(
    values: Floats,
    systems: Sequence[str],
    better: Bools,
    sampling: Sampling,
) -> Separation | None:
    """
    Return what can be told apart; `None` with fewer than two systems.

    :param values: ``[system, partner, opener]`` of the ranked systems, best first.
    :param better: what `ranks.significantly_better` returns of them.
    """
    size = len(systems)
    if size < 2:
        return None
    n_pairs, n_apart = math.comb(size, 2), int(better.sum())
    not_apart = [k for k in range(1, size) if not better[0, k]]
    claimed = [k for k in not_apart if not is_floor(systems[k])]
    rivals = (claimed[-1:] if not n_apart else []) + claimed[:1]
    return Separation(
        n_pairs=n_pairs,
        n_apart=n_apart,
        first=systems[0],
        not_apart=tuple(systems[k] for k in not_apart),
        needed=tuple(
            dialogues_needed(
                (systems[0], systems[k]), values[[0, k]], n_pairs, sampling
            )
            for k in dict.fromkeys(rivals)
        ),
    )


def fold_games(values: Floats, games_per_opener: int) -> Floats:
    """
    Return ``[…, opener]``, the mean of the games over one opener, of ``[…, game]``; NaN
    where there is none.
    """
    return known_means(values.reshape(*values.shape[:-1], games_per_opener, -1))


def known_means(values: Floats) -> Floats:
    """
    Return the means over the last axis but one of the numbers that are known, else NaN.
    """
    means: Floats = np.ma.masked_invalid(values).mean(axis=-2).filled(np.nan)
    return means


def dialogues_needed(
    names: tuple[str, str], values: Floats, n_pairs: int, sampling: Sampling
) -> DialoguesNeeded:
    """
    Return how many dialogues would tell two systems apart, from how they differ now.

    :param names: the two systems, the one with the better score first.
    :param values: ``[2, partner, game]``, NaN where one of them has no score.
    :param n_pairs: how many pairs of systems are compared together.
    """
    needed = partial(DialoguesNeeded, *names)
    differences = fold_games(values[0] - values[1], sampling.games_per_opener)
    defined = ~np.isnan(differences)  # somewhere with this partner, or opener
    table = differences[defined.any(axis=1)][:, defined.any(axis=0)]
    if not table.size:
        return needed(reason='they have no partner in common')
    components = variance_components(table)
    if components is None:
        return needed(reason='one opener does not show how much dialogues vary')
    difference = json_number(abs(float(np.nanmean(table))))
    if not difference:
        return needed(reason='their scores are equal')
    n_partners = len(table)
    kind = 'fixed' if n_partners < FEWEST_PARTNERS else sampling.partners
    most_partners = max(n_partners, MOST_PARTNERS)
    if kind == 'fixed':
        components, most_partners = replace(components, partner=0.0), n_partners
    is_rough = difference < 2 * math.sqrt(float(components.variance(*table.shape)))
    # with these partners if that is enough, else with more
    for most in dict.fromkeys((n_partners, most_partners)):
        units = candidate_counts(n_partners, most)[:, None]
        openers = candidate_counts(FEWEST_OPENERS, MOST_OPENERS)[None, :]
        reach = detectable_difference(components, units, openers, n_pairs, kind)
        size = np.where(difference >= reach, units * openers, np.inf)
        u, n = np.unravel_index(int(size.argmin()), size.shape)
        if np.isfinite(size[u, n]):
            counts = int(units[u, 0]), int(openers[0, n])
            n_dialogues = math.prod(counts) * sampling.games_per_opener
            return needed(*counts, n_dialogues, is_rough=is_rough)
    return needed(reason='no practical number of dialogues would be enough')


def candidate_counts(first: int, last: int) -> Ints:
    """
    Return numbers from ``first`` to ``last``: all small ones, then each some 5 % more.
    """
    n_steps = 2 + int(math.log(last / first) / math.log(1.05))
    steps = np.geomspace(first, last, n_steps)
    return np.unique(np.round(steps).astype(np.int64))


def variance_components(differences: Floats) -> Components | None:
    """
    Return the variances behind ``[partner, opener]`` differences, none below 0.

    With one partner, or over one opener, all variance counts as that of openers, or of
    single dialogues. `None` when nothing varies over one opener, or is there once.
    """
    n_partners, n_openers = differences.shape
    known = differences[~np.isnan(differences)]
    if n_openers < 2:
        spread = float(known.var(ddof=1)) if n_partners > 1 else 0.0
        return Components(0.0, 0.0, spread) if spread > 0 else None
    if n_partners < 2:
        return Components(0.0, float(known.var(ddof=1)), 0.0)
    rows = np.nanmean(differences, axis=1)
    columns = np.nanmean(differences, axis=0)
    residuals = differences - rows[:, None] - columns[None, :] + known.mean()
    freedom = max(1, len(known) - n_partners - n_openers + 1)
    dialogue = float(np.nansum(residuals**2)) / freedom
    return Components(
        partner=max(0.0, float(rows.var(ddof=1)) - dialogue / n_openers),
        opener=max(0.0, float(columns.var(ddof=1)) - dialogue / n_partners),
        dialogue=dialogue,
    )


def detectable_difference(
    components: Components,
    n_partners: Counts,
    n_openers: Counts,
    n_pairs: int,
    partners: str,
) -> Floats:
    """
    Return the differences that the test of `ranks` claims in four of five repetitions,
    for each of these numbers of partners, or of openers.

    :param components: without variance between partners where these are fixed.
    """
    shape = np.broadcast(n_partners, n_openers).shape
    openers = np.broadcast_to(n_openers, shape)
    units = np.broadcast_to(n_partners if partners == 'sampled' else 1, shape)
    # the bootstrap over openers, and the one that the test looks at
    of_openers = replace(components, partner=0.0).variance(n_partners, n_openers)
    counted = 3 if partners == 'sampled' else 1
    tested = components.variance(n_partners, n_openers, counted)
    freedom = degrees_of_freedom(of_openers, tested, openers, units)
    tail = (1 - LEVEL ** (1 / n_pairs)) / 2
    bound = student_bound(-float(scipy.special.ndtri(tail)), freedom)
    real = components.variance(n_partners, n_openers)
    return bound * np.sqrt(tested) + scipy.special.ndtri(POWER) * np.sqrt(real)


# --- standings ------------------------------------------------------------------------

# A standard error below this share of the scores is rounding, not chance.
ROUNDING = 1e-12


@frozen
class RankRange:
    """
    The ranks that the data leave open.

    `low` is one more than the number of systems that are significantly better, `high`
    the number of systems less those that are significantly worse.
    """

    low: int
    high: int


def rank_ranges(better: Bools) -> list[tuple[int, int]]:
    """
    Return the best and the worst rank that is left open to each system (`RankRange`);
    all hold together with 95 % confidence.

    :param better: what `significantly_better` returns.
    """
    lows = 1 + better.sum(axis=0)
    highs = len(better) - better.sum(axis=1)
    return [*zip(lows.tolist(), highs.tolist(), strict=True)]


def ranks_by_score(
    scores: Sequence[float | None] | Floats, higher_is_better: bool = True
) -> list[int]:
    """
    Return one more than the number of systems with a better score; equal scores share a
    rank. A system without a score (`None` or NaN) is behind all others.
    """
    values = np.array(scores, np.float64) * (-1 if higher_is_better else 1)
    values[np.isnan(values)] = np.inf
    ranks: list[int] = (1 + (values < values[:, None]).sum(1)).tolist()
    return ranks


def tied_groups(better: Bools, ranks: Sequence[int]) -> list[int]:
    """
    Return the group of each system, counted from 1 for the best.

    :param better: what `significantly_better` returns.
    :param ranks: the ranks of the same systems by score.
    """
    order = sorted(range(len(ranks)), key=lambda i: ranks[i])
    groups = [1] * len(ranks)
    for k in range(1, len(order)):
        above, below = order[:k], order[k:]
        group_ends = bool(better[np.ix_(above, below)].all())
        groups[order[k]] = groups[order[k - 1]] + group_ends
    return groups


def significantly_better(draws: Draws, higher_is_better: bool = True) -> Bools:
    """
    Return ``[i, j]``: system ``i`` is better than ``j``, at 5 % for all pairs together.

    A difference that is the same in every draw is significant. Nothing is claimed of a
    system with fewer than three distinct openers.
    """
    differences = draws.means[:, None] - draws.means[None, :]
    return differences * (1 if higher_is_better else -1) > pair_reaches(draws)


def standard_errors(
    draws: Draws, deviations: Floats, num_partners: Ints
) -> tuple[Floats, Floats]:
    """
    Return ``[i, j]``: the bootstrap standard error of the difference of the means of
    systems ``i`` and ``j``, and its degrees of freedom.

    :param deviations: the draws that claims rest on, ``fixed`` or ``sampled``.
    :param num_partners: of each system, 1 where partners are fixed.
    """
    size = len(draws.means)
    errors, freedom = np.zeros((2, size, size))
    for i in range(size):
        variance = variances(deviations[:, [i]] - deviations)
        errors[i] = np.sqrt(variance)
        freedom[i] = degrees_of_freedom(
            variances(draws.fixed[:, [i]] - draws.fixed),
            variance,
            np.minimum(draws.num_openers[i], draws.num_openers),
            np.minimum(num_partners[i], num_partners),
        )
    return errors, freedom


def pair_reaches(draws: Draws) -> Floats:
    """
    Return ``[i, j]``: how far the interval of the difference of the means of systems
    ``i`` and ``j`` reaches to both sides; infinite where nothing is known. All hold
    together with 95 % confidence.

    One of the two systems is better as soon as this interval leaves out 0: interval and
    claim are one.
    """
    deviations, num_partners = draws.fixed, np.ones_like(draws.num_partners)
    if draws.partners == 'sampled':
        deviations, num_partners = draws.sampled, draws.num_partners
    tiny = ROUNDING * float(np.abs(draws.means).max(initial=0.0))
    # Where a system that never varies has fewer openers than another, its variance was
    # not seen: each of its openers is taken to vary as one of the other system's.
    own, openers = variances(deviations), np.maximum(draws.num_openers, 1)
    never = (own <= tiny**2)[:, None] & (openers[:, None] < openers)
    unseen = np.where(never, own * openers / openers[:, None], 0.0)
    errors, freedom = standard_errors(draws, deviations, num_partners)
    varies = errors > tiny
    largest = np.zeros(len(deviations))  # of each draw, over all pairs
    for i in range(len(errors)):
        rivals = np.flatnonzero(varies[i])
        if len(rivals):
            t = np.abs(deviations[:, [i]] - deviations[:, rivals]) / errors[i, rivals]
            # NaN: a draw without a dialogue of one of the two says nothing about them
            largest = np.fmax(largest, np.fmax.reduce(t, axis=1))
    quantile = float(np.quantile(largest, LEVEL))
    bounds = student_bound(quantile, freedom)
    seen = draws.has_interval[:, None] & draws.has_interval[None, :]
    reaches = bounds * np.sqrt(errors**2 + unseen + unseen.T)
    reach = np.where(varies, reaches, tiny)
    return np.where(seen & (freedom > 0), reach, np.inf)


@frozen
class Standing:
    """
    Where one system stands on one dimension, with its two 95 % intervals.

    `low`, `high`: partners are a sample (two-way bootstrap over openers and
    partners); undefined where they are too few to speak for others. `low_fixed`,
    `high_fixed`: partners are fixed (bootstrap over openers).
    `rank` counts the better scores, `rank_low` and `rank_high` are the ranks that the
    data leave open, and systems of one `group` are not all told apart from each other;
    below three distinct openers these three, and both intervals, are undefined; so are
    intervals of scores that never vary (`without_width_0`).
    `rank` is `None` for a system that is listed but not ranked. `why_unranked` then
    says why, unless it failed or lacks scores. `None` is "undefined" elsewhere.
    """

    __pydantic_config__ = json_keys(why_unranked='why')

    system: str
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    score: float | None
    low: float | None
    high: float | None
    low_fixed: float | None
    high_fixed: float | None
    n_dialogues: int
    n_unscored: int
    why_unranked: str | None = None
    group: int | None = None
    n_openers: int | None = None
    n_partners: int | None = None

    @property
    def is_floor(self) -> bool:
        """
        True if the system is bad on purpose.
        """
        return is_floor(self.system)

    def interval(self, digits: int = 2) -> str:
        """
        Return the interval for partners like these or, where there is none, for these.
        """
        for low, high in ((self.low, self.high), (self.low_fixed, self.high_fixed)):
            if low is not None and high is not None:
                return f'[{number(low, digits)}, {number(high, digits)}]'
        return 'no interval'

    def open_ranks(self) -> str:
        """
        Return the rank and, where there are several, those that the data leave open.
        """
        if self.rank is None:
            return DASH
        if self.rank_low is None or self.rank_low == self.rank_high:
            return str(self.rank)
        return f'{self.rank} ({self.rank_low}–{self.rank_high})'


def rank_dimension(
    values: Floats,
    systems: Sequence[str],
    sampling: Sampling,
    *,
    ranked: Sequence[bool],
    counts: Sequence[tuple[int, int]],
    higher_is_better: bool = True,
) -> tuple[tuple[Standing, ...], Separation | None]:
    """
    Return one standing for each system, in the order of ``systems``, and what can be
    told apart on this dimension.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    :param ranked: which systems take part in the ranking. The others have score and
        intervals, but no rank, and do not change the ranks of others.
    :param counts: of each system its dialogues, and those without a score.
    """
    # by name, so that the result does not depend on the order it came in
    order = np.argsort(list(systems))
    table, names = values[order], [systems[i] for i in order]
    rows, better = rank_draws(
        draw_means(table, sampling),
        names,
        [counts[i] for i in order],
        ranked=np.array(ranked, bool)[order],
        higher_is_better=higher_is_better,
    )
    placed = [k for k, row in enumerate(rows) if row.rank is not None]
    best = sorted(placed, key=lambda k: rows[k].rank or 0)
    apart = separation(
        table[best], [names[k] for k in best], better[np.ix_(best, best)], sampling
    )
    return tuple(rows[k] for k in np.argsort(order)), apart


def rank_draws(
    draws: Draws,
    systems: Sequence[str],
    counts: Sequence[tuple[int, int]],
    *,
    ranked: Bools | bool = True,
    higher_is_better: bool,
) -> tuple[list[Standing], Bools]:
    """
    Return one standing for each system of some bootstrap draws, and which systems are
    better than which (`significantly_better`). Fixed partners that are too few to speak
    for others give no interval for partners like these.

    :param ranked: which systems take part; those without a score do not.
    :param counts: of each system its dialogues, and those without a score.
    """
    chosen = np.flatnonzero(ranked & ~np.isnan(draws.means))
    better = np.zeros((len(systems), len(systems)), bool)
    claims = significantly_better(draws.select(chosen), higher_is_better)
    better[np.ix_(chosen, chosen)] = claims
    scores = [json_number(mean) for mean in draws.means]
    ranks = ranks_by_score([scores[k] for k in chosen], higher_is_better)
    left_open = zip(ranks, tied_groups(claims, ranks), rank_ranges(claims), strict=True)
    places = dict(zip(chosen.tolist(), left_open, strict=True))
    sampled, fixed = (intervals_for(draws, one) for one in ('sampled', 'fixed'))
    if draws.partners == 'fixed' and max(draws.num_partners) < FEWEST_FOR_OTHERS:
        sampled = [(math.nan, math.nan)] * len(systems)
    rows = []
    for k, name in enumerate(systems):
        rank, group, (rank_low, rank_high) = places.get(k) or (None, None, (None, None))
        if not draws.has_interval[k]:
            group = rank_low = rank_high = None
        low, high = map(json_number, sampled[k])
        low_fixed, high_fixed = map(json_number, fixed[k])
        rows.append(
            Standing(
                name,
                rank,
                rank_low,
                rank_high,
                scores[k],
                low=low,
                high=high,
                low_fixed=low_fixed,
                high_fixed=high_fixed,
                n_dialogues=counts[k][0],
                n_unscored=counts[k][1],
                group=group,
                n_openers=int(draws.num_openers[k]),
                n_partners=int(draws.num_partners[k]),
            )
        )
    return rows, better


def without_width_0(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """
    Return standings without the intervals of scores that never vary: what else could
    have been seen, a bootstrap does not know.
    """
    return tuple(
        replace(row, low=None, high=None, low_fixed=None, high_fixed=None)
        if {row.low, row.high, row.low_fixed, row.high_fixed} <= {row.score, None}
        else row
        for row in standings
    )


def best_first(standings: Sequence[Standing]) -> list[Standing]:
    """
    Return standings by rank, then score, then name; systems without a rank come last.
    """

    def key(one: Standing) -> tuple[Any, ...]:
        rank = one.rank or math.inf
        return rank, one.score is None, -(one.score or 0.0), one.system

    return sorted(standings, key=key)


@frozen
class ScoreBounds:
    """
    What the unscored dialogues of a system could do to its mean.

    `worst` and `best` are its mean had all of them got the worst or the best score of
    any dialogue of any system; `None` when the dimension has no score at all.
    """

    unscored_share: float | None
    worst: float | None
    best: float | None


def unscored_bounds(
    values: Floats, systems: Sequence[str], n_unscored: Sequence[int]
) -> dict[str, ScoreBounds]:
    """
    Return the bounds of every system with unscored dialogues; larger scores are better.

    :param values: as for `standings`.
    """
    scored = values[~np.isnan(values)]
    ends = [scored.min(), scored.max()] if len(scored) else [np.nan, np.nan]
    bounds = {}
    for name, row, missing in zip(systems, values, n_unscored, strict=True):
        if missing:
            n_dialogues = int((~np.isnan(row)).sum()) + missing
            total = float(np.nansum(row))
            worst, best = (
                json_number((total + missing * end) / n_dialogues) for end in ends
            )
            bounds[name] = ScoreBounds(json_number(missing / n_dialogues), worst, best)
    return bounds


# --- what lies behind a ranking -------------------------------------------------------
# How the dialogue means of a system spread, how it does with each partner, and every
# pair of systems compared: the difference of their scores, and whether the ranking
# tells them apart.
#
# Interval and claim are one: both come from `pair_reaches`, which takes all pairs
# together, so that two systems are told apart exactly where the interval of their
# difference leaves out 0, and agree with rank ranges and tied groups. What an opener,
# or a partner, does to both systems cancels out, because all systems share their draws.
#
# Comparisons that an audit asks for: two systems, a system that is not in the ranking,
# one that gets another partner, an order before and after.

BINS = 24
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@frozen
class SystemDifference:
    """
    How the dialogues of one system score above those of another.

    `difference` is the score of the first less that of the second, `low` and `high` its
    95 % interval, which holds together with those of all other pairs (`None` below
    three openers, and for systems that are not ranked). `win_rate` is the share of the
    `n` common dialogues in which the first scores higher, equal scores counted half.
    `apart` is true if the two are told apart in the ranking: the interval leaves out 0.
    """

    difference: float
    low: float | None
    high: float | None
    win_rate: float
    n: int
    apart: bool


PairDifferences = dict[tuple[str, str], SystemDifference]  # by the systems' names


def pair_differences(
    values: Floats, systems: Sequence[str], ranked: Sequence[bool], sampling: Sampling
) -> PairDifferences:
    """
    Return the difference of each two systems with a dialogue in common, of the first
    and the second and the other way round.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    :param ranked: which systems take part in the ranking; of the others nothing is
        told apart.
    """
    draws = draw_means(values, sampling)
    chosen = np.flatnonzero(np.array(ranked, bool) & ~np.isnan(draws.means))
    reach = np.full((len(systems), len(systems)), np.inf)
    reach[np.ix_(chosen, chosen)] = pair_reaches(draws.select(chosen))
    pairs = {}
    for i, j in permutations(range(len(systems)), 2):
        gaps = values[i] - values[j]
        known = gaps[~np.isnan(gaps)]
        if not len(known):
            continue
        wins = (known > 0).sum() + 0.5 * (known == 0).sum()
        difference = float(draws.means[i] - draws.means[j])
        pairs[systems[i], systems[j]] = SystemDifference(
            difference,
            low=json_number(difference - reach[i, j]),
            high=json_number(difference + reach[i, j]),
            win_rate=float(wins) / len(known),
            n=len(known),
            apart=bool(abs(difference) > reach[i, j]),
        )
    return pairs


@frozen
class Spread:
    """
    How `n` dialogue means spread: quantiles, and counts in `BINS` bins of one width
    that reach from `lowest` to `highest`, the extremes of all systems.
    """

    n: int
    quantiles: tuple[float, ...]
    counts: tuple[int, ...]
    lowest: float
    highest: float


@frozen
class CellMean:
    """
    The mean score of a system with one partner, over `n` dialogues.
    """

    mean: float
    n: int


def spreads(values: Floats, systems: Sequence[str]) -> dict[str, Spread]:
    """
    Return the spread of every system that has a score.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    """
    scored = values[~np.isnan(values)]
    if not len(scored):
        return {}
    ends = float(scored.min()), float(scored.max())
    # np.histogram widens a range without width by half a unit to each side
    reach = ends if ends[0] < ends[1] else (ends[0] - 0.5, ends[1] + 0.5)
    result = {}
    for name, row in zip(systems, values, strict=True):
        own = row[~np.isnan(row)]
        if len(own):
            counts, _ = np.histogram(own, BINS, reach)
            quantiles = tuple(map(float, np.quantile(own, QUANTILES)))
            result[name] = Spread(len(own), quantiles, tuple(counts.tolist()), *reach)
    return result


def cell_means(
    values: Floats, systems: Sequence[str], partners: Sequence[str]
) -> dict[str, dict[str, CellMean]]:
    """
    Return, by system and partner, the mean over openers, where there is a score.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    """
    cells: dict[str, dict[str, CellMean]] = {}
    for name, row in zip(systems, values, strict=True):
        cells[name] = {}
        for partner, openers in zip(partners, row, strict=True):
            known = openers[~np.isnan(openers)]
            mean = json_number(known.mean()) if len(known) else None
            if mean is not None:
                cells[name][partner] = CellMean(mean, len(known))
    return cells


@frozen
class Placing:
    """
    Where a newcomer would stand among ranked systems.

    `beaten` are the systems with a lower score, `surely_beaten` and `surely_better`
    those that the test of `ranks` tells apart; all are places of systems.
    """

    score: Estimate
    rank: int | None
    beaten: tuple[int, ...]
    surely_beaten: tuple[int, ...]
    surely_better: tuple[int, ...] = ()


def flipped_pairs(before: Floats, after: Floats) -> list[tuple[int, int]]:
    """
    Return the pairs ``(i, j)`` of which ``i`` was above ``j`` and is below it now. Ties
    are no change of order.
    """
    before, after = round_off_noise(before), round_off_noise(after)
    pairs = []
    for i, j in combinations(range(len(before)), 2):
        if (before[i] - before[j]) * (after[i] - after[j]) < 0:
            pairs.append((i, j) if before[i] > before[j] else (j, i))
    return pairs


def score_gap(values: Floats, sampling: Sampling) -> Estimate:
    """
    Return how much the first of two systems scores above the second, with these
    partners.

    :param values: ``[2, partner, opener]``.
    """
    return combined(draw_means(values, sampling), np.array([1.0, -1.0]))


def combined(draws: Draws, weights: Floats) -> Estimate:
    """
    Return the sum of the systems' means with these weights, with its interval.
    """
    parts = np.flatnonzero(weights)
    # exact where all parts are equal
    first = draws.means[parts[0]]
    centred = draws.means - (first if abs(weights.sum()) < 1e-12 else 0.0)
    mean = np.array([centred[parts] @ weights[parts]])
    fixed = (draws.fixed[:, parts] @ weights[parts])[:, None]
    num_openers, num_partners = (
        np.array([units[parts].min()])
        for units in (draws.num_openers, draws.num_partners)
    )
    one = Draws(mean, fixed, fixed, num_openers, num_partners)
    ((low, high),) = intervals_for(one, 'fixed')
    return Estimate(json_number(mean[0]), json_number(low), json_number(high))


def place_newcomer(values: Floats, newcomer: Floats, sampling: Sampling) -> Placing:
    """
    Return where a system would stand among others that met the same partners over the
    same openers.

    :param values: ``[system, partner, opener]`` of the ranked systems.
    :param newcomer: ``[partner, opener]``.
    """
    draws = draw_means(np.concatenate([values, newcomer[None]]), sampling)
    own = len(values)
    means = round_off_noise(draws.means)
    if np.isnan(means[own]):
        return Placing(Estimate(None, None, None), None, (), ())
    better = significantly_better(draws)
    ((low, high),) = intervals_for(draws.select(np.array([own])), sampling.partners)
    score = Estimate(*map(json_number, (draws.means[own], low, high)))
    return Placing(
        score,
        rank=1 + int((means[:own] > means[own]).sum()),
        beaten=tuple(np.flatnonzero(means[:own] < means[own]).tolist()),
        surely_beaten=tuple(np.flatnonzero(better[own, :own]).tolist()),
        surely_better=tuple(np.flatnonzero(better[:own, own]).tolist()),
    )


def lift(values: Floats, more: Floats, system: int, sampling: Sampling) -> Estimate:
    """
    Return by how much further partners lift one system's mean above what they do to the
    other systems' means on average.

    :param values: ``[system, partner, opener]``.
    :param more: the same for the further partners, over the same openers.
    """
    # the draws of openers depend on seed and number of openers alone: they are common
    without = draw_means(values, sampling)
    together = draw_means(np.concatenate([values, more], axis=1), sampling)
    fixed = np.concatenate([together.fixed, without.fixed], axis=1)
    both = Draws(
        np.concatenate([together.means, without.means]),
        fixed,
        fixed,
        np.tile(without.num_openers, 2),
        np.tile(without.num_partners, 2),
    )
    size = len(values)
    weights = np.full(size, -1.0 / max(1, size - 1))
    weights[system] = 1.0
    return combined(both, np.concatenate([weights, -weights]))
