"""
Fleiss' kappa and Krippendorff's alpha against their own examples, nltk and pencil;
random halves by pencil.
"""

import pytest

from parlai_ext.ranking.agreement import (
    agreement_of_halves,
    fleiss_kappa,
    krippendorff_alpha,
    near_median,
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


def test_values_near_their_median_are_kept():
    # the example of Zhao et al.'s program: [1, 2, 1, 5] becomes [1, 2, 1]
    assert near_median([1, 2, 1, 5], 1) == [True, True, True, False]
    # 5 is 3.5 from the median 1.5, a deviation is 1.4826 * 0.5: 4.72 of them
    assert near_median([1, 2, 1, 5], 4.7)[-1] is False
    assert near_median([1, 2, 1, 5], 4.8)[-1] is True
    assert near_median([], 1) == []


def test_two_annotators_are_the_halves():
    # ranks 1 2 3 4 against 1 2 4 3: rho = 1 - 6 * 2 / (4 * 15) = 0.8
    given = {'A': '1 2 3 4', 'B': '1 2 9 3'}
    halves = agreement_of_halves(units(given), {k: k for k in range(4)})
    assert halves.value == pytest.approx(0.8)
    assert (halves.low, halves.high) == (pytest.approx(0.8), pytest.approx(0.8))


def test_means_of_points_are_compared():
    # two units a point: A has means 1.5, 3.5, 5.5 and B 1, 2, 3
    given = {'A': '1 2 3 4 5 6', 'B': '2 0 3 1 4 2'}
    points = {unit: unit // 2 for unit in range(6)}
    assert agreement_of_halves(units(given), points).value == pytest.approx(1.0)


@pytest.mark.parametrize('given', [{'A': '1 2 3'}, {'A': '1 1 1', 'B': '1 2 3'}])
def test_halves_say_why_they_are_not_known(given):
    halves = agreement_of_halves(units(given), {k: k for k in range(3)})
    assert halves.value is None
    assert halves.reason


# Fleiss (1971), table 1: how many of six psychiatrists gave each of five diagnoses
DIAGNOSES = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006
10050 11040 03300 10050 02031 00501 30012 51000 02040 10203
00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""


def from_counts(rows):
    """
    Return annotations in which each row has these numbers of the values 0, 1, ….
    """
    given = {}
    for unit, row in enumerate(rows):
        values = [float(v) for v, n in enumerate(row) for _ in range(int(n))]
        given[unit] = {str(k): value for k, value in enumerate(values)}
    return given


def test_kappa_is_that_of_fleiss_example():
    given = from_counts(DIAGNOSES.split())
    kappa = fleiss_kappa(given)
    assert kappa.value == pytest.approx(0.430, abs=5e-4)
    assert (kappa.num_units, kappa.num_annotators) == (30, 6)
    assert kappa.low < 0.430 < kappa.high


def test_kappa_takes_units_with_different_numbers_of_annotators():
    # agreeing pairs 1/1, 1/3; answers 0: 4 of 5, so chance 0.64 + 0.04
    given = {0: {'A': 0.0, 'B': 0.0}, 1: {'A': 0.0, 'B': 0.0, 'C': 1.0}}
    given[2] = {'A': 1.0}  # one annotation says nothing
    kappa = fleiss_kappa(given)
    assert kappa.value == pytest.approx((2 / 3 - 0.68) / (1 - 0.68))
    assert kappa.num_units == 2


def test_a_group_of_units_is_drawn_as_one():
    given = from_counts(DIAGNOSES.split())
    twice = {(k, unit): one for k in (0, 1) for unit, one in given.items()}
    grouped = fleiss_kappa(twice, {unit: unit[1] for unit in twice})
    single, apart = fleiss_kappa(given), fleiss_kappa(twice)
    assert grouped.high - grouped.low == pytest.approx(single.high - single.low)
    assert apart.high - apart.low < 0.8 * (single.high - single.low)


@pytest.mark.parametrize('measure', [fleiss_kappa, krippendorff_alpha])
@pytest.mark.parametrize(
    'given', [{}, {'A': '1 .', 'B': '. 2'}, {'A': '1'}, {'A': '1 1', 'B': '1 1'}]
)
def test_agreement_needs_two_annotators_of_one_unit_and_two_answers(measure, given):
    found = measure(units(given))
    assert found.value is None
    assert found.reason
