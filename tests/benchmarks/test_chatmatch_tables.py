"""
The tables on the authors' games meet published numbers; how judgements are read.
"""

import pytest

from benchmarks.chatmatch.__main__ import OPTIONS, TABLES, ReleasedGames
from benchmarks.chatmatch.games import cut_material
from benchmarks.chatmatch.judgements import judgements_from_rows, read_judgements
from benchmarks.chatmatch.tables import Rated, readings_table
from benchmarks.support.measures import option_parser
from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.chatmatch.game import Material, chatmatch_options
from parlai_ext.scoring.chatmatch.scorer import ChatMatch
from tests.support.chatmatch_samples import DATA as GAMES
from tests.support.chatmatch_samples import needs_games
from tests.support.user_error import user_error


def asked(table):
    """
    Return a table on the authors' games.
    """
    words = ['--data', str(GAMES), '--judge-model-file', 'none']
    return TABLES[table](
        ReleasedGames(option_parser(None, **OPTIONS).parse_args(words))
    )


def rows_of(table):
    return {row[0]: row[1:] for row in table.rows}


@needs_games
def test_the_judges_agree_as_published():
    pytest.importorskip('openpyxl')
    rows = rows_of(asked('judges'))
    off = {d: round(r[1], 2) - r[0] for d, r in rows.items() if round(r[1], 2) != r[0]}
    # all of Table 4 but fluency, where 0.64 is measured and 0.60 published
    assert off == {'fluency': pytest.approx(0.04)}


@needs_games
def test_means_of_table_7_are_the_published_ones():
    pytest.importorskip('openpyxl')
    found = asked('setups')
    rows = rows_of(found)
    bots, alone = rows['bot-bot'], rows['self-chat']
    assert (round(bots[3], 2), round(alone[3], 2)) == (7.10, 0.14)
    # 530 bonuses in 42 games; the paper's 12.60 is 529: without the last turns; and its
    # 17.14 is without repeated turns, too
    assert bots[5] == pytest.approx(530 / 42)
    assert {
        'bot-bot, relevance without the last turn: 12.60',
        'self-chat, relevance without the last and repeated turns: 17.14',
    } <= {*found.notes}


def test_a_cut_game_knows_no_words_of_later_turns():
    # they would be in no turn, and so the rarest concepts of all
    turns = (Utterance('A', 'My dogs'), Utterance('B', 'ok'))
    material = Material(
        {'dogs': 'dog', 'cats': 'cat'}, [[], [], ['X']], [1.0, 2.0, 3.0]
    )
    found = cut_material(material, Dialogue('d', '', '', turns))
    assert found == Material({'dogs': 'dog'}, [[], []], [1.0, 2.0])


def test_missing_pipelines_are_rows_that_say_why(monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'spacy', None)

    def build(reading, entities):
        sources = {'entities': entities, 'judge_model_file': 'none'}
        return ChatMatch(chatmatch_options(reading, sources), ModelHandle())

    judges = {'1': {'A': 1.0, 'B': 2.0}}
    texts = ('hi', 'ok', 'what is it ?', 'ok', 'a cat', 'ok')
    turns = tuple(Utterance('AB'[i % 2], text) for i, text in enumerate(texts))
    table = readings_table(
        [Dialogue('d', '', '', turns)],
        Rated(judges),
        build,
        readings=['paper'],
        recognisers=['none', 'spacy'],
        ratings=['3-1-0'],
    )
    done, skipped, *trivial = table.rows
    # A has 7 words in 3 turns and repeats none, B 3 in 3 and repeats two
    assert [(row[0], row[2]) for row in trivial] == [
        ('mean words a turn', 1),
        ('share of unrepeated turns', 1),
    ]
    assert done == ('paper, none', '3-1-0', 1, 0.62)
    assert skipped[2].startswith('skipped: scorer: entities: spacy is not installed')


@pytest.mark.parametrize(
    'rows, judgements',
    [
        (
            [
                ('judge', None, None),
                ('Fluency ', 'A', 'B'),
                (1, 5, None),
                (None, None, None),
                ('Total rank', 'B', 'A'),
                (1, 1, 2.0),
            ],
            {
                'fluency': {'1': {'A': 5.0, 'B': None}},
                'overall': {'1': {'B': 1.0, 'A': 2.0}},
            },
        ),
        # a column without a name moves no other
        (
            [('fluency', 'A', None, 'B'), (1, 5, None, 3)],
            {'fluency': {'1': {'A': 5.0, 'B': 3.0}}},
        ),
        # a judge may have a name
        (
            [('fluency', 'A', 'B'), ('Ann', 5, 3)],
            {'fluency': {'Ann': {'A': 5.0, 'B': 3.0}}},
        ),
    ],
)
def test_judgements_are_read_from_blocks_of_a_spreadsheet(rows, judgements):
    assert judgements_from_rows(rows) == judgements


@pytest.mark.parametrize(
    'name, text, words',
    [
        ('j.csv', 'system,dimension,value\nA,overall,1\n', 'column `rater`'),
        ('j.xlsx', 'no zip', 'no readable'),
        ('none.xlsx', None, 'No such file'),
    ],
)
def test_a_file_without_judgements_is_one_line(tmp_path, name, text, words):
    pytest.importorskip('openpyxl')
    if text:
        (tmp_path / name).write_text(text)
    with user_error(words):
        read_judgements(tmp_path / name)


def test_judgements_are_read_from_csv(tmp_path):
    path = tmp_path / 'j.csv'
    path.write_text('system,dimension,value,rater\nA,overall,1,x\nB,overall,2,x\n')
    assert read_judgements(path) == {'overall': {'x': {'A': 1.0, 'B': 2.0}}}
