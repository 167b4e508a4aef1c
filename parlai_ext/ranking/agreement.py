"""
Kendall's tau between ratings and people, and among people.

Judges rank systems (1 is best) or rate them (larger is better). Agreement among judges
is the mean tau-b over all pairs of judges (Yang et al. 2022, Table 4); what a rating is
compared with is the mean of the judges' ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from parlai_ext.ranking.correlation import kendall
from parlai_ext.ranking.table import Floats, plain, settled

# judge -> system -> rank or rating; `None` for a cell that was left empty
Judges = Mapping[str, Mapping[str, float | None]]

FEWEST = 2
EVERY = 50_000  # resamples of so many judges are counted one by one, not drawn
DRAWS = 2000


@dataclass(frozen=True)
class Tau:
    """
    A correlation over `n` systems (or pairs of judges), or why there is none.

    `low` and `high` are the ends of a range, whose kind the one who made it knows.
    """

    value: float | None
    n: int
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    notes: tuple[str, ...] = ()


def tau(values: Mapping[str, float | None], ranks: Mapping[str, float | None]) -> Tau:
    """
    Return Kendall's tau-b of values (larger is better) with ranks (1 is best).

    Systems that lack either are left out, and named.
    """
    there = [n for n in sorted(values) if _there(values[n]) and _there(ranks.get(n))]
    unranked = [n for n in sorted(values) if not _there(ranks.get(n))]
    unrated = [n for n in sorted(values) if not _there(values[n]) and n not in unranked]
    notes = [f'no human rank: {", ".join(unranked)}'] if unranked else []
    notes += [f'no rating: {", ".join(unrated)}'] if unrated else []
    if len(there) < FEWEST:
        reason = f'{len(there)} systems have a rating and a human rank; 2 are needed'
        return Tau(None, len(there), reason, notes=tuple(notes))
    left = np.array([[float(values[n] or 0.0) for n in there]])
    right = -np.array([[float(ranks[n] or 0.0) for n in there]])
    value, undefined = _tau_b(left, right)
    return Tau(value, len(there), undefined, notes=tuple(notes))


def unmatched(systems: Sequence[str], judges: Judges) -> list[str]:
    """
    Say which systems nobody ranked, and whom judges ranked who is not there.
    """
    ranks = mean_ranks(judges)
    lacking = [n for n in sorted({*systems}) if not _there(ranks.get(n))]
    strange = [n for n in sorted(ranks) if n not in systems]
    said = [f'no human rank, left out of tau: {", ".join(lacking)}'] if lacking else []
    return said + ([f'ranked but not there: {", ".join(strange)}'] if strange else [])


def mean_ranks(judges: Judges) -> dict[str, float | None]:
    """
    Return the mean over those judges who said something of a system.
    """
    names = sorted({name for of in judges.values() for name in of})
    found: dict[str, float | None] = {}
    for name in names:
        said = [of[name] for of in judges.values() if _there(of.get(name))]
        numbers = [float(one) for one in said if one is not None]
        found[name] = math.fsum(numbers) / len(numbers) if numbers else None
    return found


def among_judges(judges: Judges, systems: Sequence[str] | None = None) -> Tau:
    """
    Return the mean tau-b over pairs of judges, `n` being the number of pairs.

    A pair compares the systems that both judged. Pairs without a tau (a judge gave all
    systems one value) are left out, and said.

    :param systems: compare these alone (`None`: all).
    """
    found, left_out = [], 0
    for one, other in combinations(sorted(judges), 2):
        a, b = ({**judges[name]} for name in (one, other))
        there = [n for n in sorted(a) if _there(a[n]) and _there(b.get(n))]
        there = [n for n in there if systems is None or n in systems]
        rows = [np.array([[float(of[n] or 0.0) for n in there]]) for of in (a, b)]
        value = _tau_b(*rows)[0] if len(there) >= FEWEST else None
        if value is None:
            left_out += 1
        else:
            found.append(value)
    notes = (f'{left_out} pairs of judges without a tau',) if left_out else ()
    if not found:
        return Tau(None, 0, 'no two judges can be compared', notes=notes)
    return Tau(plain(math.fsum(found) / len(found)), len(found), notes=notes)


def judge_range(
    values: Mapping[str, float | None], judges: Judges, *, seed: int = 0
) -> Tau:
    """
    Return tau with the mean rank, and its 95 % range over judges drawn anew.

    With few judges every possible draw is counted (four: 256), with more `DRAWS` are
    drawn.
    """
    whole = tau(values, mean_ranks(judges))
    if whole.value is None:
        return whole
    names = sorted(judges)
    rated = [name for name in sorted(values) if _there(values[name])]
    said = np.array(
        [[_number(judges[judge].get(name)) for name in rated] for judge in names]
    )
    drawn = _draws(len(names), seed)
    there = ~np.isnan(said)
    with np.errstate(invalid='ignore'):
        means = (drawn @ np.where(there, said, 0.0)) / (drawn @ there)
    kept = ~np.isnan(whole_means(said))
    left = np.array([_number(values[name]) for name in rated])[kept]
    taus = _rows(left, -settled(means[:, kept]))
    return ranged(whole, taus)


def whole_means(said: Floats) -> Floats:
    """
    Return the mean of each column's numbers, NaN without any.
    """
    there = ~np.isnan(said)
    with np.errstate(invalid='ignore'):
        return np.where(there, said, 0.0).sum(axis=0) / there.sum(axis=0)


def _draws(judges: int, seed: int) -> Floats:
    """
    Return ``[draw, judge]``: how often each judge is in each resample.
    """
    if judges**judges <= EVERY:
        chosen = np.array(list(product(range(judges), repeat=judges)))
    else:
        rng = np.random.default_rng([seed % 2**32, 3])
        chosen = rng.integers(judges, size=(DRAWS, judges))
    counts = np.zeros((len(chosen), judges))
    for column in chosen.T:
        counts[np.arange(len(chosen)), column] += 1
    return counts


def _rows(left: Floats, rows: Floats) -> Floats:
    """
    Return tau-b of ``left`` with each row that lacks no system.
    """
    whole = rows[~np.isnan(rows).any(axis=1)]
    return kendall(np.broadcast_to(settled(left), whole.shape), whole)


def ranged(whole: Tau, taus: Floats, ends: tuple[float, float] = (0.025, 0.975)) -> Tau:
    """
    Return ``whole`` with two quantiles of the draws that have a tau (NaN: none).
    """
    defined = taus[~np.isnan(taus)]
    notes = whole.notes
    if lost := len(taus) - len(defined):
        notes = (*notes, f'{lost} of {len(taus)} draws without a tau')
    if not len(defined):
        return Tau(whole.value, whole.n, whole.reason, notes=notes)
    low, high = (plain(float(q)) for q in np.quantile(defined, ends))
    return Tau(whole.value, whole.n, whole.reason, low, high, notes)


def _tau_b(left: Floats, right: Floats) -> tuple[float | None, str | None]:
    for side, what in ((left, 'rating'), (right, 'human rank')):
        if np.ptp(settled(side)) == 0:
            return None, f'all systems have the same {what}'
    return plain(float(kendall(settled(left), settled(right))[0])), None


def _there(value: float | None) -> bool:
    return value is not None and value == value


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
