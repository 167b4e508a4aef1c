"""
Answer three questions about numbers of dialogues, pairing schemes and openers.

    python -m benchmarks.open_questions stable  RUN [RUN …]
    python -m benchmarks.open_questions openers RUN RUN [RUN …]
    python -m benchmarks.open_questions schemes --config real_demo --runs FOLDER

``stable``: how many dialogues of a pair until the ranks are stable? Openers of scored
runs are drawn anew; how often does the order of the means over ``n`` openers equal that
over all? Several runs of one protocol over other openers count as one.

``openers``: does the ranking depend on openers? Each run is one set of openers; their
orders are compared, and the variance of a score is divided into parts.

``schemes``: do self-play, all-play-all and bipartite-play agree? Plays and scores the
protocol in each of them over the same openers, compares the scores of the targets, and
says how many dialogues each scheme needs to order neighbours. A run that was begun goes
on.

What is observed counts as the truth from which openers are drawn: that the order over
all openers is itself right is not shown.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.support.measures import benchmark_parser, print_head, print_row
from parlai_ext.commands.command import one_line_errors
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.core.errors import UserError
from parlai_ext.ranking.table import Floats
from parlai_ext.ranking.variance_shares import variance_shares
from parlai_ext.results.chosen_scores import choose_scores
from parlai_ext.results.tables import read_tables
from parlai_ext.stopping.looks import watched_dimension
from parlai_ext.stopping.rule import opener_means
from parlai_ext.store import RunFolder

DRAWS = 2000
STABLE = 0.95
COUNTS = (2, 4, 8, 16, 32, 64, 128, 256, 600)
SCHEMES = ('self_play', 'all_play_all', 'bipartite')


@dataclass(frozen=True)
class Scores:
    """
    Scores of a run on its overall dimension: ``[system, partner, opener]``.
    """

    systems: tuple[str, ...]
    openers: tuple[str, ...]
    values: Floats
    games_per_opener: int = 1

    @property
    def by_opener(self) -> Floats:
        """
        Each system's mean over its partners on one opener.
        """
        return opener_means(self.values, self.games_per_opener)

    @property
    def dialogues_per_opener(self) -> float:
        """
        How many dialogues of a system are scored over one opener; the mean of systems.
        """
        n_systems, n_openers = len(self.systems), len(self.openers)
        return int((~np.isnan(self.values)).sum()) / (n_systems * n_openers)


def read_scores(folder: Path) -> Scores:
    """
    Return the scores of a run's own scorer, or of the only one that it has.
    """
    run = RunFolder.existing(folder)
    signature, _ = choose_scores(run, None)
    tables = read_tables(run, signature)
    values = tables.scores[watched_dimension(tables, None)]
    openers = tuple(opener.id for opener in run.openers)
    return Scores(tables.systems, openers, values, tables.games_per_opener)


def joined(runs: Sequence[Scores]) -> Floats:
    """
    Return ``[system, opener]`` of several runs of the same systems, each opener once.
    """
    first = runs[0].systems
    if any(run.systems != first for run in runs):
        raise UserError('these runs have other systems')
    columns: dict[str, Floats] = {}
    for run in runs:
        for opener, column in zip(run.openers, run.by_opener.T, strict=True):
            columns.setdefault(opener, column)
    return np.stack(list(columns.values()), axis=1)


# ------------------------------------------------------------------------------- stable


def share_of_same_order(scores: Floats, n_openers: int, seed: int = 0) -> float:
    """
    Return how often ``n_openers``, drawn with replacement, order all systems as all
    openers do.
    """
    rng = np.random.default_rng([seed, n_openers])
    order = np.argsort(-np.nanmean(scores, axis=1))
    same = 0
    for _ in range(DRAWS):
        drawn = scores[:, rng.integers(scores.shape[1], size=n_openers)]
        means = np.nanmean(drawn, axis=1)[order]
        same += bool((np.diff(means) < 0).all())
    return same / DRAWS


def openers_for_right_order(differences: Floats) -> float:
    """
    Return with how many openers the mean of differences has its sign in 95 of 100 runs:
    ``(1.645 s / d) ** 2``.
    """
    known = differences[~np.isnan(differences)]
    mean, spread = float(known.mean()), float(known.std(ddof=1))
    return (stats.norm.ppf(STABLE) * spread / mean) ** 2 if mean else np.inf


def range_of_openers(differences: Floats, seed: int = 0) -> tuple[float, float]:
    """
    Return the 90 % bootstrap interval of `openers_for_right_order`; its end is infinite
    where the sign of the difference is not sure.
    """
    rng = np.random.default_rng([seed, 4])
    known = differences[~np.isnan(differences)]
    drawn = known[rng.integers(len(known), size=(DRAWS, len(known)))]
    with np.errstate(divide='ignore'):  # a draw of one value again and again
        ratio = drawn.mean(axis=1) / drawn.std(axis=1, ddof=1)
    signed = ratio * np.sign(known.mean())
    # nearest: between two infinite values there is no middle
    low, high = np.quantile(signed, [0.05, 0.95], method='nearest')
    z = float(stats.norm.ppf(STABLE))
    return (z / high) ** 2, (z / low) ** 2 if low > 0 else np.inf


def print_stable(scores: Floats, systems: Sequence[str]) -> None:
    """
    Print with how many openers the order is that of all, and what each pair needs.
    """
    print(f'{scores.shape[1]} openers, {len(systems)} systems\n')
    print_head('openers of a pair', 'same order of all systems')
    for n in COUNTS:
        print_row(n, f'{share_of_same_order(scores, n):.1%}')
    print()
    heads = ('pair', 'difference', 'spread', 'openers for the right order (95 %)')
    print_head(*heads, '90 %')
    for i, j in neighbours(scores):
        difference = scores[i] - scores[j]
        low, high = range_of_openers(difference)
        print_row(
            f'{systems[i]} – {systems[j]}',
            f'{np.nanmean(difference):.3f}',
            f'{np.nanstd(difference, ddof=1):.3f}',
            _count(openers_for_right_order(difference)),
            f'{_count(low)} to {_count(high)}',
        )


def neighbours(scores: Floats) -> Iterator[tuple[int, int]]:
    """
    Yield the places of systems that are next to each other, the best first.

    :param scores: ``[system, opener]``.
    """
    return pairwise(np.argsort(-np.nanmean(scores, axis=1)).tolist())


def _count(n: float) -> str:
    return f'{max(1, int(np.ceil(n))):,}' if np.isfinite(n) else 'no end'


# ------------------------------------------------------------------------------ openers


def print_openers(runs: Sequence[Scores]) -> None:
    """
    Print how the orders over different openers agree, and the parts of the variance.
    """
    systems = runs[0].systems
    means = [np.nanmean(run.by_opener, axis=1) for run in runs]
    taus = [stats.kendalltau(a, b).statistic for a, b in combinations(means, 2)]
    print(f'{len(runs)} sets of {[run.by_opener.shape[1] for run in runs]} openers\n')
    print(f'Kendall of two sets: mean {np.mean(taus):.2f}, lowest {min(taus):.2f}\n')
    print_head('pair', 'first is better in')
    total = np.mean(means, axis=0)
    order = np.argsort(-total).tolist()
    for i, j in combinations(order, 2):
        n_right = sum(bool(one[i] > one[j]) for one in means)
        if n_right < len(means) or (i, j) in pairwise(order):
            print_row(f'{systems[i]} – {systems[j]}', f'{n_right} of {len(means)} sets')
    scores = joined(runs)
    complete = scores[:, ~np.isnan(scores).any(axis=0)]
    found = variance_shares(complete[:, None, :])
    shares = found.shares.items() if found else ()
    words = ', '.join(f'{name} {share:.0%}' for name, share in shares)
    print(f'\nvariance of a score on one opener: {words}')


# ------------------------------------------------------------------------------ schemes


def agreement_interval(
    first: Floats, second: Floats, seed: int = 0
) -> tuple[float, float, float]:
    """
    Return Kendall's tau of two schemes' scores with its 95 % bootstrap interval over
    openers, which both have in the same order.
    """
    rng = np.random.default_rng([seed, 9])

    def tau(places: np.ndarray) -> float:
        means = [np.nanmean(one[:, places], axis=1) for one in (first, second)]
        return float(stats.kendalltau(*means).statistic)

    n_openers = first.shape[1]
    drawn = [tau(rng.integers(n_openers, size=n_openers)) for _ in range(DRAWS // 4)]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return tau(np.arange(n_openers)), float(low), float(high)


def print_schemes(scores: Mapping[str, Scores]) -> None:
    """
    Print the targets' scores in each scheme and how the schemes agree.
    """
    systems = next(iter(scores.values())).systems
    print_head('system', *scores)
    for k, name in enumerate(systems):
        means = (np.nanmean(one.by_opener[k]) for one in scores.values())
        print_row(name, *(f'{mean:.3f}' for mean in means))
    print()
    print_head('schemes', 'Kendall', '95 %')
    for one, other in combinations(scores, 2):
        tau, low, high = agreement_interval(
            scores[one].by_opener, scores[other].by_opener
        )
        print_row(f'{one} – {other}', f'{tau:.2f}', f'{low:.2f} to {high:.2f}')
    print()
    # how many dialogues of each system a scheme needs to order neighbours in the order
    # of the last scheme right in 95 of 100 runs
    print_head('pair', *scores)
    for i, j in neighbours(list(scores.values())[-1].by_opener):
        needs = (dialogues_for_right_order(one, i, j) for one in scores.values())
        print_row(f'{systems[i]} – {systems[j]}', *needs)


def dialogues_for_right_order(scores: Scores, first: int, second: int) -> str:
    """
    Return in words how many dialogues of each system order two of them right, with a
    90 % interval; says so if these scores have them in the other order.
    """
    difference = scores.by_opener[first] - scores.by_opener[second]
    if np.nanmean(difference) <= 0:
        return 'other order'
    each = scores.dialogues_per_opener
    needs = (openers_for_right_order(difference), *range_of_openers(difference))
    n, low, high = (_count(max(1.0, np.ceil(n)) * each) for n in needs)
    return f'{n} ({low} to {high})'


def play_schemes(args: argparse.Namespace) -> dict[str, Scores]:
    """
    Play and score a protocol in each scheme over the same openers.
    """
    more = {} if args.num_dialogues is None else {'num_dialogues': args.num_dialogues}
    scores = {}
    for scheme in SCHEMES:
        folder = args.runs / scheme
        EvaluateSystems.main(
            config=args.config,
            run_dir=str(folder),
            pairing=scheme,
            check_sample=0,
            **more,
        )
        scores[scheme] = read_scores(folder)
    return scores


def main() -> None:
    parser = benchmark_parser(__doc__)
    questions = parser.add_subparsers(dest='question', required=True)
    for name in ('stable', 'openers'):
        questions.add_parser(name).add_argument('folders', nargs='+', type=Path)
    schemes = questions.add_parser('schemes')
    schemes.add_argument('--config', default='real_demo', help='the protocol')
    schemes.add_argument('--num-dialogues', type=int, help='openers')
    schemes.add_argument('--runs', type=Path, default=Path('runs/schemes'))
    args = parser.parse_args()
    if args.question == 'schemes':
        print_schemes(play_schemes(args))
        return
    runs = [read_scores(folder) for folder in args.folders]
    if args.question == 'stable':
        print_stable(joined(runs), runs[0].systems)
    else:
        print_openers(runs)


if __name__ == '__main__':
    with one_line_errors():
        main()
