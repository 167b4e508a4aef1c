"""
Test if the demo recovers the planted order, over five chat seeds and three judges.

    python -m benchmarks.mini_zoo [--seeds 0 1 2 3 4] [--runs runs/mini_zoo]

Prints the tables of docs/mini_zoo.md: losses of the shipped models, and Spearman of
every judge and trivial baseline with the planted order, floors left out.
"""

import argparse
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.support.measures import print_head, print_row, start
from benchmarks.support.planted import (
    known_scores,
    print_by_seed,
    print_scores,
    spearman,
)
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import content_id
from parlai_ext.mini import SHIPPED
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER
from parlai_ext.ranking.standings import Standing
from parlai_ext.results.ranking import Ranking
from parlai_ext.scoring.registry import load_protocol_file

CONTROLS = ('judge-untrained', 'judge-no-reactions')


def rankings(seed: int, folder: Path) -> dict[str, Ranking]:
    """
    Return the ranking of the demo at one chat seed, by judge; unfinished runs go on.
    """
    run = folder / f'seed-{seed}'
    by_judge = {
        'judge': EvaluateSystems.main(config='demo', seed=seed, run_dir=str(run))
    }
    for name in CONTROLS:
        scored = ScoreDialogues.main(
            run_dir=str(run), judge_model_file=f'zoo:mini/{name}/model'
        )
        by_judge[name] = RankSystems.main(
            run_dir=str(run), scores=content_id(scored.signature)
        )
    return by_judge


def column(
    by_judge: Mapping[str, Ranking], planted: Mapping[str, float]
) -> dict[str, float]:
    """
    Return one seed's correlations, by judge and by trivial baseline.
    """

    def agreement(standings: Iterable[Standing], higher: bool = True) -> float:
        return spearman(known_scores(standings, planted, higher=higher), planted)

    correlations = {
        name: agreement(ranking.standings['Overall'])
        for name, ranking in by_judge.items()
    }
    for name, standings in by_judge['judge'].baselines.items():
        higher = HIGHER_IS_BETTER[name]
        label = name if higher else f'{name}, the less the better'
        correlations[f'baseline: {label}'] = agreement(standings, higher)
    for name, standings in by_judge['judge'].standings.items():
        if name != 'Overall':
            correlations[f'judge, {name} instead'] = agreement(standings)
    return correlations


def print_training() -> None:
    """
    Print updates, parameters and held-out loss of each shipped model.
    """
    facts = json.loads((SHIPPED / 'training.json').read_text(encoding='utf-8'))
    print()
    print_head('model', 'updates', 'parameters', 'held-out loss', 'perplexity')
    for name, one in sorted(facts.items(), key=lambda item: item[1]['updates']):
        perplexity = f'{math.exp(one["loss"]):.2f}'
        if name == 'retrieval':
            perplexity = 'ranks, not words'
        numbers = f'{one["parameters"]:,}', f'{one["loss"]:.3f}'
        print_row(name, one['updates'], *numbers, perplexity)


def main(args: argparse.Namespace) -> None:
    planted = load_protocol_file('demo').protocol.reference['Overall']
    by_seed = [rankings(seed, args.runs) for seed in args.seeds]
    columns = [column(one, planted) for one in by_seed]
    print_by_seed('Spearman, Overall', args.seeds, columns)
    standings = [one['judge'].standings['Overall'] for one in by_seed]
    print_scores([known_scores(one, planted) for one in standings], planted)
    print_training()


if __name__ == '__main__':
    start(main, __doc__, seeds=[0, 1, 2, 3, 4], runs=Path('runs/mini_zoo'))
