"""
The four answers at the top of the page, and the tables behind a leaderboard.
"""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from parlai_ext.ranking.intervals import Estimate, Sampling
from parlai_ext.ranking.standings import (
    CellMean,
    DialoguesNeeded,
    Separation,
    dialogues_needed,
)
from parlai_ext.report.page import (
    SHADES,
    answers,
    pairs_section,
    partners_section,
    spread_section,
)
from parlai_ext.report.summary import leader_sentence, sentences, warnings
from parlai_ext.report.view import DimensionDetails, RankingView, dimension_details
from parlai_ext.results.ranking import IMPORT_NOTE, rank_run, read_tables
from parlai_ext.view import rough_count, signed
from tests.support.check_example import FAILS, PASSES, WEAK, example_check
from tests.support.report_example import (
    SCORER,
    agreement,
    example_ranking,
    example_run,
    standing,
    tournament_result,
)

NAMES = (*'abcdef',)


def finding(not_apart=(), n_apart=3, names=NAMES, needed=(), notes=(), **counts):
    """
    Return the sentence on systems of which some cannot be told from the first, which is
    the best.
    """
    n_pairs = len(names) * (len(names) - 1) // 2
    one = Separation(n_pairs, n_apart, names[0], tuple(not_apart), tuple(needed))
    rows = [
        replace(standing(name, k + 1, -1.0 * k), **counts)
        for k, name in enumerate(names)
    ]
    standings, apart = {'Overall': tuple(rows)}, {'Overall': one}
    ranking = example_ranking(standings=standings, separation=apart, notes=notes)
    return leader_sentence(ranking, 'Overall')


ALL_TIED = {'not_apart': 'bcdef', 'n_apart': 0}


@pytest.mark.parametrize(
    'about, parts, absent',
    [
        (
            {'not_apart': ['b', 'c']},
            ['a comes first of 6', 'tell it apart from b or c'],
            'more than chance explains',
        ),
        ({'not_apart': 'bcdexy'}, ['b, c, d or 3 others'], ''),
        ({}, ['more than chance explains'], 'tell it apart'),
        (ALL_TIED, ['nothing can be told apart'], 'first'),
        # others may differ from each other, and floors from all
        ({'not_apart': 'bcdef'}, ['a scores highest'], 'first|but floors'),
        (
            {'not_apart': 'bcdef', 'names': (*NAMES, 'floor-x')},
            ['a scores highest', 'but floors'],
            'first',
        ),
        (
            {**ALL_TIED, 'n_openers': 2},
            ['3 or more openers', 'not 2', 'nothing can'],
            '',
        ),
        (
            {
                'not_apart': 'b',
                'needed': [DialoguesNeeded('a', 'b', reason='equal scores')],
            },
            ['equal scores'],
            '',
        ),
        (
            {
                'not_apart': 'b',
                'needed': [DialoguesNeeded('a', 'b', 4, 40, 160)],
                'notes': (IMPORT_NOTE,),
            },
            ['40 dialogues of a pair'],
            'opener',
        ),
    ],
)
def test_the_sentence_says_who_is_told_from_the_first(about, parts, absent):
    found = finding(**about)
    assert all(part in found for part in parts)
    assert not absent or not re.search(absent, found)


def test_unranked_systems_do_not_come_first():
    both = standing('a', None, 9.0), standing('b', 1, 2.0)
    ranking = example_ranking(standings={'Overall': both}, separation=None)
    only = 'On Overall, b is the only ranked system.'
    assert leader_sentence(ranking, 'Overall') == only


def test_a_dimension_on_which_nothing_is_apart_has_no_first():
    none = Separation(1, 0, 'beta', ('alpha',))
    ranking = example_ranking(separation={d: none for d in ('Fluency', 'Overall')})
    assert 'Highest' not in ' '.join(sentences(ranking))
    assert 'Nothing can be told apart on Fluency.' in sentences(ranking)
    leader = by_question(ranking)['Who leads']
    assert leader.text == 'Not settled' and 'beta' in leader.more


def test_a_ranking_without_dimensions_is_one_sentence():
    ranking = example_ranking(standings={})
    assert sentences(ranking) == ['No dialogue has a score, so there is no ranking.']


