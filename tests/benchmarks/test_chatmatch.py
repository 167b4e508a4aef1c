"""
ChatMatch: raw values of hand-made games and of the authors', and the paper's tables.
"""

import hashlib
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from benchmarks.chatmatch.__main__ import OPTIONS, TABLES, ReleasedGames
from benchmarks.chatmatch.games import cut_material, games_from_dialogues, raw_scores
from benchmarks.chatmatch.judgements import judgements_from_rows, read_judgements
from benchmarks.chatmatch.tables import (
    GROUPS,
    PAPER,
    Rated,
    ablation_table,
    agreement_among,
    baselines,
    groups_table,
    judges_table,
    lengths_table,
    readings_table,
    setups_table,
)
from benchmarks.support.measures import option_parser
from parlai_ext.core import Dialogue, Utterance, grouped
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.chatmatch.scorer import (
    DIMENSIONS,
    READINGS,
    ChatMatch,
    Material,
    judged_game,
)
from tests.support.chatmatch_samples import DATA as GAMES
from tests.support.chatmatch_samples import (
    QUIZ,
    chatmatch_options,
    game,
    needs_games,
    pecking_order,
    read_concepts,
    read_games,
    released_rows,
)
from tests.support.user_error import user_error

# one number a turn; the sides' counted turns under the script are ann 2 4 6 8, bob 1 3
# (5 and 7 repeat, 9 is the last of ten)
PERPLEXITIES = (9.0, 8.0, 4.0, 6.0, 2.0, 1.0, 6.0, 1.0, 3.0, 5.0)
NAMES = (
    ['Rome'],
    [],
    ['Rome'],
    ['Oslo', 'Oslo'],
    [],
    [],
    ['Oslo'],
    [],
    ['Bonn'],
    ['X'],
)
MATERIAL = Material({}, NAMES, PERPLEXITIES)


def raw(dialogue, reading='released_fixed', material=MATERIAL, **thresholds):
    return raw_scores(dialogue, chatmatch_options(reading, thresholds), material)


ON_PAPER = Path(__file__).with_name('chatmatch_on_paper.yaml')


@pytest.mark.parametrize('case', yaml.safe_load(ON_PAPER.read_text('utf-8')))
def test_raw_values_are_those_on_paper(case):
    dialogue = game(case.get('turns', QUIZ))
    material = Material(**case['material']) if 'material' in case else MATERIAL
    for reading, sides in case['expected'].items():
        values = raw(dialogue, reading, material, **case.get('thresholds', {}))
        for side, by_dimension in sides.items():
            expected = {name: Fraction(value) for name, value in by_dimension.items()}
            found = {dimension: values[side][dimension] for dimension in expected}
            assert found == pytest.approx(expected), reading


def test_a_turn_of_one_character_has_the_capped_perplexity():
    turns = judged_game(
        game([*QUIZ[:4], '.', *QUIZ[5:]]), chatmatch_options('released'), MATERIAL
    ).turns
    assert turns[4].values['fluency'] == -50


def test_the_script_gives_each_the_others_specificity_and_else_is_as_mended():
    script, mended = raw(game(QUIZ), 'released'), raw(game(QUIZ))
    swapped = {'ann': 'bob', 'bob': 'ann'}
    for name, dimension in itertools.product(swapped, DIMENSIONS):
        side = swapped[name] if dimension == 'specificity' else name
        assert script[name][dimension] == mended[side][dimension]


def test_a_given_turn_does_not_count():
    said = [*game(QUIZ).utterances]
    said[1] = Utterance('bob', said[1].text, given=True)
    found = raw(Dialogue('d', 'p', 'o', tuple(said)), 'paper')
    assert found['bob']['proactivity'] == 2


def test_a_self_chat_adds_counts_and_averages_means():
    two, one = raw(game(QUIZ), 'paper'), raw(game(QUIZ, names=('solo',)), 'paper')
    for dimension in DIMENSIONS:
        total = two['ann'][dimension] + two['bob'][dimension]
        share = 2 if dimension in ('fluency', 'specificity') else 1
        assert one['solo'][dimension] == pytest.approx(total / share)


@pytest.mark.parametrize('reading', READINGS)
@pytest.mark.parametrize(
    'texts', [['', ''], ['', '', ''], ['hi'] * 9, ['?'] * 8, ['a', 'b'], ['🙂'] * 7]
)
def test_no_value_is_a_reason_and_never_nan(reading, texts):
    material = Material({}, [()] * len(texts), [None] * len(texts))
    judged = judged_game(game(texts), chatmatch_options(reading), material)
    for side in judged.sides.values():
        for name, value in side.values.items():
            assert (value is None) == bool(side.reasons.get(name))
            assert value is None or math.isfinite(value)


