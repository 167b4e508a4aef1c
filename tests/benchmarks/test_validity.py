"""
The rules by which docs/validity.md says what a scorer may be trusted for.
"""

import json
import runpy
from dataclasses import replace

import pytest

from benchmarks.support.agreement_text import agreement_text
from benchmarks.validity import __main__ as validity
from benchmarks.validity.__main__ import (
    kept_scorers,
    labelled_variant,
    spoilt_check,
    stored_text,
)
from benchmarks.validity.document import (
    check_table,
    cpu_seconds,
    published_table,
)
from benchmarks.validity.figures import LEARNED
from benchmarks.validity.sets import (
    SPOILT,
    chatmatch_games,
    chatmatch_whole_games,
)
from benchmarks.validity.trust import (
    CheckOutcome,
    Measured,
    TrustFacts,
    mean_interval,
    trust_facts,
    trust_sentence,
)
from parlai_ext.bench.bench_files import ScorerAbout, ScorerResult, SetScores
from parlai_ext.bench.compare import BenchComparison
from parlai_ext.bench.run_bench import bench_plan
from parlai_ext.data.judged import JudgedItem, JudgedSet
from parlai_ext.files.agreement_file import (
    MeasuredAgreement,
    read_agreement,
)
from parlai_ext.judge_check.record import FAIL, PASS
from tests.support.chatmatch_samples import DATA, needs_games

NO_TESTS = BenchComparison('Overall', (), (), (), {}, ())
PASSED = CheckOutcome(PASS)


def rows(level, *values):
    """
    Return rows of sets a, b, … given as values, or as pairs of value and low end.
    """
    pairs = [one if isinstance(one, tuple) else (one, one - 0.1) for one in values]
    return tuple(
        MeasuredAgreement(name, level, 'Overall', 10, 20, value, low, 1.0)
        for name, (value, low) in zip('abcdefgh', pairs, strict=False)
    )


def measured(label, turn=(), system=(), **about):
    """
    Return what was measured of a scorer.
    """
    about = {'check': PASSED, **about}
    return Measured(
        label, label, (*rows('turn', *turn), *rows('system', *system)), **about
    )


def facts(turn, system, beats=True, trivial=0.2, outcome=PASS, **about):
    one = measured('mine', turn, system, check=CheckOutcome(outcome, 'bad'), **about)
    of_level = (one.counted('turn', ()), one.counted('system', ()))
    return TrustFacts(one, *of_level, beats, trivial)


GOOD = ((0.4, 0.2), (0.3, 0.1))
ORDER = ((0.8, 0.1), (0.6, -0.2))


@pytest.mark.parametrize(
    'one, begins',
    [
        (facts(GOOD, ORDER), 'for the order of systems, and for means'),
        (facts(GOOD, ((0.3, 0.1),)), 'for means over many responses, not'),
        (facts(((0.1, -0.1),), ORDER), 'for the order of systems, not'),
        (facts(GOOD, ORDER, outcome=FAIL), 'not to be trusted'),
        # no better than trivial scorers on turns, and on systems
        (facts(GOOD, ((0.3, 0.1),), beats=False), 'for nothing'),
        (facts((), ORDER, beats=None, trivial=0.9), 'for nothing'),
        # intervals that hold 0 on most sets
        (facts(((0.4, -0.1), (0.4, -0.1), (0.4, 0.1)), ()), 'for nothing'),
        (facts(GOOD, ORDER, is_trivial=True), 'for nothing by itself'),
    ],
)
def test_the_rules(one, begins):
    assert trust_sentence(one).startswith(begins)


def test_a_scorer_without_any_score_says_why():
    one = measured('mine', check=CheckOutcome('', 'no classifier is named'))
    sentence = trust_sentence(TrustFacts(one, (), (), None, None))
    assert sentence.startswith('not measured') and 'no classifier' in sentence


def test_a_mean_over_sets_has_an_interval_over_sets():
    # spread 0.2, Student's 97.5 % point with 2 degrees is 4.3027:
    # 4.3027 * 0.2 / sqrt(3) = 0.4968
    found = mean_interval(rows('turn', 0.2, 0.4, 0.6))
    assert found == pytest.approx((0.4, 0.4 - 0.4968, 0.4 + 0.4968), abs=1e-4)
    # one set has no spread: its own interval
    assert mean_interval(rows('turn', (0.2, 0.1))) == (0.2, 0.1, 1.0)


@pytest.mark.parametrize(
    'turn, beats',
    [
        # above the trivial scorer by 0.30, 0.32, 0.31 and 0.30
        ((0.40, 0.52, 0.61, 0.70), True),
        # above by 0.9, 0, 0 and -0.3
        ((1.0, 0.2, 0.3, 0.1), False),
        ((0.4,), None),
    ],
)
def test_without_items_scorers_are_compared_over_sets(turn, beats):
    trivial = measured('length', (0.1, 0.2, 0.3, 0.4), is_trivial=True)
    one = measured('mine', turn)
    assert trust_facts([one, trivial], one, NO_TESTS, ()).beats_trivial is beats


def test_sets_on_which_it_was_fitted_do_not_count():
    one = measured('mine', (0.9, 0.1))
    fitted = replace(one.rows[0], fitted=True)
    one = replace(one, rows=(fitted, *one.rows[1:]))
    assert [row.spearman for row in one.counted('turn', ())] == [0.1]
    assert one.counted('turn', ['b']) == []


MINE = ScorerAbout('mine', 'mine', 'a', dimensions=('Overall',))


