"""
A bench as its files hold it: ``bench.json``, ``agreement.csv``, and the points of each
set.

``bench.json`` holds every number of the tables and what they depend on. The files in
``points/`` hold the scores and human values of each item, without any text, so that
`compare_metrics` can compare scorers item by item.

**How well scores agree with people**: one row for each scorer, set, dimension and
quality. A scorer's *main score* is its dimension of the same name as the set's overall
quality, else its dimension ``Overall``, else the mean of all its dimensions. It is
compared with every quality; any other dimension with the quality of its name, or with
the one for which the set's card says that it stands. The *main row* of a set is that of
the main score and the overall quality; where a set has none, the mean over all
qualities stands in its place in tables.

At level ``turn`` or ``dialogue`` a point is a judged item; at level ``system`` the mean
of a system over its items. Intervals draw contexts, or dialogues, anew at both levels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TypeVar

from parlai_ext.core import JudgeModel, UserError, frozen, mean, record_to_json
from parlai_ext.core.records import read_own_record
from parlai_ext.data.judged import JudgedSet, main_dimension, main_score
from parlai_ext.ranking.agreement import Correlation, correlate_items
from parlai_ext.ranking.intervals import Sampling
from parlai_ext.store import dumps, json_text, write_text
from parlai_ext.view import Column, IntervalColumn, Table, number_column

T = TypeVar('T')
COEFFICIENTS = ('pearson', 'spearman', 'kendall')
MOST_REASONS = 3  # for which items have no score, that a row tells
FEWEST_SYSTEMS = 5  # fewer have too few orders to say anything
Numbers = Sequence[float | None]  # of the items of a set; `None` where one has none


@frozen
class ScorerAbout:
    """
    A scorer of a bench: what it is, or why it could not be built.

    :param fitted_on: the judged sets on which something in it was fitted.
    """

    label: str
    name: str
    signature: str | None = None
    level: str = 'turn'
    dimensions: tuple[str, ...] = ()
    is_trivial: bool = False
    fitted_on: tuple[str, ...] = ()
    failure: str | None = None
    models: tuple[JudgeModel, ...] = ()


@frozen
class SetScores:
    """
    The scores of one scorer on one set, one mapping for each item of the set.

    :param values: by dimension; `None` where an item has no score.
    :param reasons: how often which reason stands for a missing score.
    :param n_left_out: items that this scorer was not to score; they have no score.
    :param flips: in how many pairs a choice changes with the order, and of how many, of
        a scorer that shows it.
    :param n_cut: items that were too long for a model of the scorer.
    """

    values: Sequence[Mapping[str, float | None]]
    reasons: Mapping[str, int] = field(default_factory=dict)
    n_left_out: int = 0
    flips: tuple[int, ...] = ()
    n_cut: int = 0


@dataclass
class ScorerResult:
    """
    What became of one scorer: scores or a reason by set. `broke` is true if its code
    failed in a way that its author did not foresee.
    """

    about: ScorerAbout
    broke: bool = False
    sets: dict[str, SetScores | str] = field(default_factory=dict)

    def of_sets(self, field_of: Callable[[SetScores], T]) -> dict[str, T]:
        """
        Return a field of the scores of each set where it holds something.
        """
        return {
            set_name: value
            for set_name, scores in self.sets.items()
            if isinstance(scores, SetScores) and (value := field_of(scores))
        }


@frozen
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


def _coefficient_column(name: str) -> Column:
    return IntervalColumn(
        name, name.capitalize(), lambda row: row.correlations.get(name)
    )


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
    *map(_coefficient_column, COEFFICIENTS),
    Column('reason', '', show=lambda row: row.reason or ''),
)


def agreement_rows(
    results: Sequence[ScorerResult],
    sets: Mapping[str, JudgedSet],
    sampling: Sampling,
) -> Iterator[AgreementRow]:
    """
    Yield the rows of a bench, in the order of the sets and then of the scorers.
    """
    for (name, judged_set), result in product(sets.items(), results):
        scores = result.sets[name]
        if isinstance(scores, SetScores):
            yield from set_rows(result, scores, judged_set, sampling)
            continue
        for level in levels_of(judged_set):
            yield AgreementRow(
                result.about.label,
                name,
                level,
                'main score',
                judged_set.overall or judged_set.qualities[0],
                is_main=True,
                is_overall=judged_set.overall is not None,
                n=0,
                dropped=len(judged_set.items),
                correlations={},
                reason=scores,
            )


def levels_of(judged_set: JudgedSet) -> list[str]:
    """
    Return the levels at which a set has rows: its own, and ``system`` if it has enough
    systems to compare.
    """
    systems = {item.system for item in judged_set.items}
    more = ['system'] if len(systems) >= FEWEST_SYSTEMS else []
    return [judged_set.level, *more]


def set_rows(
    result: ScorerResult,
    scores: SetScores,
    judged_set: JudgedSet,
    sampling: Sampling,
) -> Iterator[AgreementRow]:
    """
    Yield the rows of one scorer on one set.
    """
    main, columns = score_columns(result.about.dimensions, scores.values, judged_set)
    for (dimension, quality), values in columns.items():
        of_levels = level_correlations(values, quality, judged_set, sampling)
        n_items = of_levels[judged_set.level]['spearman'].n
        for level, correlations in of_levels.items():
            first, dropped = correlations['spearman'], 0
            reason = first.reason
            if first.value is None:
                often = Counter(scores.reasons).most_common(MOST_REASONS)
                reason = '; '.join([f'{reason}', *(f'{n}: {why}' for why, n in often)])
            if level != 'system':
                dropped = len(values) - scores.n_left_out - n_items
            yield AgreementRow(
                result.about.label,
                judged_set.name,
                level,
                dimension,
                quality,
                is_main=dimension == main,
                is_overall=quality == judged_set.overall,
                n=first.n,
                dropped=dropped,
                correlations={
                    name: replace(one, reason=None)
                    for name, one in correlations.items()
                },
                reason=reason,
                n_items=n_items,
            )


def level_correlations(
    scores: Numbers, quality: str, judged_set: JudgedSet, sampling: Sampling
) -> dict[str, dict[str, Correlation]]:
    """
    Return the correlations of scores with human values over the items that have both
    and, where there are enough, over systems; by level and coefficient.
    """
    items = judged_set.items
    columns = (
        scores,
        [item.human(quality) for item in items],
        judged_set.groups(),
        [item.system for item in items],
    )
    known = [row for row in zip(*columns, strict=True) if None not in row]
    left, right, groups, systems = zip(*known, strict=True) if known else [()] * 4
    return {
        level: correlate_items(
            left,
            right,
            sampling,
            groups=groups,
            systems=systems if level == 'system' else None,
            coefficients=COEFFICIENTS,
        )
        for level in levels_of(judged_set)
    }


def score_columns(
    dimensions: Sequence[str],
    values: Sequence[Mapping[str, float | None]],
    judged_set: JudgedSet,
) -> tuple[str, dict[tuple[str, str], list[float | None]]]:
    """
    Return the main dimension, and the scores to be compared, by dimension and quality:
    the main score with all qualities, the other dimensions with those that they stand
    for.
    """
    main = main_dimension(dimensions, judged_set)
    main_scores = [main_score(one, main) for one in values]
    columns = {(main, quality): main_scores for quality in judged_set.qualities}
    qualities = {
        **judged_set.dimension_names,
        **{quality.lower(): quality for quality in judged_set.qualities},
    }
    for dimension in dimensions:
        named = qualities.get(dimension.lower())
        if named in judged_set.qualities and dimension != main:
            columns[dimension, named] = [one.get(dimension) for one in values]
    return main, columns


SCHEMA = 3
BENCH, TABLE, POINTS = 'bench.json', 'agreement.csv', 'points'
AGAIN = 'run the bench again'


@frozen
class SetAbout:
    """
    A judged set of a bench, and how much of it was drawn.
    """

    name: str
    title: str
    source: str
    licence: str
    level: str
    unit: str
    overall: str | None
    qualities: tuple[str, ...]
    n_items: int
    n_drawn: int
    n_groups: int
    n_systems: int
    turns: int | None = None
    n_outliers: int = 0

    @classmethod
    def from_set(
        cls, whole: JudgedSet, drawn: JudgedSet, turns: int | None, n_annotations: int
    ) -> SetAbout:
        """
        Return what a bench's files say of one set.

        :param n_annotations: that the set had before outliers were left out.
        """
        return cls(
            whole.name,
            whole.title,
            whole.source,
            whole.licence,
            whole.level,
            whole.unit,
            whole.overall,
            qualities=drawn.qualities,
            n_items=len(whole.items),
            n_drawn=len(drawn.items),
            n_groups=len(set(drawn.groups())),
            n_systems=len({item.system for item in drawn.items}),
            turns=turns,
            n_outliers=n_annotations - whole.counts()['annotations'],
        )


@frozen
class Bench:
    """
    A bench as its file holds it.

    :param missing: why a set that was asked for is not there, by set.
    :param reasons: by scorer and set, how often which reason stands for a score that is
        missing.
    :param published: the source of published figures that stand beside the table.
    :param flips: by scorer and set, in how many pairs a choice changes with the order,
        and of how many.
    """

    scorers: Sequence[ScorerAbout]
    sets: Sequence[SetAbout]
    rows: Sequence[AgreementRow]
    seed: int
    bootstraps: int
    description: str = ''
    missing: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    published: str = ''
    flips: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)

    def row(self, scorer: str, set_name: str, level: str) -> AgreementRow | None:
        """
        Return the row of the main score and the overall quality; `None` if there is
        none.
        """
        rows = self.main_rows(scorer, set_name, level)
        return next((row for row in rows if row.is_overall), None)

    def main_rows(self, scorer: str, set_name: str, level: str) -> list[AgreementRow]:
        """
        Return the rows of a scorer's main score on a set, one for each quality.
        """
        key = (scorer, set_name, level)
        return [
            row
            for row in self.rows
            if row.is_main and (row.scorer, row.set_name, row.level) == key
        ]

    def mean(self, scorer: str, set_name: str, level: str) -> float | None:
        """
        Return the mean over a set's qualities of the main score's Spearman; `None` if
        one of them is missing.
        """
        return mean([row.value() for row in self.main_rows(scorer, set_name, level)])


def read_bench(folder: Path) -> Bench:
    """
    Return the bench in a folder.

    :raises UserError: when there is none, or it is of another version.
    """
    path = folder / BENCH
    if not path.is_file():
        raise UserError(
            f'{path}: there is no bench; parlai run_bench --out {folder} makes one'
        )
    return read_own_record(Bench, path, AGAIN)


@frozen
class SetPoints:
    """
    The numbers of one set: what people and scorers say of each item.

    All lists have one entry for each drawn item.

    :param annotators: by quality, the numbers of each item's annotators.
    :param scores: by scorer, its main score.
    :param own_scores: by quality and scorer, the score in a dimension that stands for
        this quality.
    """

    set_name: str
    level: str
    unit: str
    overall: str | None
    groups: Sequence[int]
    systems: Sequence[str]
    human: Mapping[str, Numbers]
    annotators: Mapping[str, Sequence[Sequence[float]]]
    scores: Mapping[str, Numbers]
    own_scores: Mapping[str, Mapping[str, Numbers]] = field(default_factory=dict)


def set_points(judged_set: JudgedSet, results: Sequence[ScorerResult]) -> SetPoints:
    """
    Return the points of a set from the scores of a bench.

    A dimension stands for a quality, but for the overall one, if it has its name; else
    the first one does of which the set's card says so.
    """
    scores = {}
    own_scores: dict[str, dict[str, Numbers]] = {}
    for result in results:
        of_set, label = result.sets[judged_set.name], result.about.label
        if isinstance(of_set, str):
            continue
        dimensions = result.about.dimensions
        main, columns = score_columns(dimensions, of_set.values, judged_set)
        for (dimension, quality), values in columns.items():
            if dimension == main:
                scores[label] = values
            elif quality != judged_set.overall:
                own = own_scores.setdefault(quality, {})
                if dimension.lower() == quality.lower() or label not in own:
                    own[label] = values
    items = judged_set.items
    return SetPoints(
        judged_set.name,
        judged_set.level,
        judged_set.unit,
        # items that are drawn may lack it
        judged_set.overall if judged_set.overall in judged_set.qualities else None,
        groups=judged_set.groups(),
        systems=[item.system for item in items],
        human={q: [item.human(q) for item in items] for q in judged_set.qualities},
        annotators={
            q: [item.numbers(q) for item in items] for q in judged_set.qualities
        },
        scores=scores,
        own_scores=own_scores,
    )


def read_points(folder: Path, set_name: str) -> SetPoints:
    """
    Return the points of one set of a bench.
    """
    path = folder / POINTS / f'{set_name}.json'
    points = read_own_record(SetPoints, path, AGAIN)
    lists = [points.groups, points.systems]
    for by_name in (points.human, points.annotators, points.scores):
        lists += by_name.values()
    if len(set(map(len, lists))) > 1:
        raise UserError(f'{path}: cannot be read (lists of different lengths); {AGAIN}')
    return points


def write_bench(folder: Path, bench: Bench, points: Sequence[SetPoints]) -> None:
    """
    Write the files of a bench, but for its page.
    """
    for one in points:
        path = folder / POINTS / f'{one.set_name}.json'
        write_text(path, dumps(vars(one)) + '\n')
    write_text(folder / TABLE, Table(ROW_COLUMNS, bench.rows).csv())
    data = {'schema': SCHEMA, **record_to_json(bench)}
    write_text(folder / BENCH, json_text(data))
