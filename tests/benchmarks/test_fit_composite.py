"""
The fit of composite: its score is the scorer's, and planted terms are found.
"""

import numpy as np
import pytest

from benchmarks.fit_composite import (
    FIT,
    REPORT,
    Example,
    all_weights,
    fitted_weights,
    scales,
    weights_file,
)
from benchmarks.support.perturbed_replies import perturbed_reply, shares_higher
from parlai_ext.files.yaml_file import read_file
from parlai_ext.scoring.composite import TERMS, Term, overall_score, read_weights


def made_up(human=None, kinds=(), n=60, seed=0):
    rng = np.random.default_rng(seed)
    terms = rng.normal(size=(n, len(TERMS)))
    systems = tuple(f's{i % 6}' for i in range(n))
    values = None if human is None else terms[:, human]
    return Example(terms, rng.uniform(size=n) / 9, values, systems, kinds)


def test_overall_is_the_scorers():
    example = made_up()
    scale = {name: Term(0.1 * k, 1 + k, 0.0) for k, name in enumerate(TERMS)}
    weights = (0.2, 0.5, 0.3)
    terms = {
        name: Term(one.centre, one.spread, weight)
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


@pytest.mark.parametrize('planted', range(len(TERMS)))
def test_the_term_that_people_follow_is_found(planted):
    examples = [made_up(planted, seed=seed) for seed in range(3)]
    weights = fitted_weights(examples, scales(examples))
    assert weights.index(max(weights)) == planted
    assert max(weights) >= 0.8


def test_a_corpus_scores_by_how_often_the_reply_is_above_its_copy():
    kinds = ('original', 'generic', 'original', 'generic')
    example = Example(np.zeros((4, 3)), np.zeros(4), kinds=kinds)
    # above once, below once: a share of a half, which is worth nothing
    assert example.score(np.array([1.0, 0.0, 0.0, 1.0])) == pytest.approx(0)


def test_a_tie_counts_half_and_a_missing_score_nothing():
    rows = [{'original': 1.0, 'a': 1.0, 'b': None}, {'original': 1.0, 'a': 0.0}]
    assert shares_higher(rows) == {'a': (0.75, 2)}


def test_the_copies_of_a_reply_share_its_context():
    reply = perturbed_reply(['one two', 'three', 'four five six', 'x'], 2, 'other')
    assert reply.original.context == ('one two', 'three')
    assert {copy.context for copy in reply.copies.values()} == {('one two', 'three')}
    assert reply.copies['repeat_partner'].response == 'three'
    assert reply.copies['repeat_self'].response == 'one two'
    assert reply.copies['other_dialogue'].response == 'other'


def test_no_reported_set_is_fitted():
    assert not set(FIT) & set(REPORT)


def test_what_is_written_is_read(tmp_path):
    scale = {name: Term(-1.5, 2.25, 0.0) for name in TERMS}
    path = tmp_path / 'weights.yaml'
    path.write_text(weights_file(scale, (0.2, 0.6, 0.2)))
    terms = read_weights(read_file(path))
    assert [term.weight for term in terms.values()] == [0.2, 0.6, 0.2]
    assert terms['length'] == Term(-1.5, 2.25, 0.2)
