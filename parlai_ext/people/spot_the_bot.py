"""
Spot The Bot (Deriu et al. 2020): for how many exchanges systems pass for humans, and
which ones win against which.

An annotator says of both speakers of a segment (the first exchanges of a dialogue)
whether they are a human (2), a bot (0), or undecided (1). Who was not called a bot
after so many exchanges is spotted later, if at all; who was, at some time before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import scipy

from parlai_ext.core import HumanJudgement, grouped
from parlai_ext.view import Table, shown_table

if TYPE_CHECKING:
    import pandas as pd

HUMAN, FEATURES = 'Human', ('Fluent', 'Sensible', 'Specific')
UNSPOTTED, *WINS = TABLES = ('unspotted', *(f'wins_{d}' for d in (HUMAN, *FEATURES)))
Judged = Sequence[HumanJudgement]


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
    fit = scipy.optimize.isotonic_regression(
        [spotted[length] / total[length] for length in lengths],
        weights=[total[length] for length in lengths],
    )
    return {n: 1 - share for n, share in zip(lengths, fit.x.tolist(), strict=True)}


def win_rates(ratings: Judged) -> pd.DataFrame:
    """
    Return ``[system, system]``: how often the first was rated above the second by an
    annotator of their dialogue, as share of the times when either was; NaN where none
    was.

    :param ratings: of one dimension. Of an annotator who judged a segment twice, the
        first ratings of both speakers belong together, and so on.
    """
    import pandas as pd

    segment = ['dialogue_id', 'utterance_index', 'rater']
    rows = pd.DataFrame(list(ratings))
    rows['nth'] = rows.groupby([*segment, 'system'], dropna=False).cumcount()
    table = rows.set_index([*segment, 'nth', 'system'])['value'].unstack()
    values = table.to_numpy()
    counts = (values[:, :, None] > values[:, None, :]).sum(axis=0)
    wins = pd.DataFrame(counts, table.columns, table.columns)
    return wins / (wins + wins.T)


def spot_the_bot_tables(ratings: Judged) -> Iterator[tuple[str, str, Table]]:
    """
    Yield name, title and table of the survival, and of the win rates in each dimension;
    nothing without ratings of segments.
    """
    import pandas as pd

    by_dimension = grouped(
        (r.dimension, r) for r in ratings if r.utterance_index is not None
    )
    segments = grouped(
        (r.system, ((r.utterance_index or 0) // 2 + 1, r.value == 0))
        for r in by_dimension.get(HUMAN, ())
    )
    if not segments:
        return
    names = sorted(segments)
    curves = pd.DataFrame({name: survival(segments[name]) for name in names})
    title = 'unspotted after so many exchanges (Turnbull)'
    yield UNSPOTTED, title, _by_system(curves.sort_index().T)
    for dimension, name in zip((HUMAN, *FEATURES), WINS, strict=True):
        if dimension not in by_dimension:
            continue
        rates = win_rates(by_dimension[dimension]).reindex(names, columns=names)
        if not rates.isna().all(axis=None):
            title = f'{dimension}: wins of the row against the column, of those decided'
            table = _by_system(rates.assign(mean=rates.mean(axis=1)))
            yield name, title, table


def _by_system(frame: pd.DataFrame) -> Table:
    """
    Return a row for each system, the index of the frame.
    """
    return shown_table(['system', *map(str, frame.columns)], frame.itertuples())
