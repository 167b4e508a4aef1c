"""
Test if real_demo recovers its planted order, over five seeds.

    python -m benchmarks.real_demo [--seeds 0 1 2 3 4] [--runs runs/real_demo]

Prints the tables of docs/real_demo.md: for the judge and for each trivial baseline
both ways round, Spearman with the planted order and the share of pairs in that order;
and the systems' scores. A seed that was begun goes on; one takes some minutes on two
CPU cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.support.measures import benchmark_parser
from benchmarks.support.planted import known_scores, right_pairs, spearman
from parlai_ext.commands.command import one_line_errors
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.results.ranking import Ranking
from parlai_ext.scoring.registry import load_protocol_file

PROTOCOL, DIMENSION = 'real_demo', 'Overall'
MEASURES = {'Spearman': spearman, 'share of pairs in order': right_pairs}


def scores_by_judge(
    ranking: Ranking, planted: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """
    Return the systems' scores of the judge and of each trivial baseline both ways
    round, the higher the better.
    """
    scores = {'judge': known_scores(ranking.standings[DIMENSION], planted)}
    for name, standings in ranking.baselines.items():
        for more, higher in (('more', True), ('less', False)):
            known = known_scores(standings, planted, higher=higher)
            scores[f'baseline: {name}, the {more} the better'] = known
    return scores


def print_measures(
    seeds: Sequence[int],
    by_seed: Sequence[Mapping[str, Mapping[str, float]]],
    planted: Mapping[str, float],
) -> None:
    """
    Print one table for each measure, with a row for the judge and each baseline.
    """
    for title, measure in MEASURES.items():
        heads = ' | '.join(f'seed {seed}' for seed in seeds)
        print(f'\n| {title} | {heads} | median |')
        print('|---' * (len(seeds) + 2) + '|')
        for name in by_seed[0]:
            values = [measure(one[name], planted) for one in by_seed]
            cells = ' | '.join(f'{value:.2f}' for value in values)
            print(f'| {name} | {cells} | {median(values):.2f} |')


def print_scores(
    by_seed: Sequence[Mapping[str, Mapping[str, float]]], planted: Mapping[str, float]
) -> None:
    """
    Print each target's score by the judge at each seed, the best planted first.
    """
    print(f'\n| {DIMENSION} of the judge | seeds, in order |\n|---|---|')
    for system in sorted(planted, key=lambda name: -planted[name]):
        cells = ', '.join(f'{one["judge"][system]:.2f}' for one in by_seed)
        print(f'| {system} | {cells} |')


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2, 3, 4])
    parser.add_argument('--runs', type=Path, default=Path('runs/real_demo'))
    args = parser.parse_args()
    planted = load_protocol_file(PROTOCOL).protocol.reference[DIMENSION]
    by_seed = []
    for seed in args.seeds:
        run = args.runs / f'seed-{seed}'
        ranking = EvaluateSystems.main(config=PROTOCOL, seed=seed, run_dir=str(run))
        by_seed.append(scores_by_judge(ranking, planted))
    print_measures(args.seeds, by_seed, planted)
    print_scores(by_seed, planted)


if __name__ == '__main__':
    with one_line_errors():
        main()
