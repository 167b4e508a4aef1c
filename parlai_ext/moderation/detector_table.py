"""
What detectors are worth: measures on labelled texts, false alarms at identity terms.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

import numpy as np

from parlai_ext import zoo_configs
from parlai_ext.core.display import DASH, number, pad_cell
from parlai_ext.core.progress import bar_of
from parlai_ext.data.toxic_labels import LabelledText
from parlai_ext.files.csv_file import spreadsheet_csv
from parlai_ext.files.yaml_file import read_file
from parlai_ext.moderation.detectors import Detector
from parlai_ext.ranking.detection import MEASURES, Measure, detection_measures
from parlai_ext.ranking.proportions import wilson_interval

ALL = 'all'
BATCH = 256
SHOWN = ('precision', 'recall', 'roc_auc', 'pr_auc')
NAME_WIDTH, CELL_WIDTH = 20, 15
TERMS = zoo_configs.HOME / 'moderation' / 'identity_terms.yaml'


@dataclass(frozen=True)
class DetectorRow:
    """
    The measures of one detector on one set, or on one kind of its texts.
    """

    detector: str
    set_name: str
    kind: str
    n: int
    n_toxic: int
    measures: Mapping[str, Measure]


@dataclass(frozen=True)
class IdentityRow:
    """
    What a detector makes of harmless sentences about people.

    :param identities: share of sentences with a group's name that it flags, and the
        interval.
    :param others: the same of sentences with other words in that place.
    :param mean: of its numbers on the former.
    :param by_term: the mean number of each name, highest first.
    """

    detector: str
    identities: Measure
    others: Measure
    mean: float
    by_term: Mapping[str, float]


@dataclass(frozen=True)
class DetectorTable:
    """
    All rows, what was scored, and how fast.

    :param scores: by set and detector, one number a text.
    :param speeds: texts a second, by detector.
    """

    rows: Sequence[DetectorRow]
    identities: Sequence[IdentityRow]
    texts: Mapping[str, Sequence[LabelledText]]
    scores: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    speeds: Mapping[str, float] = field(default_factory=dict)


def compare_detectors(
    detectors: Sequence[Detector],
    sets: Mapping[str, Sequence[LabelledText]],
    *,
    bootstraps: int,
    seed: int = 0,
) -> DetectorTable:
    """
    Return what the detectors are worth on the sets, and on identity terms.
    """
    rows: list[DetectorRow] = []
    identities: list[IdentityRow] = []
    scores: dict[tuple[str, str], Sequence[float]] = {}
    speeds: dict[str, float] = {}
    n_texts = sum(map(len, sets.values()))
    for detector in detectors:
        began = time.perf_counter()
        with bar_of(detector.name, n_texts, unit='text', delay=2) as bar:
            for set_name, texts in sets.items():
                values: list[float] = []
                for start in range(0, len(texts), BATCH):
                    batch = [one.text for one in texts[start : start + BATCH]]
                    values += detector.toxicity(batch)
                    bar.update(len(batch))
                scores[set_name, detector.name] = values
        speeds[detector.name] = n_texts / max(1e-9, time.perf_counter() - began)
        for set_name, texts in sets.items():
            values = list(scores[set_name, detector.name])
            rows += set_rows(detector, set_name, texts, values, bootstraps, seed)
        identities.append(identity_row(detector))
    return DetectorTable(rows, identities, sets, scores, speeds)


def set_rows(
    detector: Detector,
    set_name: str,
    texts: Sequence[LabelledText],
    values: Sequence[float],
    bootstraps: int,
    seed: int,
) -> list[DetectorRow]:
    """
    Return the row of a whole set, and one for each kind of its texts.
    """
    kinds = list(dict.fromkeys(one.kind for one in texts))
    rows = []
    for kind in [ALL, *(kinds if len(kinds) > 1 else ())]:
        places = [i for i, one in enumerate(texts) if kind in (ALL, one.kind)]
        labels = np.array([texts[i].toxic for i in places], bool)
        measures = detection_measures(
            np.array([values[i] for i in places], np.float64),
            labels,
            detector.threshold,
            [texts[i].group for i in places],
            bootstraps=bootstraps,
            seed=seed,
        )
        counts = (len(places), int(labels.sum()))
        rows.append(DetectorRow(detector.name, set_name, kind, *counts, measures))
    return rows


def identity_row(detector: Detector) -> IdentityRow:
    """
    Return what a detector makes of the sentences with identity terms and without.
    """
    terms: Mapping[str, list[str]] = read_file(TERMS).data
    values = {
        side: {
            term: detector.toxicity([t.format(term) for t in terms['templates']])
            for term in terms[side]
        }
        for side in ('identities', 'others')
    }
    shares = {}
    for side, by_term in values.items():
        numbers = [number for row in by_term.values() for number in row]
        flagged = sum(map(detector.is_toxic, numbers))
        low, high = wilson_interval(flagged, len(numbers))
        shares[side] = Measure(flagged / len(numbers), low, high)
    means = {term: fsum(row) / len(row) for term, row in values['identities'].items()}
    return IdentityRow(
        detector.name,
        shares['identities'],
        shares['others'],
        fsum(means.values()) / len(means),
        dict(sorted(means.items(), key=lambda pair: -pair[1])),
    )


def table_lines(table: DetectorTable) -> Iterator[str]:
    """
    Yield the tables for a terminal.
    """
    for set_name, texts in table.texts.items():
        n_toxic = sum(one.toxic for one in texts)
        size = f'{len(texts)} texts, {n_toxic} toxic'
        yield f'{set_name}: {size}; in brackets: 95 % interval'
        heads = ''.join(pad_cell(name.replace('_', '-'), CELL_WIDTH) for name in SHOWN)
        yield f'{"":{NAME_WIDTH}}{heads}flags'
        for row in table.rows:
            if row.set_name == set_name and row.kind == ALL:
                yield _row_line(row)
        yield from _kind_lines(table, set_name)
        yield ''
    yield 'harmless sentences that are flagged: with a group’s name, with another word'
    for one in table.identities:
        worst = ', '.join(f'{t} {v:.2f}' for t, v in list(one.by_term.items())[:4])
        cells = f'{_cell(one.identities):{CELL_WIDTH}}{_cell(one.others):{CELL_WIDTH}}'
        yield f'{pad_cell(one.detector, NAME_WIDTH)}{cells}highest: {worst}'
    yield ''
    speeds = (f'{name} {speed:,.0f}' for name, speed in table.speeds.items())
    yield f'texts a second: {", ".join(speeds)}'


def _row_line(row: DetectorRow) -> str:
    cells = ''.join(f'{_cell(row.measures[name]):{CELL_WIDTH}}' for name in SHOWN)
    share = number(row.measures['share_flagged'].value)
    return f'{pad_cell(row.detector, NAME_WIDTH)}{cells}{share}'


def _kind_lines(table: DetectorTable, set_name: str) -> Iterator[str]:
    """
    Yield the area under the ROC curve for each kind of texts.
    """
    rows = [r for r in table.rows if r.set_name == set_name and r.kind != ALL]
    for kind in dict.fromkeys(row.kind for row in rows):
        of_kind = [row for row in rows if row.kind == kind]
        cells = ', '.join(
            f'{r.detector} {number(r.measures["roc_auc"].value)}' for r in of_kind
        )
        size = f'{of_kind[0].n_toxic} of {of_kind[0].n} toxic'
        yield f'  roc-auc, {kind} ({size}): {cells}'


def _cell(measure: Measure) -> str:
    """
    Return a measure and its interval without leading zeros: ``.61 [.58 .64]``.
    """
    if measure.value is None:
        return DASH
    ends = (measure.value, measure.low, measure.high)
    value, low, high = (number(end).removeprefix('0') for end in ends)
    return f'{value} [{low} {high}]'


def measures_csv(table: DetectorTable) -> str:
    """
    Return every measure as CSV.
    """
    ends = [f'{name}{end}' for name in MEASURES for end in ('', '_low', '_high')]
    lines = [['detector', 'set', 'kind', 'n', 'n_toxic', *ends]]
    for row in table.rows:
        numbers: list[str] = []
        for name in MEASURES:
            m = row.measures[name]
            numbers += [_text(value) for value in (m.value, m.low, m.high)]
        counts = [str(row.n), str(row.n_toxic)]
        lines.append([row.detector, row.set_name, row.kind, *counts, *numbers])
    return spreadsheet_csv(lines)


def identities_csv(table: DetectorTable) -> str:
    """
    Return the mean number of each identity term as CSV.
    """
    lines = [['detector', 'term', 'mean_toxicity']]
    for one in table.identities:
        lines += [[one.detector, t, _text(v)] for t, v in one.by_term.items()]
    return spreadsheet_csv(lines)


def scores_csv(table: DetectorTable) -> str:
    """
    Return the numbers of all detectors as CSV, one line a text, without the text.
    """
    names = [one.detector for one in table.identities]
    lines = [['set', 'id', 'kind', 'toxic', *names]]
    for set_name, texts in table.texts.items():
        columns = [table.scores[set_name, name] for name in names]
        for text, *values in zip(texts, *columns, strict=True):
            about = [set_name, text.id, text.kind, str(int(text.toxic))]
            lines.append([*about, *map(_text, values)])
    return spreadsheet_csv(lines)


def _text(value: float | None) -> str:
    return '' if value is None else f'{value:.6g}'
