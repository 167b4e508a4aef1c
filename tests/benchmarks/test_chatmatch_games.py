"""
Raw values of hand-made games, and of the authors' own.
"""

import hashlib
import itertools
import json
import math

import pytest

from benchmarks.chatmatch.games import raw_scores
from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.scoring.chatmatch.game import (
    DIMENSIONS,
    READINGS,
    Material,
    chatmatch_options,
    game_values,
    why_no_game,
)
from tests.support.chatmatch_samples import (
    QUIZ,
    game,
    needs_games,
    read_concepts,
    read_games,
    released_rows,
)

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


# what is on paper: turns, reading, material, thresholds, raw values by side
ON_PAPER = {
    # bob repeats at 5 and 7; ann contradicts herself at 8; of bob's three questions two
    # are in repeated turns. bob: turn 1 is before turn 3 and counts 0, turn 3 is 6, the
    # worst: 0 is left; ann: turn 2 counts 0, then 2, 6, 3; without the 6: 5 / 3.
    # Rome at 0 is ann's, Oslo at 3 bob's, Bonn at 8 ann's, X at 9 bob's: a name counts
    # once a game
    'the script': (
        QUIZ,
        'released_fixed',
        MATERIAL,
        {},
        {
            'ann': {'diversity': 0, 'consistency': -1, 'proactivity': 0}
            | {'fluency': -5 / 3, 'knowledge': 2},
            'bob': {'diversity': -2, 'consistency': 0, 'proactivity': 1}
            | {'fluency': 0, 'knowledge': 2},
        },
    ),
    # every turn but the given one: bob 8 6 1 1 5, ann 4 2 6 3; names per hundred
    # exchanges: ann Rome at 2, Oslo at 6, Bonn at 8 in five turns; bob Oslo twice at 3,
    # X at 9
    'the paper': (
        QUIZ,
        'paper',
        MATERIAL,
        {},
        {
            'ann': {'proactivity': 0, 'fluency': -15 / 4, 'knowledge': 60},
            'bob': {'diversity': -2, 'consistency': 0, 'proactivity': 3}
            | {'fluency': -21 / 5, 'knowledge': 60},
        },
    ),
    # turn 6 is ann's answer to the repeated turn 5, other than turn 2, and her own
    # question of turn 4 again
    **{
        f'a contradiction in a repeated turn, {reading}': (
            [*QUIZ[:4], 'why ask me ?', QUIZ[5], 'why ask me ?', 'bye then', 'so long'],
            reading,
            Material(),
            {},
            {'ann': {'consistency': penalty}},
        )
        for reading, penalty in (('released', 0), ('paper', -1))
    },
    # bob's turn 3 recalls the cats of turn 1 by saying turn 1 again
    **{
        f'a bonus of a repeated turn, {reading}': (
            ['hm', 'blue cats', 'so', 'blue cats', 'well', 'bye'],
            reading,
            Material({'cats': 'cat'}),
            {'concept_share': 1},
            {'bob': {'relevance': bonus}},
        )
        for reading, bonus in (('released', 0), ('paper', 1))
    },
    # ann: 0, 2, min(6, 2.5), min(3, 2.5); one 2.5 is dropped: (0 + 2 + 2.5) / 3
    'a cap': (
        QUIZ,
        'released_fixed',
        MATERIAL,
        {'perplexity_cap': 2.5},
        {'ann': {'fluency': -1.5}},
    ),
    # bob's "b b": 1 of 2 words, 1 of 1 pairs, so 3/4; "e f": 1; turn 5 repeats turn 1,
    # which the script leaves out
    **{
        f'distinct, {reading}': (
            ['x', 'b b', 'c', 'e f', 'd', 'b b', 'g'],
            reading,
            Material(),
            {'distinct_unit': 'token'},
            {'bob': {'specificity': specificity}},
        )
        for reading, specificity in (
            ('released_fixed', (3 / 4 + 1) / 2),
            ('paper', 5 / 6),
        )
    },
    # an empty turn is a repetition for the script alone
    **{
        f'an empty turn, {reading}': (
            ['hi', 'one', 'two', '', 'three'],
            reading,
            Material(),
            {},
            {'bob': {'diversity': diversity}},
        )
        for reading, diversity in (('released_fixed', -1), ('paper', 0))
    },
    # ann's turns 4 and 6 repeat turn 2, so only turn 2 is left, counted as 0; bob's are
    # 1, 3 and 5: 0, 6 and 1 without the 6; the script swaps the two
    **{
        f'one unrepeated turn, {reading}': (
            ['hi', 'blue', 'red', 'green', 'red', 'black', 'red'],
            reading,
            Material({}, None, PERPLEXITIES[:7]),
            {},
            fluency,
        )
        for reading, fluency in (
            ('released_fixed', {'ann': {'fluency': 0}}),
            ('released', {'ann': {'fluency': -0.5}, 'bob': {'fluency': 0}}),
        )
    },
}


