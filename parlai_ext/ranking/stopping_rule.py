"""
When a run may stop: which pairs of systems are settled after each block of openers.

**Observation.** On one opener a system's score is its mean over all partners, and two
systems differ by ``D_j``. Openers are drawn at random, so the ``D_j`` are independent
draws around the true difference ``d`` with these partners. How other partners would
differ is another question, which no number of openers answers.

**Interval.** A confidence sequence: with probability ``1 - error`` its intervals cover
``d`` after every number of openers at once, so that one may look as often as one likes
and stop when one likes. It is the set of ``d`` against which the t-statistic of the
``D_j`` gives a Bayes factor below ``1 / error``, for normal effect sizes of variance
``g`` (Gönen et al. 2005, equation 5; Lai 1976; Wang and Ramdas 2025, theorem 4.9):

    mean ± t s / √n,   t² = (n - 1) (R - 1) / (1 - R / k),   k = 1 + n g,
    R = (k / error²)^(1/n);   no bound while R >= k

This is exact for normal differences of unknown variance, and holds in the long run for
any with a finite variance (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024). No
range of the scores is needed, which log-likelihoods do not have. How it does with
skewed and heavy-tailed scores: ``benchmarks/stopping.py``, docs/stopping_method.md.

**Skewed differences.** With few openers, scores that are mostly alike and seldom far
off make the interval too short: what is seldom has not been seen yet. The mean of a
pair of which it was not seen looks sure, while other pairs of the run have seen it.
Where the differences of any pair are more skewed than `MOST_SKEWNESS`, a look counts
only after `ENOUGH_IF_SKEWED` openers. Leaving looks out can only make decisions fewer.

**Decision.** The error of 5 % is shared equally by all pairs (Bonferroni), and of the
intervals so far the intersection counts. A pair is settled in order as soon as its
interval lies on one side of 0, and as a tie as soon as it lies within ± margin. If all
intervals cover, no decision is wrong: neither an order, nor a tie of systems that
differ by more than the margin.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise, starmap
from typing import Any

import numpy as np

from parlai_ext.core import frozen
from parlai_ext.ranking.intervals import LEVEL, Floats, Ints, json_number
from parlai_ext.ranking.standings import RankRange, rank_ranges

ERROR = 1 - LEVEL
# the number of openers after which intervals are about as narrow as they can be
SHARPEST_AT = 100
# before so many openers nothing is settled: scores are not normal
FEWEST_TO_SETTLE = 20
# a look at differences of a larger skewness counts only after so many openers
MOST_SKEWNESS = 2.0
ENOUGH_IF_SKEWED = 160
# differences that vary by less than this share of the scores do so by rounding
ROUNDING = 1e-12

ORDER, TIE = 'order', 'tie'
WHEN_RANKED = 'when-ranked'


@frozen
class PairOutcome:
    """
    What is known of two systems at the last look.

    `outcome` is ``order`` (the first is better), ``tie`` or `None`: not settled.
    `settled_at` is the number of openers at the look that settled it. `difference` is
    first less second over `n_openers` openers; `low` and `high` are the ends of its
    anytime-valid interval, `None` where it has no bound yet.
    """

    first: str
    second: str
    outcome: str | None
    settled_at: int | None
    n_openers: int
    difference: float | None
    low: float | None
    high: float | None


@frozen
class Look:
    """
    How many pairs were settled, in order or as ties, after a number of openers, and
    the largest skewness of a pair's differences, in absolute value.
    """

    n_openers: int
    n_ordered: int
    n_tied: int
    n_open: int
    skewness: float = 0.0

    @property
    def counts(self) -> bool:
        """
        False where differences are too skewed for so few openers to settle anything.
        """
        return counts_as_look(self.n_openers, self.skewness)


@frozen
class Stopping:
    """
    How a run came to its number of openers: one look after each block of them.

    :param margin: a difference on `dimension` up to this counts as none.
    :param confidence: with which all decisions together are right.
    :param planned: openers that would be played at most.
    :param n_pairings: dialogues over each opener.
    :param looks: one for each block, the last one last.
    :param pairs: as they stand at the last look.
    :param ranks: the ranks that the settled pairs leave open, by system.
    :param scores: the signature of the scorer.
    :param n_later: openers that the run got after the last look.
    """

    rule: str
    dimension: str
    margin: float
    confidence: float
    planned: int
    n_pairings: int
    looks: tuple[Look, ...]
    pairs: tuple[PairOutcome, ...]
    ranks: Mapping[str, RankRange]
    scores: str
    n_later: int = 0

    @property
    def used(self) -> int:
        """
        The openers that were played.
        """
        return self.looks[-1].n_openers

    @property
    def is_settled(self) -> bool:
        """
        True if every pair is settled.
        """
        return self.looks[-1].n_open == 0

    @property
    def is_final(self) -> bool:
        """
        True if no further block is to be played.
        """
        return self.is_settled or self.used >= self.planned

    @property
    def reason(self) -> str:
        """
        Why the run ended, or that it goes on, in words.
        """
        if self.is_settled:
            return 'every pair is settled'
        if self.is_final:
            return 'all planned openers are played'
        return 'pairs are open; it goes on'


@frozen
class Intervals:
    """
    The confidence sequences of all pairs: arrays ``[pair, look]``, infinite ends where
    there is no bound, the pairs as indices of their systems, and for each look the
    largest skewness of a pair's differences.
    """

    pairs: tuple[tuple[int, int], ...]
    counts: Ints
    means: Floats
    lows: Floats
    highs: Floats
    skewness: Floats


def prior_variance(error: float) -> float:
    """
    Return the variance ``g`` of effect sizes with which the interval is narrowest after
    `SHARPEST_AT` observations: where ``k = 1 + log(k) - 2 log(error)``.
    """
    k = 10.0
    for _ in range(50):  # each step leaves less than a seventh of the distance
        k = 1 + math.log(k) - 2 * math.log(error)
    return (k - 1) / SHARPEST_AT


def critical_values(counts: Ints, error: float) -> Floats:
    """
    Return, for each number of observations, how many standard errors the confidence
    sequence reaches to each side of the mean; infinite where there is no bound.
    """
    n = np.asarray(counts, np.float64)
    k = 1 + n * prior_variance(error)
    with np.errstate(divide='ignore', over='ignore'):
        ratio = np.exp((np.log(k) - 2 * math.log(error)) / n)
    bounded = (n >= 2) & (ratio < k)
    bound = np.full(n.shape, np.inf)
    m, r = n[bounded], ratio[bounded]
    bound[bounded] = np.sqrt((m - 1) * (r - 1) / (1 - r / k[bounded]))
    return bound


def moments_so_far(values: Floats, ends: Ints) -> tuple[Ints, Floats, Floats, Floats]:
    """
    Return ``[row, end]``: how many of the values up to and with each end are known,
    their mean (NaN of none), their variance and their third central moment.
    """
    defined = ~np.isnan(values)
    counts = defined.cumsum(axis=1)[:, ends]
    # the middle is taken out, so that powers lose no digits
    middle = np.where(defined, values, 0.0).sum(axis=1, keepdims=True)
    middle = middle / np.maximum(defined.sum(axis=1, keepdims=True), 1)
    centred = np.where(defined, values - middle, 0.0)
    n = np.maximum(counts, 1)
    offsets, squares, cubes = (
        (centred**power).cumsum(axis=1)[:, ends] for power in (1, 2, 3)
    )
    offsets = offsets / n
    means = np.where(counts > 0, offsets + middle, np.nan)
    variances = np.maximum(squares - n * offsets**2, 0.0) / np.maximum(n - 1, 1)
    third = cubes / n - 3 * offsets * squares / n + 2 * offsets**3
    return counts, means, variances, third


def pair_intervals(scores: Floats, looks: Sequence[int], error: float) -> Intervals:
    """
    Return the confidence sequence of every pair at every look.

    :param scores: ``[system, opener]``, NaN where there is none.
    :param looks: numbers of openers, ascending.
    :param error: of each pair.
    """
    pairs = tuple(combinations(range(len(scores)), 2))
    ends = np.asarray(looks, np.int64) - 1
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    counts, means, variances, third = moments_so_far(scores[left] - scores[right], ends)
    n = np.maximum(counts, 1)
    # how far scores lie apart up to each look
    highest = np.fmax.accumulate(np.fmax.reduce(scores, axis=0))
    lowest = np.fmin.accumulate(np.fmin.reduce(scores, axis=0))
    scale = np.nan_to_num(highest - lowest)[ends] + np.abs(np.nan_to_num(means))
    varies = np.sqrt(variances) > ROUNDING * scale
    second = np.where(varies, variances * (n - 1) / n, 1.0)
    skewness = np.where(varies, np.abs(third) / second**1.5, 0.0).max(axis=0, initial=0)
    # Differences that are all equal say nothing of their variance. But had more than
    # 1 - error^(1/n) of all openers another difference, one of n would have shown it,
    # with probability 1 - error at every n at once; and another difference is no
    # further away than scores of this run lie apart.
    unseen = (1 - error ** (1 / n)) * scale
    errors = np.sqrt(np.where(varies, variances, 1.0) / n)
    widths = np.where(varies, critical_values(counts, error) * errors, unseen)
    widths[counts < FEWEST_TO_SETTLE] = np.inf
    widths[:, ~counts_as_look(np.asarray(looks), skewness)] = np.inf
    lows = np.maximum.accumulate(np.nan_to_num(means) - widths, axis=1)
    highs = np.minimum.accumulate(np.nan_to_num(means) + widths, axis=1)
    return Intervals(pairs, counts, means, lows, highs, skewness)


def counts_as_look(n_openers: Any, skewness: Any) -> Any:
    """
    Return whether a look may settle anything, of numbers or of arrays of them.
    """
    return (n_openers >= ENOUGH_IF_SKEWED) | (skewness <= MOST_SKEWNESS)


def settle_pairs(
    scores: Floats,
    systems: Sequence[str],
    looks: Sequence[int],
    margin: float,
    n_pairs: int | None = None,
) -> tuple[tuple[Look, ...], tuple[PairOutcome, ...]]:
    """
    Return how many pairs were settled at each look, and each pair as it stands at the
    last one; the better system of a pair comes first.

    :param scores: ``[system, opener]``, NaN where there is none.
    :param looks: numbers of openers, ascending.
    :param margin: a difference up to this counts as none.
    :param n_pairs: how many pairs share the error, where they are more than these.
    """
    here = math.comb(len(systems), 2)
    if not here:
        return tuple(Look(int(n), 0, 0, 0) for n in looks), ()
    intervals = pair_intervals(scores, looks, ERROR / (n_pairs or here))
    codes = outcome_codes(intervals, margin)
    by_look = []
    for n, column, skewness in zip(looks, codes.T, intervals.skewness, strict=True):
        counts = Counter(np.abs(column).tolist())
        by_look.append(Look(int(n), counts[1], counts[2], counts[0], float(skewness)))
    outcomes = (
        pair_outcome(intervals, k, [systems[i] for i in pair], looks, codes[k])
        for k, pair in enumerate(intervals.pairs)
    )
    return tuple(by_look), tuple(outcomes)


def pair_outcome(
    intervals: Intervals,
    k: int,
    names: Sequence[str],
    looks: Sequence[int],
    codes: Ints,
) -> PairOutcome:
    """
    Return a pair as it stands at the last look.

    :param k: its place in the arrays.
    :param names: of its systems.
    :param codes: its outcome at each look.
    """
    (first, second), code = names, int(codes[-1])
    mean, low, high = (
        float(a[k, -1]) for a in (intervals.means, intervals.lows, intervals.highs)
    )
    if code == -1 or (code != 1 and mean < 0):
        first, second, mean, low, high = second, first, -mean, -high, -low
    return PairOutcome(
        first=first,
        second=second,
        outcome={0: None, 2: TIE}.get(code, ORDER),
        settled_at=int(looks[int((codes != 0).argmax())]) if code else None,
        n_openers=int(intervals.counts[k, -1]),
        difference=json_number(mean),
        low=json_number(low),
        high=json_number(high),
    )


def settled_ranks(
    systems: Sequence[str], pairs: Sequence[PairOutcome]
) -> dict[str, RankRange]:
    """
    Return the ranks that settled pairs leave open; all hold together with 95 %
    confidence.
    """
    place = {name: k for k, name in enumerate(systems)}
    better = np.zeros((len(systems), len(systems)), np.bool_)
    for pair in pairs:
        if pair.outcome == ORDER:
            better[place[pair.first], place[pair.second]] = True
    return dict(zip(systems, starmap(RankRange, rank_ranges(better)), strict=True))


def outcome_codes(intervals: Intervals, margin: float) -> Ints:
    """
    Return ``[pair, look]``: 1 or -1 where the first or the second system is settled as
    the better one, 2 for a tie, 0 where nothing is settled. What is settled stays so.
    """
    lows, highs = intervals.lows, intervals.highs
    codes = np.zeros(lows.shape, np.int64)
    codes[(lows > -margin) & (highs < margin)] = 2
    codes[highs < 0] = -1
    codes[lows > 0] = 1
    for before, now in pairwise(codes.T):  # views of two looks
        now[before != 0] = before[before != 0]
    return codes
