"""
The leaderboard as a data frame, as CSV and as a table for the terminal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from parlai_ext.core.display import (
    WIDTH,
    digits_for,
    number,
    one_line,
    pad_cell,
    spreadsheet_text,
    terminal_width,
    wrap_lines,
)
from parlai_ext.core.floors import is_floor
from parlai_ext.report import tournament
from parlai_ext.report.summary import (
    agreement,
    coefficient,
    dimension_order,
    leading_coefficient,
    not_comparable,
    ordered,
    sentences,
    warnings,
    words,
)

if TYPE_CHECKING:
    import pandas

COLUMNS = (
    'dimension',
    'system',
    'rank',
    'rank_low',
    'rank_high',
    'score',
    'low',
    'high',
    'low_fixed',
    'high_fixed',
    'n_dialogues',
    'n_unscored',
    'n_unplayed',
    'guessed',
    'truncated_share',
    'not_comparable',
)
COUNTS = (
    *('rank', 'rank_low', 'rank_high'),
    *('n_dialogues', 'n_unscored', 'n_unplayed'),
)
NAME_WIDTH = 34


def leaderboard_rows(ranking: Mapping[str, Any]) -> pandas.DataFrame:
    """
    Return the rows of a ranking, best first within each dimension.

    Ranks and counts are nullable integers; what does not exist is ``<NA>``.
    """
    import pandas

    guessed = ranking.get('guessed') or ()
    # rankings of early runs do not tell
    whole = {'share': 0.0 if 'truncated' in ranking else None}
    truncated = ranking.get('truncated') or {}
    complete = 0 if 'unplayed' in ranking else None
    unplayed = ranking.get('unplayed') or {}
    unequal = not_comparable(ranking)
    rows = [
        {
            'dimension': dimension,
            **{c: row[c] for c in COLUMNS[1:-4]},
            'n_unplayed': unplayed.get(row['system'], complete),
            'guessed': row['system'] in guessed,
            'truncated_share': truncated.get(row['system'], whole)['share'],
            'not_comparable': row['system'] in unequal,
        }
        for dimension in dimension_order(ranking)
        for row in ordered(ranking['dimensions'][dimension])
    ]
    frame = pandas.DataFrame(rows, columns=list(COLUMNS))
    texts = ('dimension', 'system')
    types = {c: 'Int64' if c in COUNTS else 'Float64' for c in COLUMNS}
    marks = dict.fromkeys(('guessed', 'not_comparable'), bool)
    return frame.astype({**types, **dict.fromkeys(texts, 'object'), **marks})


def leaderboard_csv(ranking: Mapping[str, Any]) -> str:
    """
    Return `leaderboard_rows` as CSV that a spreadsheet can open without harm.
    """
    frame = tournament.with_points(leaderboard_rows(ranking), ranking)
    for column in ('dimension', 'system'):
        frame[column] = [spreadsheet_text(text) for text in frame[column]]
    return frame.to_csv(index=False, lineterminator='\n', na_rep='')


def terminal_table(ranking: Mapping[str, Any]) -> str:
    """
    Return the ranking for a terminal, at most 88 columns wide.
    """
    lines: list[str] = []
    for dimension in dimension_order(ranking):
        lines += [*_dimension(ranking, dimension), '']
    if 'tournament' in ranking:
        lines += [*tournament.terminal_lines(ranking), '']
        said = tournament.notes(ranking)
        lines += [line for one in said for line in wrap_lines(f'note: {one}')]
    lines += _closing(ranking)
    return '\n'.join(lines).rstrip('\n')


def in_words(ranking: Mapping[str, Any]) -> str:
    """
    Return the table, and below it what to take home from it.
    """
    lines = [line for first in sentences(ranking)[:1] for line in wrap_lines(first)]
    return '\n'.join([terminal_table(ranking), '', *lines])


def _dimension(ranking: Mapping[str, Any], dimension: str) -> Iterator[str]:
    """
    Yield the lines of one dimension: ranked systems, reference, unranked ones.
    """
    rows = ordered(ranking['dimensions'][dimension])
    digits = digits_for([row['score'] for row in rows])
    unequal = not_comparable(ranking)
    names = {row['system']: _name(row, unequal) for row in rows}
    width = max([6, *map(terminal_width, names.values())])
    width = min(width, NAME_WIDTH)
    yield pad_cell(one_line(dimension), WIDTH).rstrip()
    head = pad_cell('system', width)
    yield f'  rank        {head}  {"score":>9}  95 % interval'
    for row in rows:
        if row['rank'] is not None:
            yield '  ' + _line(row, pad_cell(names[row['system']], width), digits)
    found = ranking.get('reference', {}).get(dimension)
    if found:
        yield from wrap_lines(agreement(found), '  ')
    if found and ranking.get('baseline_reference'):
        which = leading_coefficient(ranking, dimension)
        said = _trivial(ranking, dimension, which)
        kind = 'trivial, Kendall' if which == 'kendall' else 'trivial'
        yield from wrap_lines(f'{kind}: {said}', '  ')
    for row in rows:
        if row['rank'] is None:
            yield from wrap_lines(f'not ranked: {_unranked(ranking, row)}', '  ')


def _line(row: Mapping[str, Any], name: str, digits: int) -> str:
    rank = str(row['rank'])
    if (row['rank_low'], row['rank_high']) != (row['rank'], row['rank']):
        rank += f' ({row["rank_low"]}–{row["rank_high"]})'
    limits = f'[{number(row["low"], digits)}, {number(row["high"], digits)}]'
    if row['low'] is None or row['high'] is None:
        limits = 'no interval'
    score = number(row['score'], digits)
    return f'{rank:<10}  {name}  {score:>9}  {limits}'


def _name(row: Mapping[str, Any], unequal: Collection[str]) -> str:
    marks = ' *' if is_floor(row['system']) else ''
    return one_line(row['system']) + marks + (' †' if row['system'] in unequal else '')


def _trivial(ranking: Mapping[str, Any], dimension: str, kind: str) -> str:
    """
    Say how well each trivial baseline agrees with the reference.
    """
    said = []
    for name, by_dimension in ranking['baseline_reference'].items():
        found = by_dimension.get(dimension)
        if found and found[kind]['value'] is not None:
            said.append(f'{words(name)} {coefficient(found[kind])}')
        else:
            said.append(f'{words(name)} –')
    return ', '.join(said)


def _unranked(ranking: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return f'{row["system"]} ({why_unranked(ranking, row)})'


def why_unranked(ranking: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """
    Say why a listed system has no rank.
    """
    if row.get('why'):
        return str(row['why'])
    failure = ranking.get('failures', {}).get(row['system'], {})
    if failure.get('ranked') is False:
        n, of = failure['n_failed'], failure['n_dialogues']
        return f'{n} of its {of} dialogues failed'
    n, of = row['n_unscored'], row['n_dialogues']
    return f'{n} of its {of} dialogues are not scored'


def _closing(ranking: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield what concerns all dimensions: floors, notes, warnings.
    """
    names = {r['system'] for rows in ranking['dimensions'].values() for r in rows}
    if any(is_floor(name) for name in names):
        yield '* a floor: shown for comparison, no part of any claim'
    if not_comparable(ranking):
        yield '† not comparable: the judge read its contexts in part only'
    for note in ranking.get('notes', []):
        yield from wrap_lines(f'note: {note}')
    for warning in warnings(ranking):
        if 'is not ranked' not in warning:  # listed above already
            yield from wrap_lines(f'caution: {warning}')
