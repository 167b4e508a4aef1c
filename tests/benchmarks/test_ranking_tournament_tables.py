"""
The paper's tables, on games made by hand and on the authors' own.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from benchmarks.chatmatch import published as paper
from benchmarks.chatmatch.games import games_from_dialogues
from benchmarks.chatmatch.tables import (
    Rated,
    ablation_table,
    agreement_among,
    baselines,
    groups_table,
    judges_table,
    lengths_table,
    setups_table,
)
from parlai_ext.core.nouns import Dialogue, Utterance
from tests.support.chatmatch_samples import pecking_order
from tests.support.user_error import user_error

JUDGES = {
    '1': {'A': 1.0, 'B': 2.0, 'C': 3.0, 'D': 4.0},
    '2': {'A': 1.0, 'B': 2.0, 'C': 4.0, 'D': 3.0},
}


def of(*values):
    return dict(zip('ABCDEFG', values, strict=False))


def dialogue(first, second, *texts, id=None):
    names = itertools.cycle((first, second))
    turns = tuple(
        Utterance(name, text) for name, text in zip(names, texts, strict=False)
    )
    return Dialogue(id or first + second, '', '', turns)


def longest(one):
    """
    Raw value: words of the longest turn.
    """
    names = {turn.speaker for turn in one.utterances}
    return {
        name: {
            'x': float(
                max(len(t.text.split()) for t in one.utterances if t.speaker == name)
            )
        }
        for name in names
    }


def test_the_transcription_of_table_6_has_the_papers_own_mean_and_count():
    taus = [tau for tau, _ in paper.GROUPS.values()]
    assert len(taus) == 35
    assert round(sum(taus) / 35, 2) == paper.GROUPS_MEAN
    assert sum(tau > 0.6 for tau in taus) == paper.GROUPS_ABOVE_060


@pytest.mark.parametrize(
    ('names', 'words'),
    [('ABC', r'dialogue d1: 3 speakers \(A, B, C\)'), ('AA', '1 speakers')],
)
def test_a_game_of_other_than_two_speakers_is_refused_by_id(names, words):
    turns = tuple(Utterance(name, 'hi') for name in names)
    with user_error(words):
        games_from_dialogues([Dialogue('d1', '', '', turns)], longest)


ALIKE = {'1': of(1, 2, 3), '2': of(1, 2, 3), '3': of(2, 2, 2)}


@pytest.mark.parametrize(
    'judges, systems, found',
    [
        # what both judged
        ({'1': of(1, 2, None, 3), '2': of(1, 2, 9, 3)}, None, (1, 1)),
        # the systems of a group alone
        ({'1': of(1, 2, 3, 4), '2': of(1, 2, 4, 3)}, 'CD', (-1, 1)),
        # one who ranks all alike is left out
        (ALIKE, None, (1, 1)),
        ({'1': of(1, 2, 3)}, None, ('undefined: no two can be compared', 0)),
    ],
)
def test_who_is_compared_with_whom(judges, systems, found):
    assert agreement_among(judges, systems) == found


def test_judges_agreement_is_the_mean_of_scipys():
    said = np.random.default_rng(3).integers(1, 6, size=(4, 7)).astype(float)
    judges = {str(i): of(*row) for i, row in enumerate(said)}
    pairs = itertools.combinations(said, 2)
    expected = np.mean([stats.kendalltau(a, b).statistic for a, b in pairs])
    assert agreement_among(judges)[0] == pytest.approx(expected)


def test_table_4_has_the_mean_pair_and_the_papers_column():
    rows = {row[0]: row[1:] for row in judges_table({'overall': JUDGES}).rows}
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


def test_table_6_of_a_group_with_one_human_rank_is_undefined():
    judges = {'1': {'C': 1.0, 'D': 1.0}}
    table = groups_table(pecking_order(dims='x'), Rated(judges, '3-1-0'), 2)
    cells = {row[0]: row[2] for row in table.rows}
    assert cells['C D'] == 'undefined: all systems have the same human rank'
    assert cells['A B'].startswith('undefined: 0 systems have a rating')


def test_table_6_says_how_many_groups_its_mean_lacks():
    # C and D share a mean rank, so that one of the six pairs has no tau
    notes = groups_table(pecking_order(dims='x'), Rated(JUDGES, '3-1-0'), 2).notes
    assert notes[0] == '5 of 6 groups have a tau'


def test_table_7_ranks_self_chats_by_sums_of_ranks():
    alone = {n: {'x': v} for n, v in zip('ABCD', [1.0, 2.0, 3.0, 4.0], strict=False)}
    judges = {'1': {'A': 1.0, 'B': 2.0, 'C': 3.0, 'D': 4.0}}
    counts = {'bot-bot': {'inconsistency': 2.0, 'relevance': None}}
    results = pecking_order(dims='x')
    table = setups_table(results, alone, counts, Rated(judges, '2-1-0'))
    rows = {row[0]: row for row in table.rows}
    assert rows['bot-bot'][2] == 1
    assert rows['self-chat'][2] == -1
    assert rows['bot-bot'][4:] == (2.0, 12.6, 'undefined: no count')


def test_table_8_leaves_each_out_and_keeps_each_alone():
    # x follows the judge, y is its reverse, together every game is a draw
    judges = {'1': JUDGES['1']}
    table = ablation_table(pecking_order(), Rated(judges, '3-1-0'))
    rows = {row[0]: row for row in table.rows}
    assert rows['x'][2:] == (-1, 1)
    assert rows['y'][2:] == (1, -1)
    assert rows['(none)'][2] == 'undefined: all systems have the same rating'


def test_figure_4_ranks_the_cut_games():
    # B is longer in the first exchange, A in the second
    games = [
        dialogue('A', 'B', 'a', 'b b', 'a a a', 'b'),
        dialogue('B', 'A', 'b b', 'a', 'b', 'a a a'),
    ]
    judges = {'1': {'A': 1.0, 'B': 2.0}}
    table = lengths_table(games, longest, Rated(judges), exchanges=(1, 2, 3))
    assert table.rows == ((1, -1), (2, 1), (3, 'not here: no game has 3 exchanges'))


def test_baselines_are_those_on_paper():
    games = [dialogue('A', 'B', 'one two', 'x', 'One  two', 'y', 'one two three', 'x')]
    found = baselines(games)
    assert found['mean words a turn'] == {'A': pytest.approx(7 / 3), 'B': 1}
    # two of A's three turns differ (case and spaces do not count), two of B's three
    assert found['share of unrepeated turns'] == pytest.approx({'A': 2 / 3, 'B': 2 / 3})
