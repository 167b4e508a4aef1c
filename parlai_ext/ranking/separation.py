"""
What the scores of one dimension can tell apart, and how many dialogues it would take.

**Model.** The difference of two systems in their dialogues with partner ``p`` over
opener ``j`` is ``d + A_p + B_j + E_pj``: the difference itself, and effects of the
partner, of the opener and of the single dialogue, independent, with mean 0. Their
variances are estimated by the method of moments from the table of differences, as in
an analysis of variance of two crossed random factors.

**Formula.** With ``P`` partners and ``n`` openers the mean difference has the variance
``S(n) = a / P + b / n + e / (P n)``, where ``a``, ``b``, ``e`` are the variances of the
three effects; ``a = 0`` where partners are fixed. The test of `ranks` claims a
difference above ``c(n) sqrt(V(n))``; ``V = S`` where partners are fixed, and
``V = S + 2 e / (P n)`` where they count as a sample, because the two-way bootstrap
counts the variance of single dialogues three times (Owen 2007). A true difference ``d``
is claimed in four of five repetitions as soon as
``d >= c(n) sqrt(V(n)) + 0.84 sqrt(S(n))``. The smallest such ``n`` is the answer.
``c(n)`` is Šidák's bound for all pairs of systems together, of Student's t with the
degrees of freedom that `ranks` uses. It is a little above the bound of `ranks`, so that
``n`` is some per cent too large.

**Assumption.** The true difference and the variances are those observed. The observed
lead of the first over the second is on average too large, because it was picked as the
largest: ``n`` is a rough figure, and rather too small.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from parlai_ext.core.nouns import is_floor
from parlai_ext.ranking.intervals import (
    FEWEST_OPENERS,
    FEWEST_PARTNERS,
    LEVEL,
    Floats,
    Sampling,
    degrees_of_freedom,
    json_number,
    student_bound,
)

Counts = NDArray[np.int64] | int

# how often the difference is found when it is there
POWER = 0.8
# beyond this nobody goes on
MOST_OPENERS, MOST_PARTNERS = 20_000, 200


@dataclass(frozen=True)
class DialoguesNeeded:
    """
    How many partners and openers would tell one system from another.

    The partners are those of now, if any number of openers is enough with them. Else
    both numbers are those with the fewest dialogues. `n_dialogues` are those of each
    system. All are `None` where `reason` says why.
    """

    better: str
    worse: str
    n_partners: int | None = None
    n_openers: int | None = None
    n_dialogues: int | None = None
    reason: str | None = None
    is_rough: bool = False


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    better: NDArray[np.bool_],
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
    n_pairs, n_apart = size * (size - 1) // 2, int(better.sum())
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


def fold_games(differences: Floats, games_per_opener: int) -> Floats:
    """
    Return ``[partner, opener]``, the mean of a pair's games over one opener, of
    ``[partner, game]``; NaN where there is none.
    """
    games = differences.reshape(len(differences), games_per_opener, -1)
    return known_means(games)


def known_means(values: Floats) -> Floats:
    """
    Return the means over the second axis of the numbers that are known, else NaN.
    """
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    sums = np.where(known, values, 0.0).sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def dialogues_needed(
    names: tuple[str, str], values: Floats, n_pairs: int, sampling: Sampling
) -> DialoguesNeeded:
    """
    Return how many dialogues would tell two systems apart, from how they differ now.

    :param names: the two systems, the one with the better score first.
    :param values: ``[2, partner, game]``, NaN where one of them has no score.
    :param n_pairs: how many pairs of systems are compared together.
    """
    differences = fold_games(values[0] - values[1], sampling.games_per_opener)
    defined = ~np.isnan(differences)  # somewhere with this partner, or opener
    table = differences[defined.any(axis=1)][:, defined.any(axis=0)]
    components = variance_components(table)
    if components is None:
        reason = 'one opener does not show how much dialogues vary'
        return DialoguesNeeded(*names, reason=reason)
    difference = json_number(abs(float(np.nanmean(table))))
    if not difference:
        return DialoguesNeeded(*names, reason='their scores are equal')
    n_partners = len(table)
    kind = 'fixed' if n_partners < FEWEST_PARTNERS else sampling.partners
    if kind == 'fixed':
        components = replace(components, partner=0.0)
    # the number goes with 1 / difference²: its relative error is 2 error / difference
    error = math.sqrt(float(components.variance(*table.shape)))
    is_rough = difference < 2 * error
    # with these partners if that is enough, else with more
    for most_partners in dict.fromkeys((n_partners, max(n_partners, MOST_PARTNERS))):
        units = candidate_counts(n_partners, most_partners)[:, None]
        openers = candidate_counts(FEWEST_OPENERS, MOST_OPENERS)[None, :]
        reach = detectable_difference(components, units, openers, n_pairs, kind)
        size = np.where(difference >= reach, units * openers, np.inf)
        u, n = np.unravel_index(int(size.argmin()), size.shape)
        if np.isfinite(size[u, n]):
            needed = int(units[u, 0]), int(openers[0, n])
            n_dialogues = math.prod(needed) * sampling.games_per_opener
            return DialoguesNeeded(*names, *needed, n_dialogues, is_rough=is_rough)
        if kind == 'fixed':
            break
    reason = 'no practical number of dialogues would be enough'
    return DialoguesNeeded(*names, reason=reason)


def candidate_counts(first: int, last: int) -> NDArray[np.int64]:
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
    if 0 in differences.shape:
        return None
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
    partners: str = 'sampled',
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
    bound = student_bound(float(scipy.stats.norm.isf(tail)), freedom)
    real = components.variance(n_partners, n_openers)
    return bound * np.sqrt(tested) + scipy.stats.norm.ppf(POWER) * np.sqrt(real)
