"""
How well scores agree with people: one row for each scorer, set, dimension and quality.

A scorer's *main score* is its dimension of the same name as the set's overall quality,
else its dimension ``Overall``, else the mean of all its dimensions. It is compared with
every quality; any other dimension with the quality of its name, or with the one for
which the set's card says that it stands. The *main row* of a set is that of the main
score and the overall quality; where a set has none, the mean over all qualities stands
in its place in tables.

At level ``turn`` or ``dialogue`` a point is a judged item; at level ``system`` the mean
of a system over its items. Intervals draw contexts, or dialogues, anew at both levels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from parlai_ext.bench.score_sets import ScorerResult, SetScores
from parlai_ext.data.judged.judged_set import JudgedSet
from parlai_ext.data.judged.qualities import main_dimension, main_score
from parlai_ext.ranking.agreement import (
    Correlation,
    correlate_items,
    correlate_system_means,
)
from parlai_ext.view.table import Column, IntervalColumn, Table, number_column

COEFFICIENTS = ('pearson', 'spearman', 'kendall')
MAIN = 'main score'
FEWEST_SYSTEMS = 5  # fewer have too few orders to say anything


@dataclass(frozen=True)
class AgreementRow:
    """
    The agreement of one score with one quality on one set at one level.

    :param dimension: of the scorer; `MEAN_ALL` for the mean of several.
    :param is_main: the row of the main score.
    :param is_overall: the quality judges an item as a whole.
    :param n: points that have a score and a human value; `dropped` counts the others.
    :param reason: why there is no coefficient, or no interval.
    :param n_items: the items behind the points, more than these at level ``system``.
    """

    scorer: str
    set_name: str
    level: str
    dimension: str
    quality: str
    is_main: bool
    is_overall: bool
    n: int
    dropped: int
    correlations: Mapping[str, Correlation]
    reason: str | None = None
    n_items: int = 0

    def value(self, coefficient: str = 'spearman') -> float | None:
        """
        Return a coefficient; `None` where there is none.
        """
        known = self.correlations.get(coefficient)
        return None if known is None else known.value


def _correlation(name: str, row: AgreementRow) -> Correlation | None:
    return row.correlations.get(name)


ROW_COLUMNS = (
    Column('scorer', 'Scorer'),
    Column('set_name'),
    Column('level', 'Level'),
    Column('dimension', 'Its score'),
    Column('quality', 'Quality'),
    Column('is_main'),
    Column('is_overall'),
    number_column('n', 'n'),
    number_column('n_items'),
    number_column('dropped', 'dropped'),
    *(
        IntervalColumn(name, name.capitalize(), partial(_correlation, name))
        for name in COEFFICIENTS
    ),
    Column('reason', '', show=lambda row: row.reason or ''),
)


def agreement_rows_table(
    rows: Sequence[AgreementRow], set_name: str | None = None
) -> Table:
    """
    Return the table of rows, or of those of one set.
    """
    return Table(ROW_COLUMNS, [r for r in rows if set_name in (None, r.set_name)])


def agreement_rows(
    results: Sequence[ScorerResult],
    sets: Mapping[str, JudgedSet],
    *,
    bootstraps: int,
    seed: int = 0,
) -> list[AgreementRow]:
    """
    Return the rows of a bench, in the order of the sets and then of the scorers.
    """
    rows: list[AgreementRow] = []
    for name, judged_set in sets.items():
        for result in results:
            scores = result.sets.get(name, 'it was not scored')
            if isinstance(scores, str):
                rows += _rows_without_scores(result, judged_set, scores)
            else:
                rows += set_rows(result, scores, judged_set, bootstraps, seed)
    return rows


def _rows_without_scores(
    result: ScorerResult, judged_set: JudgedSet, reason: str
) -> Iterator[AgreementRow]:
    """
    Yield a row with a reason for the item level, and one for systems.
    """
    quality = judged_set.overall or judged_set.qualities[0]
    for level in (judged_set.level, *system_level(judged_set)):
        yield AgreementRow(
            result.variant.label,
            judged_set.name,
            level,
            MAIN,
            quality,
            is_main=True,
            is_overall=judged_set.overall is not None,
            n=0,
            dropped=len(judged_set.items),
            correlations={},
            reason=reason,
        )


def system_level(judged_set: JudgedSet) -> tuple[str, ...]:
    """
    Return ``('system',)`` if a set has enough systems to compare, else nothing.
    """
    systems = {item.system for item in judged_set.items}
    return ('system',) if len(systems) >= FEWEST_SYSTEMS else ()


def set_rows(
    result: ScorerResult,
    scores: SetScores,
    judged_set: JudgedSet,
    bootstraps: int,
    seed: int = 0,
) -> Iterator[AgreementRow]:
    """
    Yield the rows of one scorer on one set.
    """
    main = main_dimension(result.dimensions, judged_set)
    columns = score_columns(result.dimensions, scores.values, judged_set)
    for (dimension, quality), values in columns.items():
        human = [item.human(quality) for item in judged_set.items]
        points = [
            k
            for k, pair in enumerate(zip(values, human, strict=True))
            if None not in pair
        ]
        of_levels = level_correlations(
            values, human, judged_set, points, bootstraps, seed
        )
        for level, correlations in of_levels.items():
            first = correlations['spearman']
            yield AgreementRow(
                result.variant.label,
                judged_set.name,
                level,
                dimension,
                quality,
                is_main=dimension == main,
                is_overall=quality == judged_set.overall,
                n=first.n,
                dropped=len(human) - scores.n_left_out - len(points)
                if level != 'system'
                else 0,
                correlations={
                    name: replace(one, reason=None)
                    for name, one in correlations.items()
                },
                reason=first.reason or _unscored_reason(scores, points),
                n_items=len(points),
            )


def level_correlations(
    scores: Sequence[float | None],
    human: Sequence[float | None],
    judged_set: JudgedSet,
    points: Sequence[int],
    bootstraps: int,
    seed: int,
) -> dict[str, dict[str, Correlation]]:
    """
    Return the correlations of scores with human values over items and, where there are
    enough, over systems; by level and coefficient.

    :param points: the places of the items that have a score and a human value.
    """
    groups = judged_set.groups()
    left: list[Any] = [scores[k] for k in points]
    right: list[Any] = [human[k] for k in points]
    draws: dict[str, Any] = {
        'groups': [groups[k] for k in points],
        'coefficients': COEFFICIENTS,
        'bootstraps': bootstraps,
        'seed': seed,
    }
    of_levels = {judged_set.level: correlate_items(left, right, **draws)}
    if system_level(judged_set):
        systems = [judged_set.items[k].system for k in points]
        of_levels['system'] = correlate_system_means(left, right, systems, **draws)
    return of_levels


def _unscored_reason(scores: SetScores, points: Sequence[int]) -> str | None:
    """
    Return the most frequent reason for a missing score where no item has one.
    """
    if points or not scores.reasons:
        return None
    return max(scores.reasons, key=lambda reason: scores.reasons[reason])


def score_columns(
    dimensions: Sequence[str],
    values: Sequence[Mapping[str, float | None]],
    judged_set: JudgedSet,
) -> dict[tuple[str, str], list[float | None]]:
    """
    Return the scores to be compared, by dimension and quality: the main score with all
    qualities, the other dimensions with those that they stand for.
    """
    main = main_dimension(dimensions, judged_set)
    columns: dict[tuple[str, str], list[float | None]] = {}
    for quality in judged_set.qualities:
        columns[main, quality] = [main_score(one, main) for one in values]
    qualities = {
        **judged_set.dimension_names,
        **{quality.lower(): quality for quality in judged_set.qualities},
    }
    for dimension in dimensions:
        named = qualities.get(dimension.lower())
        if named in judged_set.qualities and dimension != main:
            columns[dimension, named] = [one.get(dimension) for one in values]
    return columns
