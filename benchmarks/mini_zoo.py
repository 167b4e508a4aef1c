"""
Test if the demo recovers the planted order, over five chat seeds and three judges.

    python -m benchmarks.mini_zoo [--seeds 0 1 2 3 4] [--runs runs/mini_zoo]

Prints the tables of docs/mini_zoo.md: losses of the shipped models, and Spearman of
every judge and trivial baseline with the planted order, floors left out.
"""

import argparse
import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

import parlai_ext.mini
from benchmarks.support.measures import print_head, print_row, start
from benchmarks.support.planted import known_scores, print_by_seed, spearman
from parlai_ext import zoo_configs
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core.nouns import Question, content_id
from parlai_ext.mini.corruptions import HELD_OUT, TRAIN
from parlai_ext.mini.smalltalk import make_dialogue
from parlai_ext.models.parlai_likelihood import load_judge
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER
from parlai_ext.ranking.standings import Standing
from parlai_ext.results.ranking import Ranking
from parlai_ext.scoring.registry import load_protocol_file

CONTROLS = ('judge-untrained', 'judge-no-reactions')
ZOO = Path(parlai_ext.mini.__file__).parent / 'zoo'


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


def print_scores(rankings_by_seed: Sequence[dict[str, Ranking]]) -> None:
    """
    Print each target's Overall score at each seed.
    """
    print()
    print_head('Overall of the judge', 'seeds, in order')
    tables = [
        {one.system: one.score for one in r['judge'].standings['Overall']}
        for r in rankings_by_seed
    ]
    for system in sorted(tables[0], key=lambda s: tables[0][s]):
        print_row(system, ', '.join(f'{table[system]:.2f}' for table in tables))


def fed_overall(judge: Any, contexts: Sequence[tuple[str, ...]]) -> list[float]:
    """
    Return the Overall score of each context's last utterance, as the demo scores it.
    """
    text = zoo_configs.path('followups', 'default').read_text(encoding='utf-8')
    negative = tuple(yaml.safe_load(text)['dimensions']['Overall']['negative'])
    answers = judge.answer([Question(one, negative) for one in contexts])
    return [-sum(mean(c) for c in one.continuations) for one in answers]


def twins(kind: str, count: int) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """
    Return contexts of the test fold with good last turns, and the same spoilt.
    """
    good, bad = [], []
    for i in range(count):
        turns, other = make_dialogue('test', 9, i)[:5], make_dialogue('test', 10, i)
        spoilt = {**TRAIN, **HELD_OUT}[kind](random.Random(i), turns, other)
        start = tuple(turn.text for turn in turns[:-1])
        good.append((*start, turns[-1].text))
        bad.append((*start, spoilt))
    return good, bad


def print_judge_check(count: int = 300) -> None:
    """
    Print how often a good turn scores above its spoilt twin, by kind and judge.
    """
    names = ('judge', *CONTROLS)
    print()
    print_head('kind of corruption', *names)
    judges = [load_judge(f'zoo:mini/{name}/model') for name in names]
    for kind in (*TRAIN, *HELD_OUT):
        good, bad = twins(kind, count)
        shares = []
        for judge in judges:
            pairs = zip(fed_overall(judge, good), fed_overall(judge, bad), strict=True)
            shares.append(mean((a > b) + (a == b) / 2 for a, b in pairs))
        seen = 'never seen' if kind in HELD_OUT else 'learned'
        print_row(f'{kind} ({seen})', *(f'{share:.2f}' for share in shares))


def print_training() -> None:
    """
    Print updates, parameters and held-out loss of each shipped model.
    """
    facts = json.loads((ZOO / 'training.json').read_text(encoding='utf-8'))
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
    print()
    columns = [column(one, planted) for one in by_seed]
    rows = {name: [one[name] for one in columns] for name in columns[0]}
    print_by_seed('Spearman, Overall', args.seeds, rows)
    print_scores(by_seed)
    print_judge_check()
    print_training()


if __name__ == '__main__':
    start(main, __doc__, seeds=[0, 1, 2, 3, 4], runs=Path('runs/mini_zoo'))
