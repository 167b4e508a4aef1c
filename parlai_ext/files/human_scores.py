"""
Human judgements of systems, read from a CSV file.

Columns `system`, `dimension` and `value`; optional `rater` and `dialogue_id`. One row
is one judgement; a file of system means has one row for each system and dimension.
"""

from pathlib import Path

from parlai_ext.core import HumanJudgement, UserError
from parlai_ext.files.text_file import read_csv
from parlai_ext.view.progress import counted

NEEDED = ('system', 'dimension', 'value')
LARGEST = 1e15  # a rating beyond it is a slip, and sums of squares have no end
COLUMNS = (*NEEDED, 'rater', 'dialogue_id')


def read_human_scores(path: str | Path) -> list[HumanJudgement]:
    """
    Return the judgements of a file, in its order.

    :raises UserError: names file, line and column of the first mistake.
    """
    judgements: list[HumanJudgement] = []
    lines: dict[tuple[str | None, ...], int] = {}
    rows = read_csv(path, NEEDED, COLUMNS)
    for line, row in counted(rows):
        where = f'{path}:{line}'
        for name in ('system', 'dimension'):
            if not row[name]:
                raise UserError(f'{where}: column {name}: is empty')
        value = parse_number(row['value'])
        if value is None:
            raise UserError(
                f'{where}: column value: a number such as 3.5 is expected, and at most '
                f'{LARGEST:g}, not {row["value"]!r}'
            )
        named = (row['system'], row['dimension'])
        whose = (row.get('rater') or None, row.get('dialogue_id') or None)
        judgement, key = HumanJudgement(*named, value, *whose), (*named, *whose)
        if key in lines and any(whose):
            raise UserError(
                f'{where}: the same judgement is in line {lines[key]} already '
                '(same system, dimension, rater and dialogue_id)'
            )
        lines[key] = line
        judgements.append(judgement)
    if not judgements:
        raise UserError(f'{path}: no judgements: the file has a header and no rows')
    return judgements


def parse_number(cell: str) -> float | None:
    """
    Return a number up to `LARGEST`; `None` for all else, 1_000 and decimal commas
    included.
    """
    try:
        value = float(cell.replace('_', 'x'))
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None
