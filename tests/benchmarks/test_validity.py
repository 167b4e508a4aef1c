"""
The rules by which docs/validity.md says what a scorer may be trusted for.
"""

from dataclasses import replace

import pytest

from benchmarks.validity.__main__ import labelled_variant, spoilt_check, stored_text
from benchmarks.validity.document import published_lines
from benchmarks.validity.sets import (
    SPOILT,
    chatmatch_games,
    chatmatch_whole_games,
)
from benchmarks.validity.trust import TrustFacts, trust_sentence
from parlai_ext.bench.agreement_rows import AgreementRow
from parlai_ext.bench.bench_files import Bench, ScorerAbout, SetAbout
from parlai_ext.bench.plan import Variant, bench_plan
from parlai_ext.bench.score_sets import ScorerResult, SetScores
from parlai_ext.data.judged.judged_set import JudgedItem, JudgedSet
from parlai_ext.files.agreement_file import read_agreement
from parlai_ext.judge_check.marks import dimension_check
from parlai_ext.judge_check.record import FAIL, PASS
from parlai_ext.ranking.agreement import Correlation
from tests.support.chatmatch_samples import DATA, needs_games

SCORER = ScorerAbout('mine', 'mine', 'a', 'turn', ('Overall',), False)


def row(value, low, level='turn'):
    """
    Return the row of a set.
    """
    correlations = {'spearman': Correlation(value, 10, None, low, 1.0)}
    about = ('mine', 'a set', level, 'Overall', 'Overall')
    return AgreementRow(*about, True, True, 10, 0, correlations)


def facts(turn=(), system=(), beats=True, trivial=0.2, outcome=PASS):
    """
    Return facts of rows given as value and low end.
    """
    check = replace(dimension_check('Overall', []), outcome=outcome, reasons=('bad',))
    rows = [[row(*one) for one in of_level] for of_level in (turn, system)]
    return TrustFacts(SCORER, check, *rows, beats, trivial)


GOOD = ((0.4, 0.2), (0.3, 0.1))
ORDER = ((0.8, 0.1), (0.6, -0.2))


@pytest.mark.parametrize(
    ('one', 'begins'),
    [
        (facts(GOOD, ORDER), 'For the order of systems, and for means'),
        (facts(GOOD, ((0.3, 0.1),)), 'For means over many responses, not'),
        (facts(((0.1, -0.1),), ORDER), 'For the order of systems, not'),
        (facts(GOOD, ORDER, outcome=FAIL), 'Not to be trusted'),
        # no better than trivial scorers on turns, and on systems
        (facts(GOOD, ((0.3, 0.1),), beats=False), 'For nothing'),
        (facts((), ORDER, beats=None, trivial=0.9), 'For nothing'),
        # intervals that hold 0 on most sets
        (facts(((0.4, -0.1), (0.4, -0.1), (0.4, 0.1)), ()), 'For nothing'),
    ],
)
def test_the_rules(one, begins):
    assert trust_sentence(one).startswith(begins)


def test_a_trivial_scorer_is_for_nothing():
    one = replace(facts(GOOD, ORDER), scorer=replace(SCORER, is_trivial=True))
    assert trust_sentence(one).startswith('For nothing by itself')


def test_a_scorer_without_any_score_says_why():
    one = replace(facts(), reason_for_nothing='no classifier is named')
    sentence = trust_sentence(one)
    assert sentence.startswith('Not measured') and 'no classifier' in sentence
    assert trust_sentence(facts()).startswith('Not measured')


