"""
The four answers at the top of the page, what the check of a judge and a run with two
partners do to the headline, and the tables of a leaderboard.
"""

import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parlai_ext.core.records import record_from_json
from parlai_ext.judge_check.record import HumanAnchor, PromptProbes
from parlai_ext.ranking.intervals import Estimate, Sampling
from parlai_ext.ranking.standings import (
    CellMean,
    DialoguesNeeded,
    Separation,
    dialogues_needed,
)
from parlai_ext.report import judge, summary
from parlai_ext.report.page import (
    SHADES,
    PageDialogues,
    answers,
    pairs_section,
    partners_section,
    render_rankings,
    spread_section,
    write_report,
)
from parlai_ext.report.summary import leader_sentence, sentences, warnings
from parlai_ext.report.table import (
    FILE_COLUMNS,
    file_table,
    leaderboard_csv,
    terminal_report,
    terminal_table,
)
from parlai_ext.report.view import DimensionDetails, RankingView, dimension_details
from parlai_ext.results.ranking import (
    IMPORT_NOTE,
    JudgeCard,
    Nearness,
    Ranking,
    rank_run,
    read_tables,
    to_json,
)
from parlai_ext.store import RunFolder
from parlai_ext.view import rough_count, signed, terminal_width
from tests.support.check_example import FAILS, PASSES, WEAK, example_card, example_check
from tests.support.planted_run import planted_run
from tests.support.report_example import (
    SCORER,
    agreement,
    example_ranking,
    example_run,
    standing,
    tournament_result,
)
from tests.support.repository import docs_page
from tests.support.store_samples import sample_manifest
from tests.support.written import on_one_line, rows_of_csv

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


# What a judge's check does to the headline, and the card of a judge.

NOTE = 'a generator stands for people'


def ranking_with(overall, fluency=PASSES, **changed):
    check = example_check({'Fluency': fluency, 'Overall': overall}, notes=(NOTE,))
    return example_ranking(judge_check=check, **{'judge': example_card(), **changed})


def page_of(ranking, **options):
    run = RunFolder(Path('no run'), sample_manifest())
    views = [RankingView(ranking, run, **options)]
    return render_rankings(views, PageDialogues((), 0, ((),)))


def shown(ranking):
    """
    Return what the terminal and the page say of a ranking.
    """
    return terminal_report(ranking), page_of(ranking)


def test_a_failed_check_leaves_nobody_first():
    ranking = ranking_with(FAILS)
    headline = sentences(ranking)[0]
    # 34 of 200 originals above: in 166 of 200, 83 %, the copy
    assert 'shuffled words' in headline and '83 %' in headline and '200' in headline
    for text in (headline, *shown(ranking)):
        assert 'comes first' not in text


def test_a_weak_judge_is_called_weak_with_the_reason():
    headline = sentences(ranking_with(WEAK))[0]
    assert 'comes first' in headline and 'weak' in headline
    assert 'replies from other dialogues' in headline  # 105 of 200


def test_a_missing_check_is_said_everywhere():
    ranking = example_ranking()
    assert 'not checked' in sentences(ranking)[0]
    assert 'none was made' in terminal_report(ranking)
    assert 'No check of this judge was made' in page_of(ranking)


def test_a_check_that_failed_on_another_dimension_names_nobody_there():
    found = ' '.join(sentences(ranking_with(PASSES, fluency=FAILS))[1:])
    assert 'beta on Fluency' not in found
    assert 'fails its check on Fluency' in found


def test_a_leaderboard_on_which_the_judge_failed_says_so_itself():
    text = terminal_report(ranking_with(PASSES, fluency=FAILS))
    assert 'says little' in text[text.index('\nFluency') :]
    assert 'says little' not in text[text.index('\nOverall') : text.index('\nFluency')]


