"""
A run with two partners: the headline, each cell of the pairs and its interval say the
same, and of whom they say it.
"""

from dataclasses import replace

import numpy as np
import pytest

from parlai_ext.report import summary
from parlai_ext.report.page import write_report
from parlai_ext.report.table import terminal_report
from parlai_ext.report.view import dimension_details
from parlai_ext.results.ranking import IMPORT_NOTE, rank_run, read_tables
from tests.support.planted_run import planted_run
from tests.support.written import on_one_line

SCORER = 'scorer:made-up|v:1'
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


def ranked(folder, partners=FEW, **ranking):
    run = planted_run(
        folder,
        {'made-up': worth},
        ('echo', 'canned', 'third'),
        partners,
        num_openers=8,
        ranking={'bootstraps': 1000, **ranking},
    )
    return run, *ranked_again(run)


def ranked_again(run, **options):
    ranking = rank_run(run, SCORER, **options)
    details = dimension_details(run, ranking, read_tables(run, SCORER))
    return ranking, details['Overall']


@pytest.fixture
def two(tmp_path):
    return ranked(tmp_path)


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
    _, ranking, _ = ranked(tmp_path, ('p0', 'p1', 'p2', 'p3'))
    assert ranking.partners == 'sampled'
    assert 'partners' not in summary.sentences(ranking)[0].split('.')[0]
    assert all(row.low is not None for row in ranking.standings['Overall'])


def test_cells_are_of_the_resamples_of_the_ranking(tmp_path):
    # ranked again with other resamples, the cells follow, so that they agree
    run, first, before = ranked(tmp_path)
    again, after = ranked_again(run, bootstraps=57)
    assert again.bootstraps == 57 and first.bootstraps is None
    assert after.pairs['echo', 'canned'].low != before.pairs['echo', 'canned'].low