def test_spoilt_replies_are_held_against_their_own_original():
    # ten replies; shuffled copies score below their originals, generic ones above
    kinds = {'original': 1.0, 'shuffled_words': 0.5, 'generic': 2.0}
    items = [
        JudgedItem(f'ED,{k},{kind}', ('hi',), kind, 'person', {})
        for k in range(10)
        for kind in kinds
    ]
    values = [{'Overall': k + v} for k in range(10) for v in kinds.values()]
    result = ScorerResult(Variant('mine', {}), 'a', ('Overall',))
    result.sets[SPOILT] = SetScores(values)
    check = spoilt_check(result, JudgedSet(SPOILT, '', '', '', 'turn', tuple(items)))
    assert {one.kind: one.share for one in check.kinds} == {
        'shuffled_words': 1.0,
        'generic': 0.0,
    }


def test_a_scorer_of_dialogues_is_not_checked_on_replies_and_says_why():
    items = [JudgedItem('ED,0,original', ('hi',), 'hi', 'person', {})]
    result = ScorerResult(Variant('mine', {}), 'a', ('Overall',))
    result.sets[SPOILT] = SetScores([{'Overall': None}], {'Overall: no game': 1})
    spoilt = JudgedSet(SPOILT, '', '', '', 'turn', tuple(items))
    assert spoilt_check(result, spoilt) == 'Overall: no game'


@needs_games
def test_whole_games_have_both_sides_and_each_bot_the_rank_of_its_turns():
    pytest.importorskip('openpyxl')
    whole, apart = (
        read(DATA.parent) for read in (chatmatch_whole_games, chatmatch_games)
    )
    assert len(whole.items) == 84  # 42 games
    ranks = {item.system: item.human('Overall') for item in apart.items}
    for item in whole.items:
        assert item.system in item.speakers
        assert len(item.speakers) == len(item.utterances)
        assert item.human('Overall') == ranks[item.system]


def test_the_shipped_bench_file_can_be_read():
    plan = bench_plan([], [], 'validity')
    labels = [one.label for one in plan.variants]
    assert {'FED, chat', 'ChatMatch', 'BERTScore'} <= set(labels)
    named = {name for one in plan.variants for name in one.sets}
    assert named <= {choice.name for choice in plan.sets}


def test_dimensions_of_one_scorer_are_stored_under_its_signature(tmp_path):
    scorers = tuple(
        replace(SCORER, label=f'mine, {name}', dimensions=(name,))
        for name in ('Fluency', 'Diversity')
    )
    about = ('a set', '', '', '', 'turn', 'dialogue', 'Overall', ('Overall',))
    rows = tuple(replace(row(0.5, 0.1), scorer=one.label) for one in scorers)
    bench = Bench(scorers, (SetAbout(*about, 375, 60, 20, 3),), rows, 0, 10)
    path = tmp_path / 'stored.yaml'
    path.write_text(stored_text(bench), encoding='utf-8')
    [(signature, stored)] = read_agreement(path).items()
    assert signature == SCORER.signature
    assert [one.dimension for one in stored] == ['Fluency', 'Diversity']


def test_published_figures_stand_beside_ours():
    about = ('fed_turn', '', '', '', 'turn', 'dialogue', 'Overall', ('Overall',))
    bench = Bench((SCORER,), (SetAbout(*about, 375, 60, 20, 3),), (), 0, 10)
    text = '\n'.join(published_lines(bench))
    # PairEval's Table 1, DialEvalMetrics' FED, and the overview of DSTC12's Track 1
    assert '| PairEval, Llama-2-7b-chat | turn | 0.52 |' in text
    assert '| FED, DialoGPT-large | turn | 0.10 | DialEvalMetrics' in text
    assert 'DSTC12' in text and ' 0.168 ' in text


def test_a_label_may_be_given_to_a_scorer():
    one = labelled_variant('Mine, twice=likelihood:less=no_context')
    assert one.label == 'Mine, twice'
    assert one.section == {'name': 'likelihood', 'less': 'no_context'}


def test_an_added_scorer_may_have_fewer_items():
    one = labelled_variant('Mine=likelihood:less=no_context:max_items=20')
    assert one.section == {'name': 'likelihood', 'less': 'no_context'}
    assert one.max_items == 20
