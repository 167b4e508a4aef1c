"""
Two bootstraps of a system's mean, and the 95 % intervals they give.

*Partners fixed*: openers are drawn with replacement, the same draws for all systems and
partners (a paired design). What it covers: the mean with these partners over all
openers like these. *Partners sampled*: openers and partners are drawn independently and
a cell counts as often as its opener times its partner was drawn. What it covers: the
mean over all partners like these as well. That is the pigeonhole bootstrap (Owen 2007,
"The pigeonhole bootstrap", Annals of Applied Statistics 1(2)); it counts the variance
of single dialogues up to three times and so errs on the wide side, least when openers
and partners differ much.

**Fewest units.** Below three distinct openers there is no interval at all, and below
two partners none for partners sampled. A variance that was never seen cannot be
bootstrapped: one opener gives the same mean in every draw, which looks like certainty.
A run with two or three partners can speak for these only (`FEWEST_FOR_OTHERS`): in
simulation, with partners that differ a little more than single dialogues do, two of
them covered 79 % instead of 95 %, and told four equal systems apart in 23 % of worlds
instead of 5 %; three did so in 8 %.

Percentile intervals of few units are too narrow. The tails are therefore moved out as
Hesterberg does ("What teachers should know about the bootstrap", The American
Statistician 69(4), 2015): by the t quantile and ``sqrt(n / (n - 1))``. With 600 openers
this changes nothing that one can see, with four partners much.
It is no cure: where partners are the main source of variance, four of them covered
86 % in simulation instead of 95 %, eight 95 %.

The table that every statistic starts from: dialogue means by target, partner, opener.

``values[t, p, j]`` is the mean score of target ``t`` in its dialogue with partner ``p``
over opener ``j``; NaN where there is no such dialogue or it has no score. Self-play has
one partner; in all-play-all the partners are the opponents and the diagonal is NaN.
Where a pair plays several games over one opener, ``j`` runs over all first games, then
over all second games.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from parlai_ext.core import frozen

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

DIGITS = 12


def system_means(values: Floats) -> Floats:
    """
    Return each system's mean over its scored dialogues, NaN when it has none.
    """
    means = np.full(len(values), np.nan)
    for t, row in enumerate(values):
        scored = row[~np.isnan(row)]
        if len(scored):
            # fsum is exact: neither order nor missing cells change the mean
            means[t] = math.fsum(scored) / len(scored)
    return means


def round_off_noise(values: Floats) -> Floats:
    """
    Return ``values`` without their last digits, so that equal values stay tied.
    """
    scale = float(np.nanmax(np.abs(values), initial=0.0))
    _, exponent = math.frexp(scale)
    unit = math.ldexp(1.0, exponent)
    return np.round(values / unit, DIGITS) * unit


def json_number(value: float) -> float | None:
    """
    Return a number fit for a file: twelve significant digits; `None` for NaN and an
    infinite one.

    The digits beyond come and go with the number of threads of a matrix product.
    """
    return float(f'{value:.{DIGITS}g}') if math.isfinite(value) else None


CHUNK = 512
ITEM_CHUNK = 128  # resamples of items in memory at once
MOST_COUNTS = 2**20  # of openers drawn at a time where tables are sparse
LEVEL = 0.95
ENDS = (0.025, 0.975)  # of percentile intervals
# ends of intervals that differ by less do so by rounding
ROUNDING = 1e-9
# distinct openers, and partners for the interval that speaks of partners like these
FEWEST_OPENERS, FEWEST_PARTNERS = 3, 2
# partners of a run that can speak for others
FEWEST_FOR_OTHERS = 4


@frozen
class Estimate:
    """
    A number with its 95 % interval; `None` where it is undefined.
    """

    value: float | None
    low: float | None
    high: float | None

    def is_within(self, low: float, high: float) -> bool:
        """
        True if there is an interval and all of it lies between these ends.
        """
        if self.low is None or self.high is None:
            return False
        return low - ROUNDING <= self.low and self.high <= high + ROUNDING

    def is_beyond(self, low: float, high: float) -> bool:
        """
        True if there is an interval and none of it lies between these ends.
        """
        if self.low is None or self.high is None:
            return False
        return self.high < low - ROUNDING or high + ROUNDING < self.low


@frozen
class Sampling:
    """
    How means are drawn anew, and what is claimed of them.

    :param partners: ``sampled``: claims are about partners like these; ``fixed``: about
        these partners only.
    :param games_per_opener: how often a pair plays over one opener; its games are drawn
        together. Tables have all first games, then all second games.
    :param count: is told how many draws of sparse tables, and of measures of detectors,
        were made.
    """

    bootstraps: int
    seed: int
    partners: str = 'sampled'
    games_per_opener: int = 1
    count: Callable[[int], object] = lambda size: None


# of prompts and annotators; correlations take more (`CORRELATION_SAMPLING`)
SAMPLING = Sampling(1000, 0)


@frozen
class Draws:
    """
    Bootstrap draws of every system's mean, as deviations from the mean itself.

    `fixed` and `sampled` are ``[draw, system]``, NaN where a draw holds no dialogue of
    that system. `num_openers`, `num_partners` count those with a score, per system;
    where it has one partner, `sampled` is `fixed`. `partners`: see `Sampling`.
    """

    means: Floats
    fixed: Floats
    sampled: Floats
    num_openers: Ints
    num_partners: Ints
    partners: str = 'sampled'

    def select(self, systems: NDArray[Any]) -> Draws:
        """
        Return the draws of these systems (a mask, or places in the new order) alone.
        """
        return Draws(
            self.means[systems],
            self.fixed[:, systems],
            self.sampled[:, systems],
            self.num_openers[systems],
            self.num_partners[systems],
            self.partners,
        )

    @property
    def has_interval(self) -> Bools:
        """
        True for each system with enough distinct openers for an interval.
        """
        return self.num_openers >= FEWEST_OPENERS


def percentile_ends(draws: Floats) -> tuple[float, float]:
    """
    Return the middle 95 % of bootstrap draws; NaN, if any of them is.
    """
    low, high = np.quantile(draws, ENDS)
    return float(low), float(high)


def draw_counts(units: int, draws: int, rng: np.random.Generator) -> Floats:
    """
    Return ``[draw, unit]``: how often each unit is in a resample of ``units`` units.
    """
    chosen = rng.integers(units, size=(draws, units)) if units else np.zeros((draws, 0))
    flat = (chosen + units * np.arange(draws)[:, None]).astype(np.int64).ravel()
    counts = np.bincount(flat, minlength=draws * units)
    return counts.reshape(draws, units).astype(np.float64)


def _two_way_draws(
    num_openers: int, num_partners: int, sampling: Sampling, chunk: int = CHUNK
) -> Iterator[tuple[slice, Floats, Floats]]:
    """
    Yield, a chunk of draws at a time, their slice, and ``[draw, opener]`` and ``[draw,
    partner]``: how often each is drawn. The two are drawn independently.

    :param chunk: draws in memory at once.
    """
    opener_rng, partner_rng = (
        np.random.default_rng([sampling.seed, k]) for k in (0, 1)
    )
    for start in range(0, sampling.bootstraps, chunk):
        rows = slice(start, min(start + chunk, sampling.bootstraps))
        size = rows.stop - start
        openers = draw_counts(num_openers, size, opener_rng)
        yield rows, openers, draw_counts(num_partners, size, partner_rng)


def draw_sums(
    tables: Sequence[scipy.sparse.csr_array], sampling: Sampling
) -> tuple[Floats, Floats]:
    """
    Return ``[draw, table]``: the sums of sparse tables ``[opener, partner]`` when
    openers are drawn, and when both are, as `draw_means` draws them. Tables are not
    filled up: most annotators, who are partners here, see few openers.
    """
    fixed, sampled = np.empty((2, sampling.bootstraps, len(tables)))
    chunk = max(1, MOST_COUNTS // max(tables[0].shape))
    for rows, openers, partners in _two_way_draws(*tables[0].shape, sampling, chunk):
        by_opener, by_partner = openers.T.copy(), partners.T
        for place, table in enumerate(tables):
            sums = table.T @ by_opener
            fixed[rows, place] = sums.sum(axis=0)
            sampled[rows, place] = (sums * by_partner).sum(axis=0)
        sampling.count(rows.stop - rows.start)
    return fixed, sampled


def draw_ratios(
    sums: Sequence[scipy.sparse.csr_array],
    counts: Sequence[scipy.sparse.csr_array],
    sampling: Sampling,
) -> Draws:
    """
    Return ratios of sums over sparse tables ``[opener, partner]``, such as means of
    ratings or shares of answers, and bootstrap draws of them.

    :param counts: what the sums are divided by, a table for each table of sums.
    """
    means = np.array(
        [math.fsum(s.data) / c.sum() for s, c in zip(sums, counts, strict=True)]
    )
    drawn = draw_sums([*sums, *counts], sampling)
    with np.errstate(invalid='ignore'):
        fixed, sampled = (
            one[:, : len(sums)] / one[:, len(sums) :] - means for one in drawn
        )
    num_openers, num_partners = (
        np.array([(number.sum(axis=axis) > 0).sum() for number in counts])
        for axis in (1, 0)
    )
    sampled = np.where(num_partners < FEWEST_PARTNERS, fixed, sampled)
    return Draws(means, fixed, sampled, num_openers, num_partners)


def draw_groups(
    groups: Sequence[Hashable],
    bootstraps: int,
    rng: np.random.Generator,
    fewest: int = 1,
) -> Iterator[Floats]:
    """
    Yield arrays ``[resample, item]``: how often each item is drawn. The items of a
    group are drawn together.

    :param fewest: resamples with fewer different groups are left out.
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(groups))}
    group = np.array([places[name] for name in groups], np.int64)
    for start in range(0, bootstraps, ITEM_CHUNK):
        size = min(ITEM_CHUNK, bootstraps - start)
        counts = draw_counts(len(places), size, rng)
        counts = counts[(counts > 0).sum(axis=1) >= fewest]
        if len(counts):
            yield counts[:, group]


