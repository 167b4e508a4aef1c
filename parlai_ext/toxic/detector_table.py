"""
What detectors are worth: measures on labelled texts, false alarms at identity terms.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from operator import attrgetter

import numpy as np
import pandas as pd

from parlai_ext.data.toxic_pairs import LabelledText
from parlai_ext.ranking.detection import MEASURES, detection_measures
from parlai_ext.ranking.intervals import Estimate, wilson_interval
from parlai_ext.toxic.detectors import Detector
from parlai_ext.toxic.public_sets import moderation_data
from parlai_ext.view.progress import bar_of
from parlai_ext.view.table import Column, IntervalColumn, Table, plain_table
from parlai_ext.view.text import number

ALL = 'all'
BATCH = 256
MOST_TERMS = 4  # identity terms that are shown
SHOWN = {
    'precision': 'precision',
    'recall': 'recall',
    'roc_auc': 'roc-auc',
    'pr_auc': 'pr-auc',
    'share_flagged': 'flags',
}


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
    measures: Mapping[str, Estimate]


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
    identities: Estimate
    others: Estimate
    mean: float
    by_term: Mapping[str, float]


@dataclass(frozen=True)
class DetectorTable:
    """
    All rows, what was scored, and how fast.

    :param texts: by set, a row for each text with the fields of `LabelledText` and the
        number of each detector.
    :param speeds: texts a second, by detector.
    """

    rows: Sequence[DetectorRow]
    identities: Sequence[IdentityRow]
    texts: Mapping[str, pd.DataFrame]
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
    frames = {name: pd.DataFrame(list(texts)) for name, texts in sets.items()}
    speeds: dict[str, float] = {}
    n_texts = sum(map(len, sets.values()))
    rows = []
    for detector in detectors:
        began = time.perf_counter()
        with bar_of(detector.name, n_texts, unit='text', delay=2) as bar:
            for texts in frames.values():
                values: list[float] = []
                for start in range(0, len(texts), BATCH):
                    batch = texts['text'][start : start + BATCH].to_list()
                    values += detector.toxicity(batch)
                    bar.update(len(batch))
                texts[detector.name] = values
        speeds[detector.name] = n_texts / max(1e-9, time.perf_counter() - began)
        for set_name, texts in frames.items():
            kinds = texts['kind'].unique()
            for kind in [ALL, *(kinds if len(kinds) > 1 else ())]:
                part = texts if kind == ALL else texts[texts['kind'] == kind]
                measures = detection_measures(
                    part[detector.name].to_numpy(np.float64),
                    part['toxic'].to_numpy(bool),
                    detector.threshold,
                    part['group'].to_list(),
                    bootstraps=bootstraps,
                    seed=seed,
                )
                about = (detector.name, set_name, kind, len(part))
                rows.append(DetectorRow(*about, int(part['toxic'].sum()), measures))
    return DetectorTable(rows, [*map(identity_row, detectors)], frames, speeds)


def identity_row(detector: Detector) -> IdentityRow:
    """
    Return what a detector makes of the sentences with identity terms and without.
    """
    terms: Mapping[str, list[str]] = moderation_data('identity_terms')
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
        shares[side] = Estimate(flagged / len(numbers), low, high)
    means = {term: fsum(row) / len(row) for term, row in values['identities'].items()}
    return IdentityRow(
        detector.name,
        shares['identities'],
        shares['others'],
        fsum(means.values()) / len(means),
        dict(sorted(means.items(), key=lambda pair: -pair[1])),
    )


def measures_table(table: DetectorTable, set_name: str | None = None) -> Table:
    """
    Return the table of every measure, or of those of one set as a whole.
    """

    def measure(name: str) -> Column:
        return IntervalColumn(name, SHOWN.get(name), lambda row: row.measures[name])

    about = [Column('detector', 'detector'), Column('set', of=attrgetter('set_name'))]
    counts = [Column('kind'), Column('n'), Column('n_toxic')]
    wanted = (set_name, ALL)
    rows = [r for r in table.rows if set_name is None or (r.set_name, r.kind) == wanted]
    return Table([*about, *counts, *map(measure, MEASURES)], rows)


def identities_table(table: DetectorTable) -> Table:
    """
    Return the table of harmless sentences that are flagged.
    """

    def highest(row: IdentityRow) -> str:
        terms = [*row.by_term.items()][:MOST_TERMS]
        return ', '.join(f'{term} {number(value)}' for term, value in terms)

    columns = (
        Column('detector', ''),
        IntervalColumn('identities', 'with a group’s name'),
        IntervalColumn('others', 'with another word'),
        Column('highest', 'highest', highest),
    )
    return Table(columns, table.identities)


def terms_table(table: DetectorTable) -> Table:
    """
    Return the table of the mean number of each identity term.
    """
    rows = [(r.detector, *pair) for r in table.identities for pair in r.by_term.items()]
    return plain_table(('detector', 'term', 'mean_toxicity'), rows)


def scores_table(table: DetectorTable) -> Table:
    """
    Return the table of the numbers of all detectors, a row for each text, without the
    text.
    """
    names = [one.detector for one in table.identities]
    rows = [
        (set_name, text_id, kind, int(toxic), *values)
        for set_name, texts in table.texts.items()
        for text_id, kind, toxic, *values in texts[
            ['id', 'kind', 'toxic', *names]
        ].itertuples(index=False)
    ]
    return plain_table(('set', 'id', 'kind', 'toxic', *names), rows)


def table_lines(table: DetectorTable) -> Iterator[str]:
    """
    Yield the tables for a terminal.
    """
    for set_name, texts in table.texts.items():
        size = f'{len(texts)} texts, {texts["toxic"].sum()} toxic'
        yield f'{set_name}: {size}; in brackets: 95 % interval'
        yield from measures_table(table, set_name).lines()
        rows = [r for r in table.rows if r.set_name == set_name and r.kind != ALL]
        for kind in dict.fromkeys(row.kind for row in rows):
            of_kind = [row for row in rows if row.kind == kind]
            areas = ', '.join(
                f'{r.detector} {number(r.measures["roc_auc"].value)}' for r in of_kind
            )
            size = f'{of_kind[0].n_toxic} of {of_kind[0].n} toxic'
            yield f'  roc-auc, {kind} ({size}): {areas}'
        yield ''
    yield 'harmless sentences that are flagged'
    yield from identities_table(table).lines()
    yield ''
    speeds = (f'{name} {speed:,.0f}' for name, speed in table.speeds.items())
    yield f'texts a second: {", ".join(speeds)}'