ABOVE = 'the floor floor-generic scores above ladder-1.'
FLOOR_LEADS = ('ladder-1', 'floor-generic')  # the last is the best


@pytest.mark.parametrize(
    'names, dimensions, cautions',
    [
        (FLOOR_LEADS, ['Overall'], [f'On Overall {ABOVE}']),
        (FLOOR_LEADS, ['Overall', 'Fluency'], [f'On Overall and Fluency {ABOVE}']),
        (FLOOR_LEADS[::-1], ['Overall'], []),
    ],
)
def test_a_floor_above_systems_is_one_caution(names, dimensions, cautions):
    ranking = example_ranking(names, dimensions=dimensions)
    assert [line for line in warnings(ranking) if 'floor' in line] == cautions


@pytest.mark.parametrize(
    'value, cautioned', [(0.9, True), (-0.95, True), (0.89, False)]
)
def test_baseline_as_good_as_the_scorer_is_a_caution(value, cautioned):
    as_good = {'mean_length': {'Overall': agreement(value)}}
    ranking = example_ranking(dimensions=('Overall',), baseline_reference=as_good)
    assert ranking.reference['Overall'].spearman.value == 0.9
    assert ('mean length' in ' '.join(warnings(ranking))) is cautioned


def test_ratings_and_baselines_are_compared_by_kendalls_tau():
    def one(*values):
        rho, tau = (Estimate(value, None, None) for value in values)
        return agreement(spearman=rho, kendall=tau)

    ranking = example_ranking(
        dimensions=('Overall',),
        tournament=tournament_result({'alpha': 1.0, 'beta': 2.0}),
        reference={'Overall': one(0.9, 0.2)},
        baseline_reference={'mean_length': {'Overall': one(0.0, 0.3)}},
    )
    assert 'on Overall mean length 0.30 against 0.20' in ' '.join(warnings(ranking))


# -------------------- Numbers of dialogues are shown as far as they are known.


@pytest.mark.parametrize(
    'n, figures, magnitude',
    [
        (3, 'about 3', 'about 3'),
        (64, 'about 64', 'tens of'),
        (127, 'about 130', 'hundreds of'),
        (995, 'about 1,000', 'hundreds of'),
        (1000, 'about 1,000', 'thousands of'),
        (50_000_000, 'about 50,000,000', 'millions of'),
    ],
)
def test_an_estimate_has_two_figures_or_its_magnitude_as_a_word(n, figures, magnitude):
    assert rough_count(n) == figures
    assert rough_count(n, is_order_only=True) == magnitude


@pytest.mark.parametrize('spread, is_rough', [(2.0, True), (0.5, False)])
def test_a_number_is_rough_below_two_standard_errors(spread, is_rough):
    # four openers with differences 1 + s, 1 - s, 1 + s, 1 - s: the variance is 4 s²/3,
    # the error of the mean s/√3: 1.15 for s = 2 (a difference of 0.87 errors), 0.29 for
    # s = 0.5 (3.5 errors)
    one = 1 + spread * np.array([[1, -1, 1, -1]])
    values = np.stack([one, 0 * one])
    needed = dialogues_needed(('a', 'b'), values, 1, Sampling(1, 0))
    assert needed.is_rough == is_rough and needed.n_dialogues


def test_the_sentence_has_no_figure_that_is_not_known():
    def said(*numbers, is_rough):
        needed = [DialoguesNeeded('a', 'b', *numbers, is_rough=is_rough)]
        return finding('b', needed=needed, n_partners=4)

    words = (
        'a from b would take about 220 openers with about 130 partners (about 28,000'
    )
    assert words in said(129, 217, 27_993, is_rough=False)
    words = 'hundreds of openers with hundreds of partners (tens of thousands of dial'
    assert words in said(129, 217, 27_993, is_rough=True)
    # the partners of the run are known
    assert 'with 4 partners (' in said(4, 217, 868, is_rough=True)
    # in all-play-all two systems share all partners but themselves
    assert 'with 3 partners that both met (' in said(3, 217, 651, is_rough=True)
    assert 'with 1 partner that both met (' in said(1, 217, 217, is_rough=True)


