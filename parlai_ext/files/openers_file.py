"""
Openers from a CSV file: the first two utterances of each dialogue.

The columns `conv_id`, `utterance_idx` (from 1) and `utterance` are needed, more are
allowed; `_comma_` and `_pipe_` stand for `,` and `|`.
"""

import re
from dataclasses import field
from pathlib import Path

from parlai_ext import zoo_configs
from parlai_ext.core import UserError, frozen, logger
from parlai_ext.files.text_file import (
    CsvProblem,
    column_places,
    read_utf8,
    split_loose_rows,
)

COLUMNS = ('conv_id', 'utterance_idx', 'utterance')
GIVEN = 2  # utterances of an opener
# the openers that are shipped
EVERYDAY = zoo_configs.HOME / 'openers' / 'everyday.csv'


@frozen
class OpenersFile:
    """
    The openers of a file by dialogue, and what people said next, where a dialogue goes
    on.
    """

    openers: dict[str, tuple[str, ...]]
    replies: dict[str, str] = field(default_factory=dict)


def read_openers_file(path: str | Path) -> OpenersFile:
    """
    Return the first two utterances of each dialogue, in the order of the file, and log
    which dialogues are too short.

    :raises UserError: names file, line and column of the first row that is wrong.
    """
    dialogues: dict[str, list[str]] = {}
    rows = split_loose_rows(read_utf8(path).split('\n'))
    try:
        _, header = next(rows)
        places = column_places(header, COLUMNS)
        for line, cells in rows:
            conv_id = cells[places['conv_id']].strip()
            if not conv_id:
                raise CsvProblem(line, 'column conv_id: is empty')
            utterances = dialogues.setdefault(conv_id, [])
            cell, expected = cells[places['utterance_idx']].strip(), len(utterances) + 1
            if not cell.isdecimal() or int(cell) != expected:
                raise CsvProblem(
                    line,
                    f'column utterance_idx: {expected} comes next in dialogue '
                    f'{conv_id}, not {cell or "nothing"}',
                )
            utterance = plain(cells[places['utterance']])
            if not utterance and len(utterances) < GIVEN:
                raise CsvProblem(line, 'column utterance: is empty')
            utterances.append(utterance)
    except CsvProblem as problem:
        raise UserError(f'{path}:{problem.line}: {problem}') from None
    if not dialogues:
        raise UserError(f'{path}: no dialogues: the file has a header and no rows')
    if too_short := [k for k, v in dialogues.items() if len(v) < GIVEN]:
        logger.warning(
            '%s: %d dialogues have fewer than two utterances and give no opener: %s%s',
            Path(path).name,
            len(too_short),
            ', '.join(too_short[:10]),
            ', …' if len(too_short) > 10 else '',
        )
    return OpenersFile(
        {k: tuple(v[:GIVEN]) for k, v in dialogues.items() if len(v) >= GIVEN},
        {k: v[GIVEN] for k, v in dialogues.items() if len(v) > GIVEN and v[GIVEN]},
    )


def plain(cell: str) -> str:
    """
    Return an utterance as it was said: commas back, on one line, stripped.
    """
    text = cell.replace('_comma_', ',').replace('_pipe_', '|')
    return re.sub(r'[\r\n]+', ' ', text).strip()
