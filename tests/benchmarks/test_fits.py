"""
The fits of composite and of the learned judge find what is planted.
"""

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks.fit_composite import (
    FIT,
    REPORT,
    Example,
    all_weights,
    fitted_weights,
    scales,
    weights_file,
)
from benchmarks.learned_judge.corpora import (
    FALSE_ALARMS,
    TriedCorpus,
    chosen_threshold,
    left_out,
    other_texts,
)
from benchmarks.learned_judge.judge_weights import Labelled, WorsePairs, learn_weights
from benchmarks.support.perturbed_replies import share_higher, with_copies
from parlai_ext.core.records import read_record
from parlai_ext.files import read_file
from parlai_ext.judge_check.perturbations import SPOILT
from parlai_ext.scoring.learned import (
    TERMS,
    CompositeWeights,
    JudgeWeights,
    Scale,
    Term,
    overall_score,
)
from parlai_ext.training.fit_judge import rank_labels
from tests.training.test_fit_judge import SIZES


def inputs(rng, n):
    return {name: rng.normal(size=(n, size)) for name, size in SIZES.items()}


def made_up(human=None, seed=0):
    rng = np.random.default_rng(seed)
    terms = rng.normal(size=(60, len(TERMS)))
    systems = [f's{i % 6}' for i in range(60)]
    values = None if human is None else terms[:, human]
    return Example(terms, rng.uniform(size=60) / 9, values, systems)


def test_overall_is_the_scorers():
    example = made_up()
    scale = {name: Scale(centre=0.1 * k, spread=1 + k) for k, name in enumerate(TERMS)}
    weights = (0.2, 0.5, 0.3)
    terms = {
        name: Term(centre=one.centre, spread=one.spread, weight=weight)
        for (name, one), weight in zip(scale.items(), weights, strict=True)
    }
    expected = [
        overall_score(terms, dict(zip(TERMS, row, strict=True)), repeated)
        for row, repeated in zip(example.terms, example.repeated, strict=True)
    ]
    assert example.overall(scale, weights) == pytest.approx(expected)


def test_all_weights_in_tenths():
    # ten tenths on three terms: 12 over 2
    weights = list(all_weights(3))
    assert len(set(weights)) == len(weights) == 66
    assert all(sum(one) == pytest.approx(1) for one in weights)


def test_the_term_that_people_follow_is_found():
    examples = [made_up(2, seed=seed) for seed in range(3)]
    weights = fitted_weights(examples, scales(examples))
    assert weights[2] >= 0.8


def test_a_corpus_scores_by_how_often_the_reply_is_above_its_copy():
    kinds = ('original', 'generic', 'original', 'generic')
    example = Example(np.zeros((4, 3)), np.zeros(4), kinds=kinds)
    # above once, below once: a share of a half, which is worth nothing
    assert example.score(np.array([1.0, 0.0, 0.0, 1.0])) == pytest.approx(0)


def test_a_tie_counts_half():
    assert share_higher(np.ones(2), np.array([1.0, 0.0])) == 0.75


def test_the_copies_of_a_reply_share_its_context():
    texts = ['one two', 'three', 'four five six', 'x']
    reply = with_copies(texts, 2, 'other', SPOILT)
    assert {one.context for one in reply.values()} == {('one two', 'three')}
    assert next(iter(reply.values())).response == 'four five six'
    assert reply['repeat_partner'].response == 'three'
    assert reply['repeat_self'].response == 'one two'
    assert reply['other_dialogue'].response == 'other'


def test_no_reported_set_is_fitted():
    assert not set(FIT) & set(REPORT)


def test_what_is_written_is_read(tmp_path):
    scale = {name: Scale(centre=-1.5, spread=2.25) for name in TERMS}
    path = tmp_path / 'weights.yaml'
    path.write_text(weights_file(scale, (0.2, 0.6, 0.2)))
    terms = read_record(CompositeWeights, read_file(path).data).terms
    assert [term.weight for term in terms.values()] == [0.2, 0.6, 0.2]
    assert terms['length'] == Term(centre=-1.5, spread=2.25, weight=0.2)


def test_judges_are_learned_from_people_and_from_pairs():
    rng = np.random.default_rng(2)
    sets = []
    for _ in range(3):
        found = inputs(rng, 150)
        human = found['numbers'][:, 0] + found['states'][:, 1]
        sets.append(Labelled(found, rank_labels(human + rng.normal(size=150))))
    better, worse = inputs(rng, 80), inputs(rng, 80)
    worse['numbers'][:, 5] += 3  # a fault that no judged response has
    blocks, bias = learn_weights(sets, [WorsePairs(better, worse)])
    judge = JudgeWeights(blocks, bias, '', {})
    scores = [judge.parts(one.inputs).sum(1) + bias for one in sets]
    for one, values in zip(sets, scores, strict=True):
        assert spearmanr(values, one.labels).statistic > 0.5
    assert np.concatenate(scores).mean() == pytest.approx(0, abs=0.01)
    alone = JudgeWeights(*learn_weights(sets, []), '', {})
    above, above_alone = (
        (one.parts(better).sum(1) > one.parts(worse).sum(1)).mean()
        for one in (judge, alone)
    )
    assert above > above_alone + 0.1


EAST, NORTH = np.eye(2, dtype=np.float32)


def test_a_corpus_leaves_with_all_that_share_it():
    # usr_persona is over ConvAI2, too; jsalt shares nothing with either
    between = 0.6 * EAST + 0.8 * NORTH
    places = {'grade_convai2': EAST, 'usr_persona': EAST, 'jsalt': between}
    noise = np.random.default_rng(0).normal(0, 1e-3, (8, 2))
    found = left_out({name: one + noise for name, one in places.items()})
    nearness = {one.name: one.nearness.mean() for one in found}
    assert nearness == pytest.approx(dict.fromkeys(places, 0.6), abs=0.01)
    assert [one.nearest for one in found][:2] == ['jsalt', 'jsalt']


def test_the_threshold_flags_the_allowed_share_of_runs():
    rng = np.random.default_rng(0)
    tried = [TriedCorpus('a', rng.normal(m, 0.1, 150), '') for m in (0.4, 0.5)]
    flagged = [one.flagged(chosen_threshold(tried)) for one in tried]
    # rounded to 0.01, of a spread of 0.1 / sqrt(30) = 0.018
    assert np.mean(flagged) == pytest.approx(FALSE_ALARMS, abs=0.08)
    assert flagged[1] == 0


def test_a_line_of_other_texts_answers_the_line_before_it():
    for kinds in other_texts().values():
        for items in kinds.values():
            assert len(items) == 15  # of 16 lines
            assert items[1].context == (items[0].response,)
