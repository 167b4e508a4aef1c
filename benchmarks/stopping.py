"""
Test how often runs that stop when settled decide wrongly, and what they save.

    python -m benchmarks.stopping [--runs 1000]

Simulates runs with known true scores that look after every 20 openers, 600 at most
(``--openers``), and prints the tables of docs/stopping_method.md. A stop is wrong
if any pair is declared in the wrong order, or tied though it differs by more than the
margin; with equal true scores either order is wrong. Beside it: how often a t test for
all pairs at each look, as if it were the only one, declares a wrong order.

A system's score in a dialogue is its true score and effects of the opener and of the
dialogue, whose variances are those measured in a run of ``real_demo`` (the judge
``composite``). The effects are normal, have heavy tails (Student's t with 3 degrees of
freedom) or are skewed (exponential). ``extreme`` is there to break it: half of the
systems have log-normal effects, the others hardly any.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from benchmarks.support.measures import print_head, print_row, start
from parlai_ext.ranking.intervals import Floats
from parlai_ext.ranking.stopping_rule import (
    ERROR,
    ORDER,
    TIE,
    PairOutcome,
    settle_pairs,
)

BLOCK, PLANNED = 20, 600
# variances of the difference of two systems in a dialogue, medians over the pairs of a
# run of real_demo, and its number of partners
OPENER, DIALOGUE, N_PARTNERS = 0.055, 0.040, 2
# the standard deviation of the difference of two systems on one opener
SPREAD = float(np.sqrt(OPENER + DIALOGUE / N_PARTNERS))
# true scores in units of the spread, and the margin in the same units
LADDERS: dict[str, tuple[Sequence[float], float]] = {
    'ladder of real_demo': ((2.68, 2.16, 0.17, -0.90, -2.26), 0.3),
    'ladder, steps of 0.5': ((0, 0.5, 1, 1.5, 2), 0.3),
    'ladder, steps of 0.35': ((0, 0.35, 0.7, 1.05, 1.4), 0.3),
    'ladder with two near-ties': ((0, 0.05, 0.8, 0.8, 1.6), 0.3),
    'just beyond the margin': ((0, 0.31, 0.62), 0.3),
    'all nearly equal': ((0, 0.02, 0.04, 0.06, 0.08), 0.3),
    'all equal': ((0, 0, 0, 0, 0), 0.3),
    'eleven, steps of 0.4': (tuple(0.4 * k for k in range(11)), 0.3),
}


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """
    Return normal effects of mean 0 and variance 1, as all of these do.
    """
    return rng.normal(size=shape)


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """
    Return effects with heavy tails: Student's t with 3 degrees of freedom.
    """
    return rng.standard_t(3, size=shape) / np.sqrt(3)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """
    Return skewed effects: exponential for every other system, their mirror image for
    the others, so that differences are skewed, too.
    """
    effects = rng.exponential(size=shape) - 1
    effects[1::2] *= -1
    return effects


def extreme(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """
    Return log-normal effects for every other system, and hardly any for the others.
    """
    effects = 0.1 * rng.normal(size=shape)
    drawn = rng.lognormal(size=effects[::2].shape) - np.exp(0.5)
    effects[::2] = np.sqrt(2 / (np.e * (np.e - 1))) * drawn
    return effects


SHAPES = {'normal': normal, 'heavy': heavy, 'skewed': skewed, 'extreme': extreme}
Draw = Callable[[np.random.Generator, int], Floats]


def drawn_scores(true_scores: Sequence[float], shape: str) -> Draw:
    """
    Return a function that draws ``[system, opener]`` scores over all partners.
    """
    means = np.asarray(true_scores, np.float64)[:, None]
    effects = SHAPES[shape]

    def draw(rng: np.random.Generator, n_openers: int) -> Floats:
        size = (len(means), n_openers)
        of_opener = np.sqrt(OPENER / 2) * effects(rng, size)
        single = effects(rng, (*size, N_PARTNERS)).mean(axis=2)
        return means + of_opener + np.sqrt(DIALOGUE / 2) * single

    return draw


@dataclass(frozen=True)
class Outcome:
    """
    Shares of simulated runs that decided wrongly and that ended settled, the share of
    pairs that were settled, the openers that the runs took, and how often tests at each
    look declared a wrong order.
    """

    wrong: float
    settled: float
    pairs: float
    openers: float
    wrong_by_tests: float

    def cells(self, planned: int) -> list[str]:
        """
        Return the cells of a table; the openers that were saved are of those planned.
        """
        saved = 1 - self.openers / planned
        shares = [f'{share:.0%}' for share in (self.settled, self.pairs)]
        tests = [f'{saved:.0%}', f'{self.wrong_by_tests:.0%}']
        return [f'{self.wrong:.1%}', *shares, f'{self.openers:.0f}', *tests]


def simulate(
    draw: Draw,
    true_scores: Sequence[float],
    margin: float,
    *,
    n_runs: int,
    planned: int,
) -> Outcome:
    """
    Return what comes of runs with these true scores.
    """
    rng = np.random.default_rng([0, 15])
    names = [str(k) for k in range(len(true_scores))]
    looks = list(range(BLOCK, planned + 1, BLOCK))
    wrong, settled, settled_pairs, openers, by_tests = 0, 0, 0.0, 0, 0
    for _ in range(n_runs):
        scores = draw(rng, planned)
        by_look, _ = settle_pairs(scores, names, looks, margin)
        last = next((one for one in by_look if one.n_open == 0), by_look[-1])
        # what was decided by then, later openers unseen
        seen = [n for n in looks if n <= last.n_openers]
        _, pairs = settle_pairs(scores, names, seen, margin)
        wrong += any(is_wrong(pair, true_scores, margin) for pair in pairs)
        settled += last.n_open == 0
        settled_pairs += 1 - last.n_open / len(pairs)
        openers += last.n_openers
        by_tests += tests_are_wrong(scores, looks, true_scores)
    sums = (wrong, settled, settled_pairs, openers, by_tests)
    return Outcome(*(total / n_runs for total in sums))


def simulate_ladder(
    ladder: str, shape: str, n_runs: int, planned: int = PLANNED
) -> Outcome:
    """
    Return what comes of runs with the true scores of a ladder.
    """
    steps, margin = LADDERS[ladder]
    true_scores = [SPREAD * step for step in steps]
    draw = drawn_scores(true_scores, shape)
    margin *= SPREAD
    return simulate(draw, true_scores, margin, n_runs=n_runs, planned=planned)


def is_wrong(pair: PairOutcome, true_scores: Sequence[float], margin: float) -> bool:
    """
    True if a pair is settled in another way than its true scores say.
    """
    difference = true_scores[int(pair.first)] - true_scores[int(pair.second)]
    if pair.outcome == TIE:
        return abs(difference) > margin
    return pair.outcome == ORDER and difference <= 0


def tests_are_wrong(
    scores: Floats, looks: Sequence[int], true_scores: Sequence[float]
) -> bool:
    """
    True if t tests at each look, Bonferroni over pairs, declare a wrong order.
    """
    pairs = list(combinations(range(len(scores)), 2))
    n = np.asarray(looks)
    bound = stats.t.isf(ERROR / len(pairs) / 2, n - 1)
    for i, j in pairs:
        x = scores[i] - scores[j]
        mean = x.cumsum()[n - 1] / n
        variance = ((x**2).cumsum()[n - 1] - n * mean**2) / (n - 1)
        claims = np.sign(mean) * (np.abs(mean) > bound * np.sqrt(variance / n))
        if (claims * (true_scores[i] - true_scores[j]) < 0).any():
            return True
        if true_scores[i] == true_scores[j] and claims.any():
            return True
    return False


def main(args: argparse.Namespace) -> None:
    heads = ('true scores', 'effects', 'wrong', 'settled', 'pairs settled', 'openers')
    print_head(*heads, 'saved', 't tests wrong')
    for shape in SHAPES:
        for name in LADDERS:
            outcome = simulate_ladder(name, shape, args.runs, args.openers)
            print_row(name, shape, *outcome.cells(args.openers))


if __name__ == '__main__':
    start(main, __doc__, runs=1000, openers=PLANNED)
