import unicodedata

import pytest

from parlai_ext.report.table import (
    FILE_COLUMNS,
    file_table,
    leaderboard_csv,
    terminal_table,
)
from parlai_ext.view import terminal_width
from tests.support.report_example import agreement, example_ranking
from tests.support.repository import docs_page
from tests.support.written import rows_of_csv

HEADER = (
    'dimension,system,rank,rank_low,rank_high,group,score,low,high,low_fixed,high_fixed,'
    'n_dialogues,n_unscored,n_openers,n_partners,n_unplayed,guessed,truncated_share,'
    'not_comparable,judge_check'
)
HOSTILE = [
    'a' * 500,
    '\x1b[31mred\x1b[0m',
    'line\nbreak\r\ttab',
    '名前' * 40,
    '\u202eevil',
    'half \ud800 pair',
    'e\u0301' * 30,
    'a word ' * 60,
]


def test_csv_has_exactly_the_columns_of_the_ranking():
    assert leaderboard_csv(example_ranking()).split('\n')[0] == HEADER


def test_a_guessed_system_is_marked():
    assert not file_table(example_ranking(guessed=('nobody',))).frame().guessed.any()
    frame = file_table(example_ranking(guessed=('alpha',))).frame()
    assert set(frame[frame.guessed].system) == {'alpha'}


def test_a_target_that_lacks_dialogues_is_told_from_a_complete_one():
    ranking = example_ranking(('a', 'b'), unplayed={'b': 3})
    rows = rows_of_csv(leaderboard_csv(ranking))
    assert {r['system']: r['n_unplayed'] for r in rows} == {'a': '0', 'b': '3'}


def test_csv_numbers_read_back_as_they_were_and_what_does_not_exist_is_empty():
    ranking = example_ranking(tuple('abcd'), ('d',), dimensions=('Overall',))
    *ranked, last = rows_of_csv(leaderboard_csv(ranking))
    # -1 - 0.4 * 2 is no -1.8
    assert [(float(row['score']), int(row['rank'])) for row in ranked] == [
        (one.score, one.rank) for one in ranking.standings['Overall'][:3]
    ]
    assert last['rank'] == last['score'] == last['low'] == ''


@pytest.mark.parametrize('name', ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', ' =1', '＝1'])
def test_no_cell_of_text_is_a_formula(name):
    ranking = example_ranking((name, 'b'), dimensions=(name,))
    for row in rows_of_csv(leaderboard_csv(ranking)):
        for cell in (row['dimension'], row['system']):
            assert not cell.strip().startswith(('=', '+', '-', '@', '＝'))
            assert name.strip()[1:] in cell or cell == 'b'


def test_system_without_rank_is_below_the_others_with_the_reason():
    text = terminal_table(example_ranking(('mary', 'tom'), unranked=('tom',)))
    lines = [line for line in text.split('\n') if 'tom' in line]
    assert (
        lines[0]
        == '  not ranked: tom (1 of its 4 dialogues failed: the reply was empty)'
    )
    assert text.index('mary') < text.index('tom')


@pytest.mark.parametrize('name', HOSTILE)
def test_table_fits_and_holds_no_control_character(name):
    ranking = example_ranking(
        (name, 'b', 'c'), ('c',), name, dimensions=(name,), notes=(name,)
    )
    for line in terminal_table(ranking).split('\n'):
        assert terminal_width(line) <= 88
        assert not any(unicodedata.category(c) in ('Cc', 'Cf', 'Cs') for c in line)


URL = 'http://127.0.0.1:39381/v1/chat/completions/of/a/server'


@pytest.mark.parametrize(
    'about, words',
    [
        (
            {
                'reference': {
                    'Overall': agreement(None, kind='human', reason='two systems only')
                }
            },
            'agreement with people is not known (two systems only)',
        ),
        ({}, 'agreement with the planted order: Spearman 0.90 [0.40, 1.00]'),
        ({}, 'trivial: mean length 0.90 [0.40, 1.00], distinct-2 –'),
        # an address in a note can be copied
        ({'notes': (f'a system somewhere at {URL} cannot be reached today',)}, URL),
    ],
)
def test_the_terminal_says_what_agrees_and_what_is_noted(about, words):
    text = terminal_table(example_ranking(dimensions=('Overall',), **about))
    assert words in text


# ---- the table in the docs is made from the declared columns


def test_the_docs_have_the_table_that_the_declarations_make():
    rows = [f'| `{column.name}` | {column.meaning} |' for column in FILE_COLUMNS]
    table = '\n'.join(['| column | meaning |', '|---|---|', *rows])
    assert table in docs_page('run_folder')
