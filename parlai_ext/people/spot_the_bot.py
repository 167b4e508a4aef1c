"""
Spot The Bot (Deriu et al. 2020): for how many exchanges systems pass for humans, and
which ones win against which.

An annotator says of both speakers of a segment (the first exchanges of a dialogue)
whether they are a human (2), a bot (0), or undecided (1). Who was not called a bot
after so many exchanges is spotted later, if at all; who was, at some time before.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from scipy.optimize import isotonic_regression

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.view.table import Table, shown_table

HUMAN, FEATURES = 'Human', ('Fluent', 'Sensible', 'Specific')
Judged = Sequence[HumanJudgement]
Row = tuple[str | float | None, ...]


def survival(segments: Sequence[tuple[int, bool]]) -> dict[int, float]:
    """
    Return Turnbull's estimate of the chance to be unspotted after so many exchanges.

    Each annotation says only whether the spotting lies before or after the end of its
    segment, (0, t] or (t, ∞). For such data the nonparametric maximum of the likelihood
    is the isotonic regression of the shares spotted (Ayer et al. 1955).

    :param segments: length in exchanges, and whether the system was spotted, of each.
    """
    total = Counter(length for length, _ in segments)
    spotted = Counter(length for length, is_spotted in segments if is_spotted)
    lengths = sorted(total)
    fit = isotonic_regression(
        [spotted[length] / total[length] for length in lengths],
        weights=[total[length] for length in lengths],
    )
    return {n: 1 - share for n, share in zip(lengths, fit.x.tolist(), strict=True)}


def wins(ratings: Judged) -> Counter[tuple[str, str]]:
    """
    Return how often the first system was rated above the second by an annotator of
    their dialogue.

    :param ratings: of one dimension. Of an annotator who judged a segment twice, the
        first ratings of both speakers belong together, and so on.
    """
    segments: dict[tuple[object, ...], dict[str, list[float]]] = defaultdict(dict)
    for r in ratings:
        sides = segments[r.dialogue_id, r.utterance_index, r.rater]
        sides.setdefault(r.system, []).append(r.value)
    counts: Counter[tuple[str, str]] = Counter()
    for sides in segments.values():
        for one, other in combinations(sides, 2):
            for a, b in zip(sides[one], sides[other], strict=False):
                if a != b:
                    counts[(one, other) if a > b else (other, one)] += 1
    return counts


def win_rates(counts: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], float]:
    """
    Return the share of wins of each pair's first system among those of either, where
    there are any.
    """
    return {
        (a, b): counts.get((a, b), 0) / decided
        for a, b in {*counts, *((b, a) for a, b in counts)}
        if (decided := counts.get((a, b), 0) + counts.get((b, a), 0))
    }


def spot_the_bot_tables(ratings: Judged) -> Iterator[tuple[str, str, Table]]:
    """
    Yield name, title and table of the survival, and of the win rates in each dimension;
    nothing without ratings of segments.
    """
    segments = [r for r in ratings if r.utterance_index is not None]
    humans = [r for r in segments if r.dimension == HUMAN]
    if not humans:
        return
    names = sorted({r.system for r in humans})
    curves = {
        name: survival(
            [
                ((r.utterance_index or 0) // 2 + 1, r.value == 0)
                for r in humans
                if r.system == name
            ]
        )
        for name in names
    }
    lengths = sorted({n for curve in curves.values() for n in curve})
    rows: list[Row] = [
        (name, *(curves[name].get(n) for n in lengths)) for name in names
    ]
    title = 'unspotted after so many exchanges (Turnbull)'
    yield 'unspotted', title, shown_table(['system', *map(str, lengths)], rows)
    for dimension in (HUMAN, *FEATURES):
        rates = win_rates(wins([r for r in segments if r.dimension == dimension]))
        if not rates:
            continue
        rows = []
        for name in names:
            own = [rates.get((name, other)) for other in names]
            known = [rate for rate in own if rate is not None]
            mean = sum(known) / len(known) if known else None
            rows.append((name, *own, mean))
        title = f'{dimension}: wins of the row against the column, of those decided'
        yield f'wins_{dimension}', title, shown_table(['system', *names, 'mean'], rows)
