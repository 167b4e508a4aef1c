"""
Test if real_demo recovers its planted order, over five seeds.

    python -m benchmarks.real_demo [--seeds 0 1 2 3 4] [--runs runs/real_demo]

Prints the tables of docs/real_demo.md: for the judge and for each trivial baseline
both ways round, Spearman with the planted order and the share of pairs in that order;
and the systems' scores. A seed that was begun goes on; one takes some minutes on two
CPU cores.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from benchmarks.support.measures import start
from benchmarks.support.planted import (
    known_scores,
    print_by_seed,
    print_scores,
    right_pairs,
    spearman,
)
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


def main(args: argparse.Namespace) -> None:
    planted = load_protocol_file(PROTOCOL).protocol.reference[DIMENSION]
    by_seed = []
    for seed in args.seeds:
        run = args.runs / f'seed-{seed}'
        ranking = EvaluateSystems.main(config=PROTOCOL, seed=seed, run_dir=str(run))
        by_seed.append(scores_by_judge(ranking, planted))
    for title, measure in MEASURES.items():
        columns = [
            {judge: measure(scores, planted) for judge, scores in one.items()}
            for one in by_seed
        ]
        print_by_seed(title, args.seeds, columns)
    print_scores([one['judge'] for one in by_seed], planted)


if __name__ == '__main__':
    start(main, __doc__, seeds=[0, 1, 2, 3, 4], runs=Path('runs/real_demo'))
