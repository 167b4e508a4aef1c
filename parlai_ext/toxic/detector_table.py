"""
What detectors are worth: measures on labelled texts, false alarms at identity terms.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parlai_ext.core import frozen
from parlai_ext.data.corpora import ALL, LabelledText
from parlai_ext.ranking.comparison import MEASURES, detection_measures
from parlai_ext.ranking.intervals import Estimate, Sampling, wilson_interval
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.score_run import score_items
from parlai_ext.scoring.toxicity import ToxicityDetector
from parlai_ext.systems.fetch.public_sets import moderation_data
from parlai_ext.view import Column, IntervalColumn, Table, number, shown_table
from parlai_ext.view.page import terminal_lines
from parlai_ext.view.progress import bar_of

MOST_TERMS = 4  # identity terms that are shown
SHOWN = {
    'precision': 'precision',
    'recall': 'recall',
    'roc_auc': 'roc-auc',
    'pr_auc': 'pr-auc',
    'share_flagged': 'flags',
}


@frozen
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


@frozen
class IdentityRow:
    """
    What a detector makes of harmless sentences about people.

    :param identities: share of sentences with a group's name that it flags, and the
        interval.
    :param others: the same of sentences with other words in that place.
    :param by_term: the mean number of each name, highest first.
    """

    detector: str
    identities: Estimate
    others: Estimate
    by_term: Mapping[str, float]


@frozen
class DetectorTable:
    """
    All rows, what was scored, and how fast.

    :param texts: by set, a row for each text with the fields of `LabelledText` and the
        number of each detector.
    :param speeds: texts a second, by detector; of one whose scores were kept, none.
    """

    rows: Sequence[DetectorRow]
    identities: Sequence[IdentityRow]
    texts: Mapping[str, pd.DataFrame]
    speeds: Mapping[str, float]


def compare_detectors(
    detectors: Mapping[str, ToxicityDetector],
    sets: Mapping[str, Sequence[LabelledText]],
    *,
    bootstraps: int,
    seed: int,
    folder: Path | None,
) -> DetectorTable:
    """
    Return what the detectors are worth on the sets, and on identity terms.

    :param detectors: by what tables call them, as no other column is called.
    :param folder: where their scores are kept, so that a killed call goes on.
    """
    frames = {name: pd.DataFrame(list(texts)) for name, texts in sets.items()}
    sentences = identity_sentences()
    every = [texts['text'] for texts in frames.values()] + [sentences['sentence']]
    items = [ScoringItem((), text) for texts in every for text in texts]
    ends = np.cumsum([*map(len, frames.values())])
    speeds = {}
    rows: list[DetectorRow] = []
    identities = []
    for name, detector in detectors.items():
        began = time.perf_counter()
        with bar_of(name, len(items), unit='text', delay=2) as bar:
            scores = score_items(detector, items, folder, bar)
        if bar.n:  # the others were kept
            speeds[name] = bar.n / max(1e-9, time.perf_counter() - began)
        numbers = np.array([detector.number(one) for one in scores], np.float64)
        *of_sets, of_sentences = np.split(numbers, ends)
        for (set_name, texts), values in zip(frames.items(), of_sets, strict=True):
            texts[name] = values
            about, threshold = (name, set_name), detector.threshold
            rows += detector_rows(about, texts, threshold, Sampling(bootstraps, seed))
        of_terms = sentences.assign(number=of_sentences)
        identities.append(identity_row(name, of_terms, detector.threshold))
    return DetectorTable(rows, identities, frames, speeds)


def detector_rows(
    about: tuple[str, str], texts: pd.DataFrame, threshold: float, sampling: Sampling
) -> Iterator[DetectorRow]:
    """
    Yield the measures of a detector on a set, and on each kind of its texts where there
    are several.

    :param about: the names of the detector and of the set.
    :param texts: with the detector's number of each, under its name.
    """
    kinds = texts['kind'].unique()
    shown = [ALL, *(kinds if len(kinds) > 1 else ())]
    total = len(shown) * sampling.bootstraps
    with bar_of(' on '.join(about), total, delay=2, unit='resample') as bar:
        counted = replace(sampling, count=bar.update)
        for kind in shown:
            part = texts if kind == ALL else texts[texts['kind'] == kind]
            toxic = part['toxic'].to_numpy(bool)
            groups = part['group'].to_list()
            numbers = part[about[0]].to_numpy()
            measures = detection_measures(numbers, toxic, threshold, groups, counted)
            yield DetectorRow(*about, kind, len(part), int(toxic.sum()), measures)


def identity_sentences() -> pd.DataFrame:
    """
    Return harmless sentences about people: ``side`` (``identities``, with the name of a
    group, or ``others``), ``term`` and ``sentence``.
    """
    terms = moderation_data('identity_terms')
    rows = [
        (side, term, template.format(term))
        for side in ('identities', 'others')
        for term in terms[side]
        for template in terms['templates']
    ]
    return pd.DataFrame(rows, columns=['side', 'term', 'sentence'])


def identity_row(name: str, sentences: pd.DataFrame, threshold: float) -> IdentityRow:
    """
    Return what a detector makes of the sentences with identity terms and without.

    :param sentences: with the detector's ``number`` of each.
    """
    shares = {}
    for side, numbers in sentences.groupby('side')['number']:
        flagged = int((numbers >= threshold).sum())
        low, high = wilson_interval(flagged, len(numbers))
        shares[side] = Estimate(flagged / len(numbers), low, high)
    own = sentences[sentences['side'] == 'identities']
    means: Any = own.groupby('term', sort=False)['number'].mean()
    return IdentityRow(
        name,
        shares['identities'],
        shares['others'],
        means.sort_values(ascending=False, kind='stable').to_dict(),
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


def detector_files(table: DetectorTable) -> dict[str, str]:
    """
    Return the files of the table by their names, without any text of a set: the
    measures, the mean number of each identity term, and the number of each text.
    """
    terms = [
        (row.detector, *pair)
        for row in table.identities
        for pair in row.by_term.items()
    ]
    names = [one.detector for one in table.identities]
    scores = [
        (set_name, text_id, kind, int(toxic), *values)
        for set_name, texts in table.texts.items()
        for text_id, kind, toxic, *values in texts[
            ['id', 'kind', 'toxic', *names]
        ].itertuples(index=False)
    ]
    tables = {
        'measures.csv': measures_table(table),
        'identities.csv': shown_table(('detector', 'term', 'mean_toxicity'), terms),
        'scores.csv': shown_table(('set', 'id', 'kind', 'toxic', *names), scores),
    }
    return {name: shown.csv() for name, shown in tables.items()}


def table_lines(table: DetectorTable) -> list[str]:
    """
    Return the measures, and how many harmless sentences are flagged, for a terminal.
    """

    def highest(row: IdentityRow) -> str:
        terms = [*row.by_term.items()][:MOST_TERMS]
        return ', '.join(f'{term} {number(value)}' for term, value in terms if value)

    columns = (
        Column('detector', ''),
        IntervalColumn('identities', 'with a group’s name'),
        IntervalColumn('others', 'with another word'),
        Column('highest', 'highest', highest),
    )
    return terminal_lines(
        'detectors',
        table=table,
        measures={name: measures_table(table, name) for name in table.texts},
        identities=Table(columns, table.identities),
    )
