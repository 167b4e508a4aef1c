"""
How many annotations of one's own are worth having: what `fit_judge` gains on sets from
which, and from whose corpora and studies, the judge before was not learned.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.learned_judge.fit import Material
from benchmarks.learned_judge.items import SETS, ResponseSet
from parlai_ext.scoring.learned import JudgeWeights
from parlai_ext.training.fit_judge import (
    Annotated,
    AnnotatedTable,
    agreement,
    annotated_table,
    fit,
)

SIZES = (25, 50, 100, 200, 400, 800)
DRAWS = 5
CURVE_SETS = (
    'topical_dstc10',
    'zhao_dailydialog',
    'jsalt',
    'grade_convai2',
    'usr_topical',
    'dstc7_human_eval',
    'fed_turn',
)


def curve(material: Material, name: str, names: Sequence[str]) -> dict[int, float]:
    """
    Return by number of annotations the mean agreement on the responses that were not
    annotated; 0 is the judge before.
    """
    judge = material.learn_without(name, names)
    table = set_table(material.sets[name], material, judge)
    drawn: dict[int, list[float]] = {}
    for seed in range(DRAWS):
        order = context_order(table.groups, seed)
        rest = order[len(order) // 2 :]
        labels = table.labels[rest]
        drawn.setdefault(0, []).append(agreement(table.before[rest], labels))
        for size in SIZES:
            if size <= len(order) // 2:
                scores = fit(table, order[:size], seed).scores(table, rest)
                drawn.setdefault(size, []).append(agreement(scores, labels))
    return {size: float(np.mean(values)) for size, values in drawn.items()}


def set_table(
    responses: ResponseSet, material: Material, judge: JudgeWeights
) -> AnnotatedTable:
    """
    Return the rows of the responses with a number by people.
    """
    target = responses.target()
    known = np.flatnonzero(~np.isnan(target))
    annotated = [
        Annotated(
            (responses.responses[i].item,),
            float(target[i]),
            ' '.join(responses.responses[i].item.context),
        )
        for i in known
    ]
    inputs = material.inputs[responses.name]
    return annotated_table(
        annotated, {block: rows[known] for block, rows in inputs.items()}, judge
    )


def context_order(groups: Sequence[str], seed: int) -> np.ndarray:
    """
    Return the places of the rows, contexts in random order, those of one together.
    """
    rng = np.random.default_rng(seed)
    rank = {name: rng.random() for name in sorted(set(groups))}
    return np.array(sorted(range(len(groups)), key=lambda i: (rank[groups[i]], i)))


def print_curves(material: Material, names: Sequence[str]) -> None:
    """
    Print a row for each set.
    """
    print(f'{"":20}' + ''.join(f'{size:>8}' for size in (0, *SIZES)))
    for name in CURVE_SETS:
        assert name in SETS
        found = curve(material, name, names)
        cells = (f'{found[s]:>8.2f}' if s in found else '' for s in (0, *SIZES))
        print(f'{name:20}' + ''.join(cells))