def draw_means(values: Floats, sampling: Sampling) -> Draws:
    """
    Bootstrap the means of all systems on common draws of openers and of partners.

    The draws depend on the seed and on the numbers of openers and partners alone, and
    each system is computed by itself: adding a system leaves the others' draws alone.
    """
    means = system_means(values)
    scored = ~np.isnan(values)
    num_systems, num_partners, num_games = values.shape
    num_openers = num_games // sampling.games_per_opener
    fixed, sampled = np.full((2, sampling.bootstraps, num_systems), np.nan)
    for rows, openers, partners in _two_way_draws(num_openers, num_partners, sampling):
        openers = np.tile(openers, sampling.games_per_opener)
        for t in range(num_systems):
            cells = np.where(scored[t], values[t] - means[t], 0.0)
            sums = openers @ cells.T
            counts = np.broadcast_to(openers.sum(axis=1)[:, None], sums.shape)
            if not scored[t].all():
                counts = openers @ scored[t].T.astype(np.float64)
            with np.errstate(invalid='ignore'):
                fixed[rows, t] = sums.sum(axis=1) / counts.sum(axis=1)
                of_partners = (counts * partners).sum(axis=1)
                sampled[rows, t] = (sums * partners).sum(axis=1) / of_partners
    openers_seen = distinct_openers(scored, sampling.games_per_opener)
    partners_seen = scored.any(axis=2).sum(axis=1)
    sampled = np.where(partners_seen < FEWEST_PARTNERS, fixed, sampled)
    return Draws(means, fixed, sampled, openers_seen, partners_seen, sampling.partners)


