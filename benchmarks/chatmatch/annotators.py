"""
Kendall's tau with annotators who ranked systems, and among them (Yang et al. 2022).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np

from parlai_ext.ranking.agreement import (
    ENDS,
    AnnotatorRanks,
    Correlation,
    correlate_with_ranks,
    kendall,
    mean_ranks,
)
from parlai_ext.ranking.table import Floats, json_number, round_off_noise

MAX_ENUMERATED = 50_000  # resamples of annotators that are enumerated, not drawn
ANNOTATOR_DRAWS = 2000


def unmatched_systems(systems: Sequence[str], annotators: AnnotatorRanks) -> list[str]:
    """
    Return notes on systems without a human rank and on ranks of unknown systems.
    """
    ranks = mean_ranks(annotators)
    lacking = [n for n in sorted({*systems}) if ranks.get(n) is None]
    unknown = [n for n in sorted(ranks) if n not in systems]
    notes = [f'no human rank, left out of tau: {", ".join(lacking)}'] if lacking else []
    return notes + ([f'ranked but not there: {", ".join(unknown)}'] if unknown else [])


def agreement_among_annotators(
    annotators: AnnotatorRanks, systems: Sequence[str] | None = None
) -> Correlation:
    """
    Return the mean tau-b over pairs of annotators (Yang et al. 2022, Table 4).

    A pair compares the systems that both ranked. A pair without a tau (one of them gave
    all systems the same value) is left out and counted in the notes.

    :param systems: compare these alone (`None`: all).
    """
    taus, left_out = [], 0
    for annotator, other in combinations(sorted(annotators), 2):
        ranks = annotators[other]
        # the other's larger values go with smaller ranks of a correlation
        turned = {n: -rank for n, rank in ranks.items() if rank is not None}
        own = annotators[annotator]
        shared = {n: own[n] for n in own if systems is None or n in systems}
        tau = correlate_with_ranks(shared, turned).value
        if tau is None:
            left_out += 1
        else:
            taus.append(tau)
    notes = (f'{left_out} pairs of annotators without a tau',) if left_out else ()
    if not taus:
        return Correlation(None, 0, 'no two annotators can be compared', notes=notes)
    return Correlation(json_number(math.fsum(taus) / len(taus)), len(taus), notes=notes)


def correlate_with_annotators(
    values: Mapping[str, float | None], annotators: AnnotatorRanks, *, seed: int = 0
) -> Correlation:
    """
    Return tau-b of values with mean ranks, and its 95 % range over annotators.

    With few annotators every possible draw is enumerated (four: 256), with more
    `ANNOTATOR_DRAWS` are drawn.
    """
    correlation = correlate_with_ranks(values, mean_ranks(annotators))
    if correlation.value is None:
        return correlation
    rated = [name for name in sorted(values) if values[name] is not None]
    ranks = np.array(
        [[annotators[a].get(name) for name in rated] for a in sorted(annotators)],
        np.float64,
    )
    there = ~np.isnan(ranks)
    ranked = there.any(axis=0)
    left = np.array([values[name] for name in rated], np.float64)
    return over_draws(
        correlation,
        left[ranked],
        np.where(there, -ranks, 0.0)[:, ranked],
        there[:, ranked],
        _annotator_draws(len(annotators), seed),
    )


def over_draws(
    correlation: Correlation, left: Floats, sums: Floats, counts: Floats, drawn: Floats
) -> Correlation:
    """
    Return a correlation of values with annotators' means, with its 95 % range over
    draws; those without any annotator of a system are left out.

    :param left: the value of each system.
    :param sums, counts: ``[annotator, system]``.
    :param drawn: ``[draw, annotator]``, how often each is in a draw.
    """
    with np.errstate(invalid='ignore'):
        right = round_off_noise((drawn @ sums) / (drawn @ counts))
    right = right[~np.isnan(right).any(axis=1)]
    left = round_off_noise(left)
    return with_range(correlation, kendall(np.broadcast_to(left, right.shape), right))


def _annotator_draws(annotators: int, seed: int) -> Floats:
    """
    Return ``[draw, annotator]``: how often each annotator is in each resample.
    """
    if annotators**annotators <= MAX_ENUMERATED:
        chosen = np.array(list(product(range(annotators), repeat=annotators)))
    else:
        rng = np.random.default_rng([seed % 2**32, 3])
        chosen = rng.integers(annotators, size=(ANNOTATOR_DRAWS, annotators))
    counts = np.zeros((len(chosen), annotators))
    for column in chosen.T:
        counts[np.arange(len(chosen)), column] += 1
    return counts


def with_range(
    correlation: Correlation, draws: Floats, ends: tuple[float, float] = ENDS
) -> Correlation:
    """
    Return a correlation with two quantiles of the draws that have a value (not NaN).

    A range says how far a value would move. Unlike an interval it exists as soon as one
    draw has a value; the draws without one are counted in the notes.
    """
    defined = draws[~np.isnan(draws)]
    notes = correlation.notes
    if lost := len(draws) - len(defined):
        notes = (*notes, f'{lost} of {len(draws)} draws without a tau')
    if not len(defined):
        return replace(correlation, low=None, high=None, notes=notes)
    low, high = (json_number(float(end)) for end in np.quantile(defined, ends))
    return replace(correlation, low=low, high=high, notes=notes)
