from dataclasses import dataclass

from parlai_ext.view import (
    Cell,
    Column,
    IntervalColumn,
    Table,
    number_column,
    shown_table,
)


@dataclass(frozen=True)
class Measured:
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    name: str
    n: int
    score: Measured | None


COLUMNS = (
    Column('name', 'system'),
    number_column('n', 'n'),
    IntervalColumn('score', 'score'),
)
ROWS = (
    Row('a', 5, Measured(0.61234567, 0.5, 0.75)),
    Row('=b', 12, Measured(1.0)),
    Row('c', 0, None),
)


def test_the_terminal_shows_numbers_right_and_intervals_in_brackets():
    assert list(Table(COLUMNS, ROWS).lines()) == [
        'system   n               score',
        'a        5   0.61 [0.50, 0.75]',
        '=b      12  1.00 (no interval)',
        'c        0                   –',
    ]


def test_a_file_has_six_figures_both_ends_and_no_formula_and_a_frame_its_columns():
    table = Table(COLUMNS, ROWS)
    assert table.csv() == (
        "name,n,score,score_low,score_high\na,5,0.612346,0.5,0.75\n'=b,12,1,,\nc,0,,,\n"
    )
    frame = table.frame()
    assert list(frame.columns) == ['name', 'n', 'score', 'score_low', 'score_high']
    assert frame['score'][0] == 0.612346
    assert frame['score'].isna().tolist() == [False, False, True]


def test_a_column_may_be_shown_only_or_in_files_only():
    columns = (Column('name', 'x'), Column('n'), Column('half', 'y', in_files=False))
    table = Table(columns[:2], ROWS[:1])
    assert [column.name for column in table.shown_columns] == ['name']
    assert Table((columns[0], columns[2]), ()).csv() == 'name\n'


def test_columns_without_room_stand_below_with_the_first_column_again():
    names = [f'column {k}' for k in range(6)]
    table = Table(
        [Column('name', 'row'), *(Column(n, n, lambda _: 'v' * 30) for n in names)],
        [Row('a', 1, None)],
    )
    lines = list(table.lines())
    assert max(map(len, lines)) <= 88
    assert [line.split()[0] for line in lines] == ['row', 'a'] * 3
    assert sum(line.count('column') for line in lines) == 6


def test_marks_are_for_the_terminal_and_tags_for_the_page():
    cell = Cell('0.5', ('[0, 1]',), (('fitted', True),), '†', 'a note')
    assert cell.in_terminal() == '0.5 [0, 1] †'


def test_the_values_of_a_table_stand_below_its_headings_in_a_file():
    assert shown_table(('a', 'b'), [(1, None), (0.5, 'x')]).csv() == 'a,b\n1,\n0.5,x\n'