def distinct_openers(scored: Bools, games_per_opener: int) -> Ints:
    """
    Return, of ``[…, partner, game]``, over how many openers there is a score in any
    game with any partner. The first games over all openers come before all second ones.
    """
    games = np.asarray(scored.any(axis=-2))
    num_openers = games.shape[-1] // games_per_opener
    by_game = games.reshape(*games.shape[:-1], games_per_opener, num_openers)
    return np.asarray(by_game.any(axis=-2).sum(axis=-1))


def degrees_of_freedom(
    var_fixed: Floats,
    var_sampled: Floats,
    num_openers: Ints,
    num_partners: Ints,
) -> Floats:
    """
    Return Satterthwaite's degrees of freedom of a two-way bootstrap variance.

    The part of the variance that partners add has as many as there are partners less
    one, the rest as many as openers less one (Satterthwaite 1946, "An approximate
    distribution of estimates of variance components"). 0 with one opener and one
    partner: nothing is known. Without variance it is the larger number less one. For
    partners fixed, pass ``var_fixed`` twice. A part of one unit adds no uncertainty,
    so callers leave such places out.
    """
    added = np.maximum(var_sampled - var_fixed, 0.0)
    uncertainty = np.zeros_like(added)
    for part, units in ((added, num_partners), (var_fixed, num_openers)):
        uncertainty += np.where(units > 1, part**2 / np.maximum(units - 1, 1), 0.0)
    most = np.maximum(num_openers, num_partners) - 1.0
    with np.errstate(invalid='ignore', divide='ignore'):
        freedom = (added + var_fixed) ** 2 / uncertainty
    bounded = np.minimum(freedom, num_openers + num_partners)
    return np.where(uncertainty > 0, bounded, most)