@pytest.mark.parametrize('name', ON_PAPER)
def test_raw_values_are_those_on_paper(name):
    texts, reading, material, thresholds, expected = ON_PAPER[name]
    values = raw(game(texts), reading, material, **thresholds)
    for side, by_dimension in expected.items():
        found = {dimension: values[side][dimension] for dimension in by_dimension}
        assert found == pytest.approx(by_dimension)


def test_a_turn_of_one_character_has_the_capped_perplexity():
    turns = game_values(
        game([*QUIZ[:4], '.', *QUIZ[5:]]), chatmatch_options('released'), MATERIAL
    ).turns
    assert turns[4]['fluency'].value == -50


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


@pytest.mark.parametrize(
    ('dialogue', 'reason'),
    [
        (game(QUIZ, names=('ann', 'bob', 'cy')), '3 speakers (ann, bob, cy)'),
        (game(QUIZ[:1]), '1 turn(s)'),
        (game([]), '0 turn(s)'),
        (game(QUIZ[:4], names=('ann', 'bob', 'bob')), 'turn 2: bob speaks twice'),
    ],
)
def test_a_dialogue_that_is_no_game_has_a_reason(dialogue, reason):
    assert why_no_game(dialogue).startswith(reason)
    names = {u.speaker for u in dialogue.utterances}
    nothing = dict.fromkeys(DIMENSIONS)
    assert raw(dialogue) == {name: nothing for name in names}


@pytest.mark.parametrize('reading', READINGS)
@pytest.mark.parametrize(
    'texts', [['', ''], ['', '', ''], ['hi'] * 9, ['?'] * 8, ['a', 'b'], ['🙂'] * 7]
)
def test_no_value_is_a_reason_and_never_nan(reading, texts):
    material = Material({}, [()] * len(texts), [None] * len(texts))
    for side in game_values(game(texts), chatmatch_options(reading), material).sides:
        for one in side.values():
            assert (one.value is None) == bool(one.reason)
            assert one.value is None or math.isfinite(one.value)


def test_all_turns_repeated_leaves_no_fluency():
    texts = ['hi', 'x', *['same here'] * 6]
    even = game_values(
        game(texts), chatmatch_options('released_fixed'), Material()
    ).sides[0]
    assert even['proactivity'].value == 0  # turn 2 is no repetition yet
    assert even['fluency'].reason.startswith('not counted: given; no language model')


@pytest.fixture(scope='module')
def games():
    return {
        folder: {
            name: game_values(
                dialogue,
                chatmatch_options('released'),
                Material(read_concepts(f'lemma_{folder}', name)),
            )
            for name, dialogue in read_games(folder).items()
        }
        for folder in ('original', 'selfchat')
    }


def by_turn(name, folder, games):
    """
    Return the script's four lists: it gives the first turn no repetition or question.
    """
    texts = [u.text for u in read_games(folder)[name].utterances]
    one = games[folder][name]
    lists = (one.echoes.repeats, one.echoes.contradicts, one.recalls)
    marks = [[int(j is not None) for j in found] for found in lists]
    for i, text in enumerate(texts):
        marks[0][i] |= text == '' and i > 0
    return [list(row) for row in zip(*marks, ['?' in t for t in texts], strict=True)]


@needs_games
@pytest.mark.parametrize('folder', ['original', 'selfchat'])
def test_every_turn_is_as_the_released_script_has_it(games, folder):
    rows = released_rows(folder == 'selfchat')
    assert {row[0] for row in rows} == set(games[folder])
    for name, counts, _, digest in rows:
        turns = by_turn(name, folder, games)
        turns[0][3] = 0
        turns = [[int(mark) for mark in turn] for turn in turns]
        assert [sum(column) for column in zip(*turns, strict=True)] == counts
        assert hashlib.sha256(json.dumps(turns).encode()).hexdigest()[:8] == digest


@needs_games
@pytest.mark.parametrize('folder', ['original', 'selfchat'])
def test_distinct_values_are_the_released_scripts(games, folder):
    for name, _, distinct, _ in released_rows(folder == 'selfchat'):
        # the script's per-game count has them swapped
        even, odd = (side['specificity'].value for side in games[folder][name].sides)
        assert [odd, even] == pytest.approx(distinct, abs=1e-6)
