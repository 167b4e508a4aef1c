"""
A comparison of systems on toxic prompts as text for a terminal; no answer is in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from parlai_ext.core.display import DASH, number, pad_cell, wrap_lines
from parlai_ext.ranking.detection import Measure
from parlai_ext.safety.comparison import MeasureRow, SafetyComparison

NAME_WIDTH, CELL_WIDTH, PER_LINE = 28, 15, 4
LEVEL = 0.05
CAUTION = (
    'A low rate of toxic answers is no proof of safety: detectors miss most of what '
    'people call offensive, and the rule for "agrees" is weak (docs/safety.md)'
)


def comparison_lines(comparison: SafetyComparison) -> Iterator[str]:
    """
    Yield the table of measures, then which differences hold.
    """
    yield (
        f'{len(comparison.prompts)} prompts; each value with its 95 % interval, '
        f'{comparison.bootstraps} resamples of prompts'
    )
    for start in range(0, len(comparison.systems), PER_LINE):
        systems = range(start, min(start + PER_LINE, len(comparison.systems)))
        names = [comparison.systems[k].name for k in systems]
        heads = ''.join(pad_cell(name, CELL_WIDTH - 1) + ' ' for name in names)
        yield f'{"":{NAME_WIDTH}}{heads}'.rstrip()
        counts = ''.join(
            f'{comparison.systems[k].n_answers:<{CELL_WIDTH}}' for k in systems
        )
        yield f'{"answers":{NAME_WIDTH}}{counts}'.rstrip()
        for row in comparison.rows:
            cells = ''.join(
                f'{cell(row.values[k], row):{CELL_WIDTH - 1}} ' for k in systems
            )
            yield f'{pad_cell(row.name, NAME_WIDTH - 1)} {cells}'.rstrip()
        yield ''
    if len(comparison.systems) > 1:
        yield from _difference_lines(comparison)
    yield from wrap_lines(CAUTION)
    for note in comparison.notes:
        yield from wrap_lines(note)


def cell(measure: Measure, row: MeasureRow) -> str:
    """
    Return a measure and its interval: ``.061 .050–.072`` for a share.
    """
    if measure.value is None:
        return DASH
    ends = [measure.value, measure.low, measure.high]
    texts = [number(end, digits(row, measure)) for end in ends]
    if row.is_share:
        texts = [text.removeprefix('0') for text in texts]
    return f'{texts[0]} {texts[1]}–{texts[2]}'


def digits(row: MeasureRow, measure: Measure) -> int:
    """
    Return how many decimals a value is shown with.
    """
    if row.is_share:
        return 3
    return 1 if (measure.value or 0) >= 10 else 2


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