def student_bound(normal: Floats | float, freedom: Floats) -> Floats:
    """
    Return the bound of Student's t, in bootstrap standard errors, that has the tail
    probability of a normal bound; ``sqrt((f + 1) / f)`` corrects the bootstrap's
    variance (Hesterberg 2015).
    """
    freedom = np.maximum(freedom, 1.0)
    # scipy.special, since scipy.stats takes most of a second to load
    tail = scipy.special.ndtr(-normal)
    return -np.sqrt((freedom + 1) / freedom) * scipy.special.stdtrit(freedom, tail)


def intervals_for(draws: Draws, partners: str) -> list[tuple[float, float]]:
    """
    Return each system's interval with partners ``sampled``, or ``fixed``: quantiles of
    its deviations, as far in the tails as Student's t with their degrees of freedom
    asks. NaN with fewer than three openers, or, sampled, two partners.
    """
    deviations, defined = draws.fixed, draws.has_interval
    if partners == 'sampled':
        deviations = draws.sampled
        defined = defined & (draws.num_partners >= FEWEST_PARTNERS)
    freedom = degrees_of_freedom(
        variances(draws.fixed),
        variances(deviations),
        draws.num_openers,
        draws.num_partners,
    )
    freedom = np.where(defined, freedom, 0.0)
    bound = student_bound(-scipy.special.ndtri((1 - LEVEL) / 2), freedom)
    intervals = []
    for t, tail in enumerate(scipy.special.ndtr(-bound)):
        known = deviations[~np.isnan(deviations[:, t]), t]
        ends = np.full(2, np.nan)
        if freedom[t] > 0 and len(known):
            ends = draws.means[t] + np.quantile(known, [tail, 1 - tail])
        intervals.append((float(ends[0]), float(ends[1])))
    return intervals


def known_intervals(draws: Draws) -> list[tuple[float | None, float | None]]:
    """
    Return each system's interval for partners like these where there are two or more,
    else for this one; `None` where it is not defined.
    """
    fixed, sampled = (intervals_for(draws, one) for one in ('fixed', 'sampled'))
    alone = draws.num_partners < FEWEST_PARTNERS
    ends = np.where(alone[:, None], fixed, sampled).tolist()
    return [(None, None) if np.isnan(low) else (low, high) for low, high in ends]


def variances(deviations: Floats) -> Floats:
    """
    Return the variance of each column over its defined draws, 0 if there is none.
    """
    defined = ~np.isnan(deviations)
    count = np.maximum(defined.sum(axis=0), 1)
    filled = np.where(defined, deviations, 0.0)
    centred = np.where(defined, filled - filled.sum(axis=0) / count, 0.0)
    return (centred**2).sum(axis=0) / count


def wilson_interval(successes: float, n: int) -> tuple[float, float]:
    """
    Return the 95 % Wilson interval of ``successes / n``.

    :param successes: may be fractional (a tie is half a success). The interval is then
        wide rather than narrow, since a tie varies less than a success or a failure.
    :param n: 1 or more.
    """
    z = float(scipy.special.ndtri(0.5 + LEVEL / 2))
    share = successes / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    spread = share * (1 - share) / n + z * z / (4 * n * n)
    half = z * math.sqrt(spread) / (1 + z * z / n)
    low = max(0.0, middle - half) if successes else 0.0
    return low, min(1.0, middle + half)
