"""
Games of a tournament on the page: found under either system, with their points.
"""

from collections import Counter
from dataclasses import replace

import pytest

from parlai_ext.core import Dialogue, Score, ScoredDialogue, Utterance
from parlai_ext.report.page import (
    dialogue_candidates,
    read_page_dialogues,
    scored_data,
    turn_marks,
    write_report,
)
from parlai_ext.report.summary import tournament_sentence
from parlai_ext.results.ranking import rank_run, read_tables
from tests.report.test_report_browser import PAYLOADS
from tests.support.report_example import example_ranking, tournament_result
from tests.tournament.test_rank import SCORER, WORTH, played

pytest_plugins = ['tests.support.browser']


def shelf_of(run, ranking):
    found = candidates_of(run, ranking)
    return {
        (one['target'], one['partner']): one['scored'][0]
        for one in read_page_dialogues(run, [ranking], found).dialogues
    }


def ranked(folder, **about):
    run = played(folder, **about)
    return run, rank_run(run, SCORER)


def candidates_of(run, ranking):
    return dialogue_candidates(read_tables(run, SCORER), ranking, run.manifest)


def test_points_of_the_games_add_up_to_the_cross_table(tmp_path):
    run, ranking = ranked(tmp_path)
    shelf, sums = shelf_of(run, ranking), Counter()
    # b has more wit, c more joy
    assert shelf['c', 'b']['won'] == (['joy'], ['wit'])
    for pair, one in shelf.items():
        for names, won in zip((pair, pair[::-1]), one['won'], strict=True):
            sums[names] += len(won)
    table = ranking.tournament.cross_table
    assert sums == {(a, b): table[a][b] for a in table for b in table if a != b}


def test_a_game_is_chosen_by_its_lead(tmp_path):
    # wit alone, the first dimension, would give 3, the mean of a
    found = candidates_of(*ranked(tmp_path))
    [one] = [one for one in found if (one.target, one.partner) == ('a', 'b')]
    assert one.value == 2.0


def test_a_dialogue_is_found_under_its_second_speaker_too(tmp_path, browser):
    browser.open(write_report(*ranked(tmp_path)))
    browser.choose('#filter-target', 'c')
    rows = browser.evaluate(
        '[...document.querySelectorAll("#list button")].map((b) => b.textContent)'
    )
    # a-c and c-a: a wins wit; b-c and c-b: one dimension each
    starts = [row[:4] + row[4:].split('with ')[1][:1] for row in sorted(rows)]
    assert starts == ['a1–0c', 'b1–1c', 'c0–1a', 'c1–1b']


def test_the_leader_sentence_names_the_system_whose_rating_is_near():
    # 1.96 deviations of a difference are 1.96 * sqrt(3² + 4²) = 9.8
    ratings = {'a': 30.0, 'b': 20.3, 'c': 20.1}, {'a': 3.0, 'b': 4.0, 'c': 4.0}
    result = tournament_result(*ratings)
    first, near = tournament_sentence(result, n_openers=3).split('; ')
    for part in ('openskill', ' a ', '3 systems', '30.0 ± 3.0'):
        assert part in first
    assert 'over b is' in near


def test_a_rating_without_deviations_claims_no_lead():
    result = tournament_result({'a': 0.2, 'b': 0.1}, {})
    text = tournament_sentence(result, n_openers=3)
    assert 'comes first' not in text and 'may be chance' in text


# ---- turns that brought a penalty or a bonus, with the earlier turn


LABELS = ('repeats_turn', 'contradicts_turn', 'recalls_turn', 'perplexity')
DIVERSITY = example_ranking(dimensions=('diversity',))
PENALTY = {'diversity': -1.0, 'consistency': 0.0, 'relevance': 0.0}


@pytest.mark.parametrize(
    'scores, evidence, parts',
    [
        (PENALTY, (3, None, None, 9.5), ['repeats turn 3']),
        (
            {'consistency': -1.0, 'relevance': 1.0},
            (None, 2, 5, None),
            ['turn 2', 'turn 5, 4 turns later'],
        ),
        # a turn that does not count is not marked
        ({'diversity': 0.0, 'relevance': 'not counted: repeated'}, (3, None, 5), []),
        (PENALTY, (None, None, None, None), ['empty']),
    ],
)
def test_marks_say_with_what_a_turn_brought_a_penalty_or_a_bonus(
    scores, evidence, parts
):
    marks = [mark['words'] for mark in turn_marks(9, scores, LABELS, evidence)]
    assert len(marks) == len(parts)
    for mark, part in zip(marks, parts, strict=True):
        assert part in mark


def game():
    turns = tuple(Utterance('ab'[i % 2], f'text {i}') for i in range(4))
    values = [(2, 'a', -1.0), (0, 'a', 0), (None, 'a', -1.0), (None, 'b', -4)]
    scores = tuple(Score('d', i, n, 'diversity', value) for i, n, value in values)
    scored = ScoredDialogue('d', scores, {2: (0.0, None, None, 12.5)})
    return Dialogue('d', 'p', 'o', turns), scored


def test_turns_named_by_evidence_are_no_numbers_and_both_sides_have_a_value():
    data = scored_data(*game(), ('a', 'b'), DIVERSITY, LABELS)
    assert data['turns']['2']['evidence'] == [12.5]
    assert [mark['turn'] for mark in data['turns']['2']['marks']] == [0]
    assert (data['whole'], data['whole_partner']) == ([-1.0], [-4.0])
    assert data['won'] is None  # which is of a tournament


def test_a_corpus_named_by_evidence_is_no_number_and_columns_may_be_missing():
    dialogue, scored = game()
    labels = ('numbers', 'nearness', 'nearest_corpus')
    scored = replace(scored, evidence={0: (0.5, 0.25, 3), 2: (0.5,)})
    turns = scored_data(dialogue, scored, ('a', 'b'), DIVERSITY, labels)['turns']
    assert [turns[i]['evidence'] for i in ('0', '2')] == [[0.5, 0.25], [0.5]]


def test_reader_sees_tournament_and_marks(tmp_path, browser):
    run = played(tmp_path / 'run', worth={'diversity': WORTH['wit']})
    name = run.scores(SCORER).root.name
    labels = ['repeats_turn', 'contradicts_turn']
    run.write_json(f'scores/{name}/scorer.json', {'evidence_labels': labels})
    ranking = rank_run(run, SCORER)
    seen = browser.read_all(write_report(run, ranking))
    assert '−1 diversity: repeats turn 0How are you?' in seen
    assert 'Points of each match' in seen and 'turn 2' in seen
    assert 'NaN' not in seen and 'undefined' not in seen


def test_names_in_a_tournament_are_shown_and_never_run(tmp_path, browser):
    names = PAYLOADS[5:8]
    worth = {PAYLOADS[8]: dict(zip(names, (1.0, 2.0, 3.0), strict=True))}
    browser.read_all(write_report(*ranked(tmp_path, names=names, worth=worth)))
    assert not browser.has_run()
    section = browser.evaluate('document.getElementById("tournament").textContent')
    assert all(name in section for name in names)
