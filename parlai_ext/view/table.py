"""
Tables: a column is declared once, and shows in the terminal, in CSV, as a data frame
and on a page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from parlai_ext.core import frozen
from parlai_ext.view.text import (
    DASH,
    WIDTH,
    number,
    one_line,
    p_value,
    pad_cell,
    spreadsheet_csv,
    terminal_width,
)

if TYPE_CHECKING:
    import pandas

GAP = 2  # blanks between the columns of a terminal
WIDEST = 44  # of a terminal's column; longer texts are cut
ENDS = ('', '_low', '_high')  # of the names that the columns of an interval have


@frozen
class Cell:
    """
    What is shown of a value.

    :param below: more of it: lines below the text on a page, behind it in a terminal.
    :param tags: on a page, texts and the style of each: ``good``, ``warn`` or none.
    :param mark: in a terminal, in place of the tags.
    :param note: why there is no value; on a page only.
    :param bar: a share that a bar below the text shows; on a page only.
    """

    text: str
    below: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    mark: str = ''
    note: str = ''
    bar: float | None = None

    def in_terminal(self) -> str:
        """
        Return the cell as one line that is safe to print.
        """
        parts = (self.text, *self.below, self.mark)
        return ' '.join(one_line(part) for part in parts if part)


@frozen
class Column:
    """
    A column of a table.

    :param name: of the column in files.
    :param heading: what stands above it where it is shown; without one it is in files
        only.
    :param of: takes the value from a row; by default the row's field of that name.
    :param show: makes what is shown of a row, a text or a `Cell`; by default of the
        value.
    :param digits: decimals of a number that is shown.
    :param under: more of the heading, in lighter print.
    :param in_files: False for a column that is only shown.
    :param is_number: numbers stand right.
    :param widest: in a terminal; longer texts are cut.
    :param dtype: in a data frame; by default what pandas makes of the values.
    :param exact: numbers in files have all their figures, not six.
    :param tooltip: what the heading means, on a page.
    """

    name: str
    heading: str | None = None
    of: Callable[[Any], Any] | None = None
    show: Callable[[Any], Cell | str] | None = None
    digits: int = 2
    under: str = ''
    in_files: bool = True
    is_number: bool = False
    widest: int = WIDEST
    dtype: str | None = None
    exact: bool = False
    tooltip: str = ''

    def value(self, row: Any) -> Any:
        """
        Return the value of a row.
        """
        return attrgetter(self.name)(row) if self.of is None else self.of(row)

    def cell(self, row: Any) -> Cell:
        """
        Return what is shown of a row.
        """
        shown = self.shown_value(row) if self.show is None else self.show(row)
        return shown if isinstance(shown, Cell) else Cell(shown)

    def shown_value(self, row: Any) -> Cell | str:
        """
        Return the value of a row as text; a dash where there is none.
        """
        value = self.value(row)
        if isinstance(value, float):
            return number(value, self.digits)
        return DASH if value is None else str(value)

    def names_in_files(self) -> tuple[str, ...]:
        """
        Return the names of the columns that it is in files.
        """
        return (self.name,)

    def values_in_files(self, row: Any) -> tuple[Any, ...]:
        """
        Return the values of a row in these columns.
        """
        value = self.value(row)
        if isinstance(value, float) and math.isnan(value):
            return (None,)
        return (value if self.exact else six_figures(value),)


@frozen
class IntervalColumn(Column):
    """
    A column of numbers with intervals: of objects with `value`, `low` and `high`, or
    `None`. In files they are three columns.
    """

    is_number: bool = True

    def shown_value(self, row: Any) -> Cell | str:
        """
        Return the number, and its interval below.
        """
        return interval_cell(self.value(row), self.digits)

    def names_in_files(self) -> tuple[str, ...]:
        """
        Return the names of the number and of its ends.
        """
        return tuple(f'{self.name}{end}' for end in ENDS)

    def values_in_files(self, row: Any) -> tuple[Any, ...]:
        """
        Return the number of a row and its ends.
        """
        one = self.value(row)
        ends = (one.value, one.low, one.high) if one is not None else (None,) * 3
        return tuple(map(six_figures, ends))


@frozen
class Table:
    """
    Columns, and what they show a row of.
    """

    columns: Sequence[Column]
    rows: Sequence[Any]

    @property
    def shown_columns(self) -> list[Column]:
        """
        The columns that are shown.
        """
        return [column for column in self.columns if column.heading is not None]

    def names_in_files(self) -> list[str]:
        """
        Return the names of the columns of a file.
        """
        return [n for c in self.columns if c.in_files for n in c.names_in_files()]

    def values_in_files(self) -> Iterator[list[Any]]:
        """
        Yield the rows of a file.
        """
        of_files = [column for column in self.columns if column.in_files]
        for row in self.rows:
            yield [v for column in of_files for v in column.values_in_files(row)]

    def csv(self) -> str:
        """
        Return the table as CSV that a spreadsheet can open without harm; what does not
        exist is an empty cell.
        """
        return spreadsheet_csv([self.names_in_files(), *self.values_in_files()])

    def frame(self) -> pandas.DataFrame:
        """
        Return the table as a data frame.
        """
        import pandas

        frame = pandas.DataFrame(
            list(self.values_in_files()), columns=self.names_in_files()
        )
        return frame.astype({c.name: c.dtype for c in self.columns if c.dtype})

    def lines(self, indent: str = '', width: int = WIDTH) -> Iterator[str]:
        """
        Yield the table for a terminal. Columns that have no room beside the others
        stand below them, again with the first column.
        """
        from tabulate import tabulate

        columns = self.shown_columns
        cells = [[c.heading or '' for c in columns]]
        if any(column.under for column in columns):
            cells.append([column.under for column in columns])
        cells += [[c.cell(row).in_terminal() for c in columns] for row in self.rows]
        cells = [
            [pad_cell(t, c.widest).rstrip() for t, c in zip(row, columns, strict=True)]
            for row in cells
        ]
        widths = [max(map(terminal_width, texts)) for texts in zip(*cells, strict=True)]
        for places in _side_by_side(widths, width - len(indent)):
            text = tabulate(
                [[row[k] for k in places] for row in cells],
                tablefmt='plain',
                disable_numparse=True,
                colalign=['right' if columns[k].is_number else 'left' for k in places],
            )
            for line in text.split('\n'):
                yield f'{indent}{line}'.rstrip()


def number_column(
    name: str,
    heading: str | None = None,
    of: Callable[[Any], Any] | None = None,
    **more: Any,
) -> Column:
    """
    Return a column of numbers.
    """
    return Column(name, heading, of, is_number=True, **more)


def p_column(name: str, heading: str | None, **more: Any) -> Column:
    """
    Return a column of p-values.
    """
    p_of = attrgetter(name)
    return number_column(name, heading, show=lambda row: p_value(p_of(row)), **more)


def shown_table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], n_texts: int = 1
) -> Table:
    """
    Return a table of rows that hold the values of the columns in order: texts in the
    first column or columns, numbers or their texts in the others. In a file the columns
    are called by their headings.
    """
    columns = [
        Column(heading, heading, itemgetter(k), is_number=k >= n_texts)
        for k, heading in enumerate(headings)
    ]
    return Table(columns, [*rows])


def interval_cell(one: Any, digits: int = 2) -> Cell:
    """
    Return the cell of a number with its interval.

    :param one: has `value`, `low` and `high`; or `None`.
    """
    if one is None or one.value is None:
        return Cell(DASH)
    text = number(one.value, digits)
    if one.low is None or one.high is None:
        return Cell(text, ('(no interval)',))
    return Cell(text, (f'[{number(one.low, digits)}, {number(one.high, digits)}]',))


def with_interval(estimate: Any) -> str:
    """
    Return a number and its interval on one line.
    """
    return interval_cell(estimate).in_terminal()


def six_figures(value: Any) -> Any:
    """
    Return a number as it stands in files: with six figures, a whole one without a
    decimal point; anything else as it is.
    """
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else float(f'{value:.6g}')


def _side_by_side(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """
    Yield the places of the columns that stand side by side; the first column is in
    each.
    """
    places, used = [0], widths[0]
    for place, width in enumerate(widths[1:], 1):
        if len(places) > 1 and used + GAP + width > room:
            yield places
            places, used = [0], widths[0]
        places.append(place)
        used += GAP + width
    yield places
