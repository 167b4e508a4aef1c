"""
The files of a bench: ``bench.json``, ``agreement.csv``, and the points of each set.

``bench.json`` holds every number of the tables and what they depend on. The files in
``points/`` hold the scores and human values of each item, without any text, so that
`compare_metrics` can compare scorers item by item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parlai_ext.bench.agreement_rows import (
    AgreementRow,
    agreement_rows_table,
    score_columns,
)
from parlai_ext.bench.score_sets import ScorerResult, SetScores
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import to_json
from parlai_ext.core.records import read_own_record, record_to_json
from parlai_ext.data.judged.judged_set import JudgedSet
from parlai_ext.data.judged.qualities import main_dimension, main_score
from parlai_ext.store.atomic import write_text
from parlai_ext.store.lines import dumps

SCHEMA = 3
BENCH, TABLE, POINTS = 'bench.json', 'agreement.csv', 'points'
AGAIN = 'run the bench again'


@dataclass(frozen=True)
class ScorerAbout:
    """
    A scorer of a bench: what it is, and why it could not be built, if so.

    :param models: kind, name and commit (of a hub) of each model, as in `JudgeModel`.
    """

    label: str
    name: str
    signature: str | None
    level: str
    dimensions: tuple[str, ...]
    is_trivial: bool
    fitted_on: tuple[str, ...] = ()
    failure: str | None = None
    models: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def from_result(cls, result: ScorerResult) -> ScorerAbout:
        """
        Return what a bench's files say of one scorer.
        """
        variant = result.variant
        return cls(
            *(variant.label, str(variant.section['name']), result.signature),
            *(result.level, tuple(result.dimensions), variant.is_trivial),
            fitted_on=result.fitted_on,
            failure=result.failure,
            models=tuple(to_json(model) for model in result.models),
        )


@dataclass(frozen=True)
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
        same = ('name', 'title', 'source', 'licence', 'level', 'unit', 'overall')
        return cls(
            **{name: getattr(whole, name) for name in same},
            qualities=drawn.qualities,
            n_items=len(whole.items),
            n_drawn=len(drawn.items),
            n_groups=len(set(drawn.groups())),
            n_systems=len({item.system for item in drawn.items}),
            turns=turns,
            n_outliers=n_annotations - whole.counts()['annotations'],
        )


@dataclass(frozen=True)
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

    scorers: tuple[ScorerAbout, ...]
    sets: tuple[SetAbout, ...]
    rows: tuple[AgreementRow, ...]
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


@dataclass(frozen=True)
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
    human: Mapping[str, Sequence[float | None]]
    annotators: Mapping[str, Sequence[Sequence[float]]]
    scores: Mapping[str, Sequence[float | None]]
    own_scores: Mapping[str, Mapping[str, Sequence[float | None]]] = field(
        default_factory=dict
    )


def set_points(judged_set: JudgedSet, results: Sequence[ScorerResult]) -> SetPoints:
    """
    Return the points of a set from the scores of a bench.

    A dimension stands for a quality, but for the overall one, if it has its name; else
    the first one does of which the set's card says so.
    """
    scores = {}
    own_scores: dict[str, dict[str, Sequence[float | None]]] = {}
    for result in results:
        of_set = result.sets.get(judged_set.name)
        if not isinstance(of_set, SetScores):
            continue
        label = result.variant.label
        main = main_dimension(result.dimensions, judged_set)
        scores[label] = [main_score(one, main) for one in of_set.values]
        columns = score_columns(result.dimensions, of_set.values, judged_set)
        for (dimension, quality), values in columns.items():
            if dimension == main or quality == judged_set.overall:
                continue
            own = own_scores.setdefault(quality, {})
            if dimension.lower() == quality.lower() or label not in own:
                own[label] = values
    items = judged_set.items
    annotations = {
        quality: [item.annotations.get(quality, ()) for item in items]
        for quality in judged_set.qualities
    }
    return SetPoints(
        judged_set.name,
        judged_set.level,
        judged_set.unit,
        judged_set.overall,
        groups=judged_set.groups(),
        systems=[item.system for item in items],
        human={q: [item.human(q) for item in items] for q in judged_set.qualities},
        annotators={
            quality: [[a.value for a in own if a.value is not None] for own in of_items]
            for quality, of_items in annotations.items()
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
    write_text(folder / TABLE, agreement_rows_table(bench.rows).csv())
    data = {'schema': SCHEMA, **record_to_json(bench)}
    write_text(folder / BENCH, dumps(data, indent=1) + '\n')
