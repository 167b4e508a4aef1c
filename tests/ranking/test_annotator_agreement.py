"""
Krippendorff's alpha against his own example, and random halves by pencil.
"""

import pytest

from parlai_ext.ranking.annotator_agreement import (
    agreement_of_halves,
    krippendorff_alpha,
)

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: four
# observers, twelve units; a dot is a missing value
OBSERVERS = {
    'A': '1 2 3 3 2 1 4 1 2 . . .',
    'B': '1 2 3 3 2 2 4 1 2 5 . 3',
    'C': '. 3 3 3 2 3 4 2 2 5 1 .',
    'D': '1 2 3 3 2 4 4 1 2 5 1 .',
}
PUBLISHED = {'nominal': 0.743, 'ordinal': 0.815, 'interval': 0.849, 'ratio': 0.797}


def units(observers):
    by_unit = {}
    for name, row in observers.items():
        for unit, cell in enumerate(row.split()):
            if cell != '.':
                by_unit.setdefault(unit, {})[name] = float(cell)
    return by_unit


@pytest.mark.parametrize('level', PUBLISHED)
def test_alpha_is_that_of_krippendorffs_example(level):
    alpha = krippendorff_alpha(units(OBSERVERS), level)
    assert alpha.value == pytest.approx(PUBLISHED[level], abs=5e-4)
    assert (alpha.num_units, alpha.num_annotators) == (11, 4)


def test_alpha_needs_two_annotators_of_one_unit():
    assert krippendorff_alpha({1: {'A': 1.0}, 2: {'B': 2.0}}).value is None


def test_alpha_of_answers_that_are_all_the_same_is_not_known():
    assert krippendorff_alpha({1: {'A': 1.0, 'B': 1.0}}).value is None


def test_two_annotators_are_the_halves():
    # ranks 1 2 3 4 against 1 2 4 3: rho = 1 - 6 * 2 / (4 * 15) = 0.8
    given = {'A': '1 2 3 4', 'B': '1 2 9 3'}
    halves = agreement_of_halves(units(given), {k: k for k in range(4)}, divisions=5)
    assert halves.value == pytest.approx(0.8)
    assert (halves.low, halves.high) == (pytest.approx(0.8), pytest.approx(0.8))


def test_means_of_points_are_compared():
    # two units a point: A has means 1.5, 3.5, 5.5 and B 1, 2, 3
    given = {'A': '1 2 3 4 5 6', 'B': '2 0 3 1 4 2'}
    points = {unit: unit // 2 for unit in range(6)}
    assert agreement_of_halves(units(given), points, 3).value == pytest.approx(1.0)


@pytest.mark.parametrize('given', [{'A': '1 2 3'}, {'A': '1 1 1', 'B': '1 2 3'}])
def test_halves_say_why_they_are_not_known(given):
    halves = agreement_of_halves(units(given), {k: k for k in range(3)})
    assert halves.value is None
    assert halves.reason