def test_all_turns_repeated_leaves_no_fluency():
    texts = ['hi', 'x', *['same here'] * 6]
    even = judged_game(
        game(texts), chatmatch_options('released_fixed'), Material()
    ).sides['ann']
    assert even.values['proactivity'] == 0  # turn 2 is no repetition yet
    assert even.reasons['fluency'].startswith('not counted: given; no language model')


@pytest.fixture(scope='module')
def games():
    """
    Return, by the kind of game and by its name, each game and what the script finds.
    """
    rules = chatmatch_options('released')
    return {
        folder: {
            name: (
                dialogue,
                judged_game(
                    dialogue, rules, Material(read_concepts(f'lemma_{folder}', name))
                ),
            )
            for name, dialogue in read_games(folder).items()
        }
        for folder in ('original', 'selfchat')
    }


def by_turn(dialogue, found):
    """
    Return the script's four lists: it gives the first turn no repetition or question.
    """
    rows = []
    for i, (text, turn) in enumerate(zip(dialogue.texts, found.turns, strict=True)):
        marks = [j is not None for j in turn.evidence[:3]]
        marks[0] |= text == '' and i > 0
        rows.append([*map(int, marks), int('?' in text and i > 0)])
    return rows


@needs_games
@pytest.mark.parametrize('folder', ['original', 'selfchat'])
def test_every_turn_is_as_the_released_script_has_it(games, folder):
    rows = released_rows(folder == 'selfchat')
    assert {row[0] for row in rows} == set(games[folder])
    for name, counts, distinct, digest in rows:
        dialogue, found = games[folder][name]
        turns = by_turn(dialogue, found)
        assert [sum(column) for column in zip(*turns, strict=True)] == counts
        assert hashlib.sha256(json.dumps(turns).encode()).hexdigest()[:8] == digest
        # the script's per-game count has the speakers swapped
        even, odd = (side.values['specificity'] for side in found.sides.values())
        assert [odd, even] == pytest.approx(distinct, abs=1e-6)


def asked(table):
    """
    Return a table on the authors' games.
    """
    words = ['--data', str(GAMES), '--judge-model-file', 'none']
    return TABLES[table](
        ReleasedGames(option_parser(None, **OPTIONS).parse_args(words))
    )


def rows_of(table):
    """
    Return the cells of each row behind its first one, by that one.
    """
    return {row[0]: row[1:] for row in table.rows}


@needs_games
def test_the_judges_agree_as_published():
    pytest.importorskip('openpyxl')
    rows = rows_of(asked('judges'))
    off = {d: round(r[1], 2) - r[0] for d, r in rows.items() if round(r[1], 2) != r[0]}
    # all of Table 4 but fluency, where 0.64 is measured and 0.60 published
    assert off == {'fluency': pytest.approx(0.04)}


@pytest.mark.slow  # each game's counts are held above
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