def test_the_terminal_names_other_dimensions_on_which_the_judge_is_weak():
    assert 'it is weak on Fluency\n' in terminal_report(
        ranking_with(PASSES, fluency=WEAK)
    )
    assert 'it is weak' not in terminal_report(ranking_with(WEAK, fluency=PASSES))
    assert 'it fails on Fluency\n' in terminal_report(
        ranking_with(PASSES, fluency=FAILS)
    )


@pytest.mark.parametrize('higher, said', [(105, True), (100, False)])
def test_a_parrot_that_does_not_count_is_marked_so(higher, said):
    ranking = ranking_with({**PASSES, 'mirror': higher})
    assert ('counts at 0.50 or less' in shown(ranking)[1]) is said


def test_the_parrot_that_the_judge_likes_best_is_named_with_all_of_them():
    ranking = ranking_with({**PASSES, 'flatterer': 180, 'mirror': 60})
    terminal, page = map(on_one_line, shown(ranking))
    # (180 + 60) of 400, and 60 of 200
    assert 'parrots 0.60, of these least: mirror 0.30' in terminal
    assert 'of these least: the last turn with its pronouns swapped' in page


def test_files_carry_the_outcome():
    ranking = ranking_with(FAILS, fluency=WEAK)
    rows = rows_of_csv(leaderboard_csv(ranking))
    expected = {('Fluency', 'weak'), ('Overall', 'fail')}
    assert {(r['dimension'], r['judge_check']) for r in rows} == expected
    assert set(file_table(example_ranking()).frame().judge_check) == {'unchecked'}


def test_the_card_says_what_the_judge_is_and_reads_and_who_stands_for_people():
    for text in shown(ranking_with(PASSES)):
        for part in (
            'zoo:tiny/model',
            '135 million parameters',
            '96 tokens',
            'left',
            NOTE,
        ):
            assert part in text


def test_the_card_names_no_folder_of_this_machine():
    card = example_card('/home/someone/models/tiny')
    for text in shown(example_ranking(judge=card)):
        assert 'someone' not in text and 'tiny' in text


def test_a_scorer_without_a_model_is_named_so():
    assert 'without a model' in judge.judge_text(JudgeCard('length', {}, ()))


def test_agreement_with_people_is_not_measured_unless_it_was():
    assert 'not measured' in terminal_report(ranking_with(PASSES))
    human = {'Overall': agreement(kind='human')}
    text = terminal_report(ranking_with(PASSES, reference=human))
    assert 'not measured' not in text and 'Spearman 0.90 over the 2 systems' in text


def test_speed_is_on_the_page_where_it_is_known():
    speed = '0.4 s for each dialogue'
    assert speed in page_of(ranking_with(PASSES), speed=speed)


def test_the_page_shows_every_kind_with_its_interval():
    text = page_of(ranking_with(FAILS))
    # Wilson interval of 34 of 200, by the formula: 0.124 to 0.228
    assert 'shuffled words' in text and '[0.12, 0.23]' in text
    assert 'punctuation alone' in text


def test_doubts_about_a_judge_are_cautions():
    anchor = HumanAnchor(50, 1.0, 2.0, {'beta': 2.0}, 'beta scores far above people.')
    probes = PromptProbes(20, 3, ('beta',))
    check = example_check({'Overall': PASSES}, anchor, probes=probes)
    found = ' '.join(warnings(example_ranking(judge_check=check)))
    for words in ('far above people', '3 of 20', 'its own model: beta'):
        assert words in found


@pytest.mark.parametrize('mean, said', [(0.21, True), (0.36, False)])
def test_dialogues_unlike_the_judged_ones_are_called_so(mean, said):
    card = replace(example_card(), nearness=Nearness(mean, 0.35, 'fed_turn'))
    ranking = ranking_with(PASSES, judge=card)
    assert record_from_json(Ranking, to_json(ranking)) == ranking
    for text in shown(ranking):
        flat = on_one_line(text)
        assert ('look unlike those on which this judge was tried' in flat) is said
        assert ('nearness 0.21, under 0.35' in flat) is said


# A run with two partners: the headline, each cell of the pairs and its interval say
# the same, and of whom they say it.

