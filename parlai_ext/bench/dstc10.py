"""
The tables of DSTC10 Track 5, subtask 1, with a bench's scorers beside the teams.

A scorer's number for a set is the mean of its Spearman correlations with the set's
qualities, times 100. The published average over the 14 development sets is the mean of
these numbers; that over the five test sets is the mean over their 11 correlations, one
for each quality (Zhang et al. 2022, section 2.4). The baseline's printed rows give its
printed averages, 13.67 and 18.38; the teams' test rows are of their best submission to
each set, so that their means are a little above the printed averages. All numbers are
printed there without signs; ours have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from operator import itemgetter

from parlai_ext import zoo_configs
from parlai_ext.bench.bench_files import Bench
from parlai_ext.bench.bench_table import FITTED, mean_over_qualities
from parlai_ext.core.display import number, wrap_lines
from parlai_ext.files.yaml_file import read_file
from parlai_ext.view.table import Column, Table

PHASES = ('development', 'test')


@dataclass(frozen=True)
class PublishedTable:
    """
    A table of the paper: 100 times Spearman of each team on each set.

    :param columns: the baseline and the teams.
    :param rows: by set, one number for each column.
    :param average: the printed averages.
    :param qualities: how many qualities each set has, where the average is over them.
    """

    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    average: tuple[float, ...]
    qualities: Mapping[str, int]

    def averages(self) -> list[float]:
        """
        Return the average of each column, worked out from the rows.
        """
        return [
            average_over_sets(
                {name: row[k] for name, row in self.rows.items()}, self.qualities
            )
            for k in range(len(self.columns))
        ]


def average_over_sets(
    numbers: Mapping[str, float], qualities: Mapping[str, int]
) -> float:
    """
    Return the mean over sets, each counted as often as it has qualities.

    :param qualities: empty where every set counts once.
    """
    weights = {name: qualities.get(name, 1) for name in numbers}
    total = fsum(weights[name] * value for name, value in numbers.items())
    return total / sum(weights.values())


def published_table(phase: str) -> PublishedTable:
    """
    Return the table of the ``development`` or of the ``test`` sets.
    """
    data = read_file(zoo_configs.path('published', 'dstc10')).data
    return PublishedTable(
        tuple(data['columns']),
        {name: tuple(row) for name, row in data[phase].items()},
        tuple(data[f'{phase}_average']),
        data.get(f'{phase}_qualities', {}),
    )


@dataclass(frozen=True)
class ScorerLine:
    """
    A scorer in the table of a phase.

    :param numbers: by set, 100 times the mean Spearman over its qualities.
    :param average: over the sets with a number; `None` without any.
    :param fitted_on: the judged sets on whose human values something in it was fitted.
    """

    scorer: str
    numbers: Mapping[str, float]
    average: float | None
    fitted_on: tuple[str, ...] = ()

    @property
    def marked_label(self) -> str:
        """
        Its label, with a mark if something in it was fitted on human values.
        """
        return f'{self.scorer} {FITTED}' if self.fitted_on else self.scorer


def scorer_lines(bench: Bench, phase: str) -> list[ScorerLine]:
    """
    Return the scorers of a bench that have a number on a set of a phase.
    """
    table = published_table(phase)
    levels = {one.name: one.level for one in bench.sets if one.name in table.rows}
    lines = []
    for scorer in bench.scorers:
        numbers = {
            name: 100 * value
            for name, level in levels.items()
            if (value := mean_over_qualities(bench, scorer.label, name, level))
            is not None
        }
        if numbers:
            average = average_over_sets(numbers, table.qualities)
            fitted_on = tuple(scorer.fitted_on)
            lines.append(ScorerLine(scorer.label, numbers, average, fitted_on))
    return lines


def dstc10_lines(bench: Bench) -> Iterator[str]:
    """
    Yield both tables for a terminal, as far as the bench has their sets.
    """
    for phase in PHASES:
        lines = scorer_lines(bench, phase)
        table = published_table(phase)
        sets = [one.name for one in bench.sets if one.name in table.rows]
        if lines:
            yield from _phase_lines(phase, table, sets, lines)
            yield ''


def _phase_lines(
    phase: str,
    table: PublishedTable,
    sets: Sequence[str],
    lines: Sequence[ScorerLine],
) -> Iterator[str]:
    """
    Yield one line for each scorer and each team: the average over the sets at hand, and
    the published one over all.
    """
    yield (
        f'DSTC10 Track 5, {phase} sets: 100 x mean Spearman over qualities, averages'
    )
    yield from phase_table(table, sets, lines).lines('  ')
    yield from wrap_lines(f'sets here: {", ".join(sets)}', '  ')
    drawn = 'numbers in brackets: sets with a score, where some have none'
    if any(set(line.numbers) != set(sets) for line in lines):
        yield f'  {drawn}'
    for line in lines:
        if line.fitted_on:
            yield from wrap_lines(_fitted_text(line, sets), '  ')


def phase_table(
    table: PublishedTable, sets: Sequence[str], lines: Sequence[ScorerLine]
) -> Table:
    """
    Return a row for each scorer and each team: the average over the sets at hand, and
    that over all sets.
    """
    rows: list[tuple[str, str, str]] = []
    for line in lines:
        own = number(line.average)
        partly = '' if set(line.numbers) == set(sets) else f' ({len(line.numbers)})'
        full = own if set(line.numbers) == set(table.rows) else ''
        rows.append((line.marked_label, own + partly, full))
    for k, team in enumerate(table.columns):
        here = {name: table.rows[name][k] for name in sets}
        mean = number(average_over_sets(here, table.qualities))
        rows.append((f'published: {team}', mean, number(table.average[k])))
    heads = ('', f'{len(sets)} sets here', f'all {len(table.rows)}')
    return Table(
        [
            Column(head, head, itemgetter(k), is_number=k > 0)
            for k, head in enumerate(heads)
        ],
        rows,
    )


def _fitted_text(line: ScorerLine, sets: Sequence[str]) -> str:
    """
    Return the note on a scorer that was fitted: on which sets, and which of them are
    columns of this table.
    """
    here = [name for name in sets if name in line.fitted_on] or ['none']
    where = f'{", ".join(line.fitted_on)}; of the sets here: {", ".join(here)}'
    return f'{FITTED} {line.scorer}: fitted on human scores of {where}'