def checked(kinds, n, *scores):
    """
    Return the check of a scorer with these scores on so many replies and their copies.
    """
    items = [
        JudgedItem(f'ED,{k},{kind}', ('hi',), kind, 'person', {})
        for k in range(n)
        for kind in kinds
    ]
    result = ScorerResult(MINE)
    result.sets[SPOILT] = SetScores(*scores)
    return spoilt_check(result, JudgedSet(SPOILT, '', '', '', 'turn', tuple(items)))


def test_spoilt_replies_are_held_against_their_own_original():
    # shuffled copies score below their originals, generic ones above
    kinds = {'original': 1.0, 'shuffled_words': 0.5, 'generic': 2.0}
    values = [{'Overall': k + v} for k in range(10) for v in kinds.values()]
    shares = {one.kind: one.share for one in checked(kinds, 10, values).kinds}
    assert shares == {'shuffled_words': 1.0, 'generic': 0.0}


def test_a_scorer_of_dialogues_is_not_checked_on_replies_and_says_why():
    reasons = {'Overall: no game': 1}
    found = checked(['original'], 1, [{'Overall': None}], reasons)
    assert found == 'Overall: no game'


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
    assert named <= plan.sets.keys()


def test_dimensions_of_one_scorer_are_stored_under_its_signature(tmp_path):
    scorers = [
        replace(one, signature='s', rows=(replace(one.rows[0], dimension=one.label),))
        for one in (measured('Fluency', (0.5,)), measured('Diversity', (0.5,)))
    ]
    path = tmp_path / 'stored.yaml'
    path.write_text(stored_text(scorers), encoding='utf-8')
    [(signature, stored)] = read_agreement(path).items()
    assert signature == 's'
    assert [one.dimension for one in stored] == ['Fluency', 'Diversity']


def test_what_was_learned_from_the_sets_is_not_stored_twice(tmp_path):
    [signature] = read_agreement(LEARNED)
    one = replace(measured('learned', (0.5,)), signature=signature)
    assert 'rows' not in stored_text([one])


def test_a_scorer_that_is_left_out_keeps_the_rows_of_its_signature(
    tmp_path, monkeypatch
):
    known = {'scorer:length': rows('turn', 0.1, 0.2), 'old': rows('turn', 0.9)}
    texts = [('length', 'scorer:length', known['scorer:length'])]
    texts += [('repetition', 'old', known['old']), ('trained', 't', rows('turn', 0.3))]
    stored = tmp_path / 'stored.yaml'
    stored.write_text(agreement_text('', texts), encoding='utf-8')
    monkeypatch.setattr(validity, 'STORED', stored)
    monkeypatch.setattr(validity, 'measured_agreement', lambda s: known.get(s, ()))
    bench = tmp_path / 'bench.yaml'
    bench.write_text('scorers: {length: {name: length}}\nsets: {fed_turn: {}}\n')
    check = tmp_path / 'check.csv'
    checked = measured('length')
    check.write_text(check_table([replace(checked, signature='scorer:length')]))
    kept = kept_scorers([measured('distinct'), measured('overlap')], str(bench), check)
    # repetition has another signature now; "trained" is in no bench file
    assert [one.label for one in kept] == ['length', 'trained']
    assert [row.spearman for row in kept[0].rows] == [0.1, 0.2]
    assert all(one.is_kept for one in kept)
    assert [one.check for one in kept] == [PASSED, None]


def test_costs_are_found_by_what_decides_them(tmp_path):
    path = tmp_path / 'cost.json'
    speeds = [('fed', 4.0), ('fed:polarity=positive', 2.0), ('usr', None)]
    rows = [{'scorer': name, 'per_second': value} for name, value in speeds]
    path.write_text(json.dumps({'speeds': rows}))
    sections = {
        'FED, complaints': {'name': 'fed', 'judge_model_file': 'm'},
        'FED, praise': {'name': 'fed', 'judge_model_file': 'm', 'polarity': 'positive'},
        'USR': {'name': 'usr'},
    }
    found = cpu_seconds(path, sections)
    assert found == {'FED, complaints': 0.25, 'FED, praise': 0.5}


def test_published_figures_are_in_a_table():
    text = published_table(['fed_turn'])
    # PairEval's Table 1, DialEvalMetrics' FED, and the overview of DSTC12's Track 1
    assert '"PairEval, Llama-2-7b-chat",turn,fed_turn,0.52' in text
    assert '"FED, DialoGPT-large",turn,fed_turn,0.095,DialEvalMetrics' in text
    assert 'DSTC12' in text and ',0.168,' in text


@pytest.mark.parametrize('more, max_items', [('', None), (':max_items=20', 20)])
def test_an_added_scorer_has_a_label_and_may_have_fewer_items(more, max_items):
    one = labelled_variant(f'Mine, twice=likelihood:less=no_context{more}')
    assert (one.label, one.max_items) == ('Mine, twice', max_items)
    assert one.section == {'name': 'likelihood', 'less': 'no_context'}


@needs_games
def test_the_program_measures_a_scorer_on_a_set(tmp_path, monkeypatch, printed):
    words = f'validity --data {DATA.parent} --out {tmp_path} --score-only '
    words += '--scorers length --sets fed_turn --replies 4 --bootstraps 20'
    monkeypatch.setattr('sys.argv', words.split())
    runpy.run_module('benchmarks.validity', run_name='__main__', alter_sys=True)
    assert 'length              0.12' in printed()
