"""
Test if the demo recovers the planted order, over five chat seeds and three judges.

    python -m benchmarks.mini_zoo [--seeds 0 1 2 3 4] [--runs runs/mini_zoo]

Prints the tables of docs/mini_zoo.md: losses of the shipped models, and Spearman of
every judge and trivial baseline with the planted order, floors left out.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import yaml

import parlai_ext.mini
from benchmarks.support.measures import benchmark_parser
from benchmarks.support.planted import known_scores, spearman
from parlai_ext import zoo_configs
from parlai_ext.commands.command import one_line_errors
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


def agreement(
    standings: Iterable[Standing], planted: Mapping[str, float], higher: bool = True
) -> float:
    """
    Return Spearman of the scores with the planted order, over the ladder.
    """
    return spearman(known_scores(standings, planted, higher=higher), planted)


def column(
    by_judge: Mapping[str, Ranking], planted: Mapping[str, float]
) -> dict[str, float]:
    """
    Return one seed's correlations, by judge and by trivial baseline.
    """
    correlations = {
        name: agreement(ranking.standings['Overall'], planted)
        for name, ranking in by_judge.items()
    }
    for name, standings in by_judge['judge'].baselines.items():
        higher = HIGHER_IS_BETTER[name]
        label = name if higher else f'{name}, the less the better'
        correlations[f'baseline: {label}'] = agreement(standings, planted, higher)
    for name, standings in by_judge['judge'].standings.items():
        if name != 'Overall':
            correlations[f'judge, {name} instead'] = agreement(standings, planted)
    return correlations


def print_agreement(seeds: Sequence[int], columns: Sequence[dict[str, float]]) -> None:
    heads = ' | '.join(f'seed {seed}' for seed in seeds)
    print(f'| Spearman, Overall | {heads} | median |')
    print('|---' * (len(seeds) + 2) + '|')
    for name in columns[0]:
        values = [one[name] for one in columns]
        cells = ' | '.join(f'{value:.2f}' for value in values)
        print(f'| {name} | {cells} | {median(values):.2f} |')


def print_scores(rankings_by_seed: Sequence[dict[str, Ranking]]) -> None:
    """
    Print each target's Overall score at each seed.
    """
    print('\n| Overall of the judge | seeds, in order |\n|---|---|')
    tables = [
        {one.system: one.score for one in r['judge'].standings['Overall']}
        for r in rankings_by_seed
    ]
    for system in sorted(tables[0], key=lambda s: tables[0][s]):
        cells = ', '.join(f'{table[system]:.2f}' for table in tables)
        print(f'| {system} | {cells} |')


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
    print(f'\n| kind of corruption | {" | ".join(names)} |\n|---|---|---|---|')
    judges = [load_judge(f'zoo:mini/{name}/model') for name in names]
    for kind in (*TRAIN, *HELD_OUT):
        good, bad = twins(kind, count)
        shares = []
        for judge in judges:
            pairs = zip(fed_overall(judge, good), fed_overall(judge, bad), strict=True)
            shares.append(mean((a > b) + (a == b) / 2 for a, b in pairs))
        seen = 'never seen' if kind in HELD_OUT else 'learned'
        print(f'| {kind} ({seen}) | {" | ".join(f"{x:.2f}" for x in shares)} |')


def print_training() -> None:
    """
    Print updates, parameters and held-out loss of each shipped model.
    """
    facts = json.loads((ZOO / 'training.json').read_text(encoding='utf-8'))
    print('\n| model | updates | parameters | held-out loss | perplexity |')
    print('|---|---|---|---|---|')
    for name, one in sorted(facts.items(), key=lambda item: item[1]['updates']):
        perplexity = f'{math.exp(one["loss"]):.2f}'
        if name == 'retrieval':
            perplexity = 'ranks, not words'
        cells = one['updates'], f'{one["parameters"]:,}', f'{one["loss"]:.3f}'
        print(f'| {name} | {" | ".join(map(str, cells))} | {perplexity} |')


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2, 3, 4])
    parser.add_argument('--runs', type=Path, default=Path('runs/mini_zoo'))
    args = parser.parse_args()
    planted = load_protocol_file('demo').protocol.reference['Overall']
    by_seed = [rankings(seed, args.runs) for seed in args.seeds]
    print()
    print_agreement(args.seeds, [column(one, planted) for one in by_seed])
    print_scores(by_seed)
    print_judge_check()
    print_training()


if __name__ == '__main__':
    with one_line_errors():
        main()