def test_missing_pipelines_are_rows_that_say_why(uninstalled):
    uninstalled('spacy')

    def build(reading, entities):
        sources = {'entities': entities, 'judge_model_file': 'none'}
        return ChatMatch(chatmatch_options(reading, sources), ModelHandle())

    said = dialogue('A', 'B', 'hi', 'ok', 'what is it ?', 'ok', 'a cat', 'ok')
    table = readings_table(
        [said],
        Rated({'1': of(1.0, 2.0)}),
        build,
        readings=['paper'],
        recognisers=['none', 'spacy'],
        ratings=['3-1-0'],
    )
    done, skipped, *trivial = table.rows
    # A has 7 words in 3 turns and repeats none, B 3 in 3 and repeats two
    assert [row[2] for row in trivial] == [1, 1]
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
        # a column without a name moves no other; a judge may have a name
        (
            [('fluency', 'A', None, 'B'), ('Ann', 5, None, 3)],
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


def of(*values):
    return dict(zip('ABCDEFG', values, strict=False))


JUDGES = {'1': of(1.0, 2.0, 3.0, 4.0), '2': of(1.0, 2.0, 4.0, 3.0)}


def dialogue(first, second, *texts):
    names = itertools.cycle((first, second))
    turns = tuple(map(Utterance, names, texts))
    return Dialogue(first + second, '', '', turns)


def longest(one):
    """
    Raw value: words of the longest turn.
    """
    lengths = grouped(
        (turn.speaker, float(len(turn.text.split()))) for turn in one.utterances
    )
    return {name: {'x': max(own)} for name, own in lengths.items()}


def test_the_transcription_of_table_6_has_the_papers_own_mean_and_count():
    taus = [tau for tau, _ in GROUPS.values()]
    assert len(taus) == 35
    assert round(sum(taus) / 35, 2) == PAPER['groups_mean']
    assert sum(tau > 0.6 for tau in taus) == PAPER['groups_above_060']


def test_a_game_of_other_than_two_speakers_is_refused_by_id():
    with user_error(r'dialogue d: 3 speakers \(ann, bob, cy\)'):
        games_from_dialogues([game(QUIZ, names=('ann', 'bob', 'cy'))], longest)


@pytest.mark.parametrize(
    'ranks, found',
    [
        # what both judged
        ([(1, 2, None, 3), (1, 2, 9, 3)], (1, 1)),
        # one who ranks all alike is left out
        ([(1, 2, 3), (1, 2, 3), (2, 2, 2)], (1, 1)),
        ([(1, 2, 3)], ('undefined: no two can be compared', 0)),
    ],
)
def test_who_is_compared_with_whom(ranks, found):
    judges = {str(k): of(*of_judge) for k, of_judge in enumerate(ranks)}
    assert agreement_among(judges, None) == found


def test_table_4_has_the_mean_pair_and_the_papers_column():
    rows = rows_of(judges_table({'overall': JUDGES}))
    # one pair; of six pairs of systems five agree: 4/6
    assert rows['overall'] == (0.63, pytest.approx(4 / 6), 1)
    assert rows['fluency'] == (0.6, 'undefined: nobody judged it', None)


def test_table_6_has_every_group():
    results = pecking_order(dims='x')
    table = groups_table(results, Rated(JUDGES, '3-1-0'), 3)
    assert [row[0] for row in table.rows[:-2]] == ['A B C', 'A B D', 'A C D', 'B C D']
    # C and D share a mean rank of 3.5: A, C, D agree on two pairs, and the third is
    # tied on one side: tau-b = 2 / sqrt(3 * 2)
    assert table.rows[2][2] == pytest.approx(2 / 6**0.5)
    assert table.rows[0][2] == 1


def test_table_7_ranks_self_chats_by_sums_of_ranks():
    judges = {'1': JUDGES['1']}
    alone = {name: {'x': value} for name, value in JUDGES['1'].items()}
    counts = {'bot-bot': {'inconsistency': 2.0, 'relevance': None}}
    results = pecking_order(dims='x')
    table = setups_table(results, alone, counts, Rated(judges, '2-1-0'))
    rows = rows_of(table)
    assert (rows['bot-bot'][1], rows['self-chat'][1]) == (1, -1)
    assert rows['bot-bot'][3:] == (2.0, 12.6, 'undefined: no count')


def test_table_8_leaves_each_out_and_keeps_each_alone():
    # x follows the judge, y is its reverse, together every game is a draw
    judges = {'1': JUDGES['1']}
    table = ablation_table(pecking_order(), Rated(judges, '3-1-0'))
    rows = rows_of(table)
    assert (rows['x'][1:], rows['y'][1:]) == ((-1, 1), (1, -1))
    assert rows['(none)'][1] == 'undefined: all systems have the same rating'


def test_figure_4_ranks_the_cut_games():
    # B is longer in the first exchange, A in the second
    games = [
        dialogue('A', 'B', 'a', 'b b', 'a a a', 'b'),
        dialogue('B', 'A', 'b b', 'a', 'b', 'a a a'),
    ]
    rated = Rated({'1': of(1.0, 2.0)})
    table = lengths_table(games, longest, rated, exchanges=(1, 2, 3))
    assert table.rows == [(1, -1), (2, 1), (3, 'not here: no game has 3 exchanges')]


def test_baselines_are_those_on_paper():
    games = [dialogue('A', 'B', 'one two', 'x', 'One  two', 'y', 'one two three', 'x')]
    found = baselines(games)
    assert found['mean words a turn'] == {'A': pytest.approx(7 / 3), 'B': 1}
    # two of A's three turns differ (case and spaces do not count), two of B's three
    assert found['share of unrepeated turns'] == pytest.approx({'A': 2 / 3, 'B': 2 / 3})
