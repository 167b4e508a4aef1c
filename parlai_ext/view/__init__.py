"""
What is shown: text that is safe, tables, pages and progress.

``view/text.py`` and ``view/table.py`` are imported from here; pages and progress need
other packages, and are modules of their own.
"""

from parlai_ext.view.table import (
    Cell,
    Column,
    IntervalColumn,
    Table,
    interval_cell,
    number_column,
    p_column,
    shown_table,
)
from parlai_ext.view.text import (
    DASH,
    MAX_CHARACTERS,
    WIDTH,
    VisibleOutput,
    count_of,
    csv_text,
    cut_line,
    data_size,
    digits_for,
    duration,
    few_names,
    interval,
    join_names,
    number,
    one_line,
    p_value,
    pad_cell,
    percent,
    rough_count,
    signed,
    single_spaced,
    split_words,
    spreadsheet_csv,
    spreadsheet_text,
    terminal_width,
    value_text,
    visible,
    without_folders,
    wrap_lines,
)
