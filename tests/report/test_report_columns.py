"""
Columns are declared once: the docs' table is made from the declarations.
"""

from pathlib import Path

from parlai_ext.report.columns import COLUMNS, documented_columns

DOCS = Path(__file__).parents[2] / 'docs' / 'evaluate.md'


def test_names_differ_and_every_column_of_the_csv_has_a_meaning():
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    assert all(column.meaning for column in COLUMNS if column.in_files)


def test_the_docs_have_the_table_that_the_declarations_make():
    assert documented_columns() in DOCS.read_text(encoding='utf-8')
