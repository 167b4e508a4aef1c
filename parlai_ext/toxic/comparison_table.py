"""
A comparison of systems on toxic prompts as text for a terminal; no answer is in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from parlai_ext.core.display import DASH, wrap_lines
from parlai_ext.ranking.detection import Measure
from parlai_ext.toxic.comparison import (
    AnsweredSystem,
    Examples,
    MeasureRow,
    SafetyComparison,
    measure_names,
)
from parlai_ext.view.page import render_page
from parlai_ext.view.table import (
    Cell,
    Column,
    IntervalColumn,
    Table,
    interval_cell,
    number_column,
    plain_table,
)

LEVEL = 0.05
PAGE = 'safety.html'
CAUTION = (
    'A low rate of toxic answers is no proof of safety: detectors miss most of what '
    'people call offensive, and the rule for "agrees" is weak (docs/safety_worth.md)'
)


def comparison_lines(comparison: SafetyComparison) -> Iterator[str]:
    """
    Yield the table of measures, then which differences hold.
    """
    yield (
        f'{len(comparison.prompts)} prompts; each value with its 95 % interval, '
        f'{comparison.bootstraps} resamples of prompts'
    )
    yield from measure_table(comparison).lines()
    yield ''
    if len(comparison.systems) > 1:
        yield from _difference_lines(comparison)
    yield from wrap_lines(CAUTION)
    for note in comparison.notes:
        yield from wrap_lines(note)


def measure_cell(row: MeasureRow, measure: Measure) -> Cell:
    """
    Return a value with its interval and, where it is a share, a bar.
    """
    if row.is_share:
        return replace(interval_cell(measure, 3), bar=measure.value)
    return interval_cell(measure, 1 if (measure.value or 0) >= 10 else 2)


def measure_table(comparison: SafetyComparison) -> Table:
    """
    Return the measures as rows, with a column for each system.
    """

    def column(k: int, system: AnsweredSystem) -> Column:
        return IntervalColumn(
            system.name,
            system.name,
            show=lambda row: measure_cell(row, row.values[k]),
            under=f'{system.answers} answers',
            tooltip='in brackets the 95 % interval, from resamples of prompts',
        )

    systems = [column(k, system) for k, system in enumerate(comparison.systems)]
    return Table([Column('name', 'Measure'), *systems], comparison.rows)


def measures_file(comparison: SafetyComparison) -> Table:
    """
    Return a row for each measure of each system, for a file.
    """
    names = ('system', 'measure', 'prompts', 'answers', 'value', 'low', 'high')
    rows = (
        (system.name, row.name, n, system.answers, one.value, one.low, one.high)
        for row in comparison.rows
        for system, n, one in zip(comparison.systems, row.n, row.values, strict=True)
    )
    return plain_table(names, rows)


def difference_table(comparison: SafetyComparison, measure: str | None = None) -> Table:
    """
    Return the paired differences of all measures, or of one.
    """
    names = [system.name for system in comparison.systems]
    columns = (
        Column('first', 'First', lambda pair: names[pair[1].first]),
        Column('second', 'Second', lambda pair: names[pair[1].second]),
        Column('measure', of=lambda pair: pair[0]),
        number_column('prompts', 'Prompts', lambda pair: pair[1].n),
        IntervalColumn(
            'difference',
            'Difference',
            lambda pair: Measure(pair[1].difference, pair[1].low, pair[1].high),
            digits=3,
        ),
        number_column('p', of=lambda pair: pair[1].p),
        number_column(
            'p_holm',
            'p',
            lambda pair: pair[1].p_holm,
            digits=4,
            tooltip='of paired permutations, adjusted (Holm) over pairs',
        ),
    )
    rows = [
        (row.name, one)
        for row in comparison.rows
        if measure in (None, row.name)
        for one in row.differences
    ]
    return Table(columns, rows)


def answers_file(comparison: SafetyComparison) -> Table:
    """
    Return the measures of each answer, for a file, without any text.
    """
    answers = comparison.answers
    shown = {row.name for row in comparison.rows}
    names = [name for name in measure_names(answers) if name in shown]
    number = answers.groupby(['system', 'prompt']).cumcount() + 1
    columns = (answers['system'], answers['prompt'], number, *map(answers.get, names))
    rows = zip(*columns, strict=True)
    return plain_table(('system', 'prompt', 'number', *names), rows)


def _difference_lines(comparison: SafetyComparison) -> Iterator[str]:
    """
    Yield, for each measure, the pairs of systems that differ.
    """
    names = [system.name for system in comparison.systems]
    yield 'Paired differences on the same prompts (permutations, Holm over pairs, 5 %)'
    for row in comparison.rows:
        holds = [one for one in row.differences if one.p_holm < LEVEL]
        texts = [
            f'{names[one.first]} {">" if one.difference > 0 else "<"} '
            f'{names[one.second]}'
            for one in holds
        ]
        rest = len(row.differences) - len(holds)
        if rest:
            texts.append(f'{rest} of {len(row.differences)} pairs cannot be told apart')
        yield from wrap_lines(f'{row.name}: {"; ".join(texts) or DASH}', '  ')
    yield ''


def render_safety_page(
    comparison: SafetyComparison, examples: Sequence[Examples]
) -> str:
    """
    Return the page of a comparison as one HTML file.
    """
    return render_page(
        'safety.html.j2',
        comparison=comparison,
        caution=CAUTION,
        measures=measure_table(comparison),
        differences={
            row.name: (
                difference_table(comparison, row.name),
                sum(one.p_holm < LEVEL for one in row.differences),
            )
            for row in comparison.rows
            if row.differences
        },
        examples=[
            (name, list(groups))
            for name, groups in groupby(examples, key=lambda one: one.system)
        ],
    )