@pytest.fixture(scope='module')
def ranked(module_folder):
    run = example_run(
        module_folder / 'r',
        targets=('alpha', 'beta', 'floor-x'),
        openers=[f'hello {n}' for n in range(4)],
        ranking={'bootstraps': 50, 'max_failed_share': 0.5},
    )
    ranking = rank_run(run, SCORER)
    return ranking, dimension_details(run, ranking, read_tables(run, SCORER))


def by_question(ranking, *details, dimension='Overall'):
    view = RankingView(ranking, {}, *details)
    found = re.findall(
        r'<div(?: class="(.*)")?><dt>([^<]*?)(?: <i>.*</i>)?</dt>'
        '<dd><(?:b|em)>(.*)</(?:b|em)>(?:<span>(.*)</span>)?</dd></div>',
        answers(view, dimension),
    )
    return {
        question: SimpleNamespace(news=news, text=text, more=more)
        for news, question, text, more in found
    }


def test_the_lead_is_the_paired_difference_to_the_second_system(ranked):
    # floors lead in these made-up scores, and are no part of the claim
    ranking, details = ranked
    found = by_question(*ranked)
    lead, leader = found['By how much'], found['Who leads']
    pair = details['Overall'].pairs['beta', 'alpha']
    assert lead.text == f'{signed(pair.difference, 2)} over alpha'
    assert f'of {pair.n} dialogues' in lead.more
    assert leader.text == 'beta' and 'below the floor floor-x' in leader.more


@pytest.mark.parametrize(
    'outcome, believed',
    [(PASSES, 'passed'), (WEAK, 'weak'), (FAILS, 'fails'), (None, 'Not known')],
)
def test_whether_to_believe_it_is_what_the_check_says(outcome, believed):
    check = outcome and example_check({'Overall': outcome})
    # no caution follows
    about = {'dimensions': ('Overall',), 'reference': {}, 'judge_check': check}
    found = by_question(example_ranking(**about))
    assert believed in found['Believe it?'].text
    assert (found['Believe it?'].news == 'good') is (outcome is PASSES)
    assert (found['Who leads'].text == 'Nobody') is (outcome is FAILS)


def test_each_dimension_has_answers_of_its_own():
    check = example_check({'Overall': PASSES, 'Fluency': FAILS})
    ranking = example_ranking(judge_check=check)
    found = by_question(ranking, dimension='Fluency')
    leader = found['Who leads']
    assert leader.text == 'Nobody' and 'Fluency' in leader.more
    assert found['By how much'].text == 'Not known'
    assert found['Believe it?'].text.startswith('No:')
    assert by_question(ranking)['Who leads'].text == 'beta'
    # the lead in a tournament is its rating; on a dimension of its scores it is not
    games = replace(ranking, tournament=tournament_result({'alpha': 1.0, 'beta': 2.0}))
    assert by_question(games)['By how much'].text == 'Rating 2.0'
    lead = by_question(games, dimension='Fluency')['By how much']
    assert 'Rating' not in lead.text


def test_the_only_ranked_system_leads_nobody():
    leader = by_question(example_ranking(unranked=('alpha',)))['Who leads']
    assert (leader.text, leader.news) == ('beta', '') and 'alone' in leader.more


def test_tables_that_would_say_nothing_are_left_out():
    def view_of(one, *details):
        ranking = example_ranking(standings={'Overall': (one,)})
        return RankingView(ranking, {}, {'Overall': DimensionDetails(*details, {}, {})})

    nothing = view_of(standing('beta', None, None), ('tom', 'mary'), {})
    for section in (pairs_section, partners_section, spread_section):
        assert section(nothing) is None
    # one partner: its column is the leaderboard
    cells = {'alpha': {'tom': CellMean(1.0, 3)}}
    one = view_of(standing('alpha', 1, 1.0), ('tom',), cells)
    assert pairs_section(one) is partners_section(one) is None


def test_the_lowest_and_highest_cell_have_the_ends_of_the_colours(ranked):
    ranking, details = ranked
    view = RankingView(ranking, {}, details)
    heat = partners_section(view).data['panels']['Overall']
    cells = [cell for name in heat['systems'] for cell in heat['cells'][name].values()]
    ends = {cell.mean: heat['shade'](cell) for cell in cells}
    assert (ends[heat['low']], ends[heat['high']]) == (0, SHADES - 1)