MADE_UP = 'scorer:made-up|v:1'
FEW = ('asks', 'tells')
SIGNS = np.array([1, -1, 1, -1, -1, 1, -1, 1])
# what an opener and a partner add to the difference to canned, over eight openers
OPENER = {
    'echo': 0.3 * SIGNS,
    'third': 0.4 * np.array([1, 1, -1, -1, 1, 1, -1, -1]) + 0.05 * SIGNS,
}
LEAD = {'echo': 2.23, 'third': 2.23 - 1.46}


def worth(first, second, n):
    """
    Return a score: echo is 2.23 above canned and 1.46 above third; partners change the
    first difference by 0.3 and the second not at all.
    """
    side = 0.3 if second in ('asks', 'p0', 'p2') else -0.3
    hard = 0.1 * n + (second == 'tells')
    if first == 'canned':
        return hard
    return hard + LEAD[first] + side + float(OPENER[first][n])


def ranked_run(folder, partners=FEW, **ranking):
    run = planted_run(
        folder,
        {'made-up': worth},
        ('echo', 'canned', 'third'),
        partners,
        num_openers=8,
        ranking={'bootstraps': 1000, **ranking},
    )
    return run, *ranked_with_details(run)


def ranked_with_details(run, **options):
    ranking = rank_run(run, MADE_UP, **options)
    details = dimension_details(run, ranking, read_tables(run, MADE_UP))
    return ranking, details['Overall']


@pytest.fixture
def two(tmp_path):
    return ranked_run(tmp_path)


def test_interval_bold_and_sentence_of_each_pair_agree(two):
    _, ranking, details = two
    pair = details.pairs['echo', 'canned']
    assert (pair.difference, pair.win_rate) == (pytest.approx(2.23), 1)
    # echo is far ahead of both with these partners, in every dialogue
    assert ranking.separation['Overall'].not_apart == ()
    headline = summary.sentences(ranking)[0]
    assert 'echo comes first of 3 systems' in headline
    assert 'cannot tell' not in headline
    for other in ('canned', 'third'):
        there, back = details.pairs['echo', other], details.pairs[other, 'echo']
        assert there.apart and back.apart
        assert there.difference == -back.difference > 0


def test_two_partners_do_not_speak_for_others(two):
    run, ranking, _ = two
    page = on_one_line(write_report(run, ranking).read_text('utf-8'))
    for text in (on_one_line(terminal_report(ranking)), page):
        assert 'On Overall, with these two partners, echo comes first' in text
        assert 'Two partners cannot speak for others.' in text
    assert '95 % interval for these partners only' in page
    assert ranking.partners == 'fixed'
    for row in ranking.standings['Overall']:
        # nothing is known of other partners, so no interval says something of them
        assert row.low is None and row.low_fixed is not None


def test_no_answer_counts_imported_dialogues_against_each_other(two):
    # which have no openers in common
    run, ranking, _ = two
    for notes, is_there in ((), True), ((IMPORT_NOTE,), False):
        page = write_report(run, replace(ranking, notes=notes)).read_text('utf-8')
        assert ('ahead in 100 % of' in page) == is_there


def test_four_partners_speak_for_others(tmp_path):
    _, ranking, _ = ranked_run(tmp_path, ('p0', 'p1', 'p2', 'p3'))
    assert ranking.partners == 'sampled'
    assert 'partners' not in summary.sentences(ranking)[0].split('.')[0]
    assert all(row.low is not None for row in ranking.standings['Overall'])


def test_cells_are_of_the_resamples_of_the_ranking(tmp_path):
    # ranked again with other resamples, the cells follow, so that they agree
    run, first, before = ranked_run(tmp_path)
    again, after = ranked_with_details(run, bootstraps=57)
    assert again.bootstraps == 57 and first.bootstraps is None
    assert after.pairs['echo', 'canned'].low != before.pairs['echo', 'canned'].low


# The leaderboard as a table in the terminal and in files.

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
