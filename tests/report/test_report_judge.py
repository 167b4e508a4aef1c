"""
What a judge's check does to the headline, and the card of a judge.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from parlai_ext.core.records import record_from_json
from parlai_ext.judge_check.record import HumanAnchor, PromptProbes
from parlai_ext.report import judge
from parlai_ext.report.page import PageDialogues, render_rankings
from parlai_ext.report.summary import sentences, warnings
from parlai_ext.report.table import file_table, leaderboard_csv, terminal_report
from parlai_ext.report.view import RankingView
from parlai_ext.results.ranking import JudgeCard, Nearness, Ranking, to_json
from parlai_ext.store import RunFolder
from tests.support.check_example import FAILS, PASSES, WEAK, example_card, example_check
from tests.support.report_example import agreement, example_ranking
from tests.support.store_samples import sample_manifest
from tests.support.written import on_one_line, rows_of_csv

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
