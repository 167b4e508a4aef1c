"""
Measure what the rule for agreement with a prompt is worth, on labelled answers.

    python -m benchmarks.stance_rule --data ../shared/data [--detectors NAME …] [--fit]

Against people: turns and bots' answers right after an offensive turn of ToxiChat (Agree
against Neutral and Disagree), and responses to the toxic prompts of DiaSafety (category
Toxicity Agreement: Unsafe against Safe). Printed are precision, recall and the area
under the ROC curve, with intervals, and the rates that people, the rule and detectors
give the two bots of ToxiChat. --fit prints the weights of a logistic regression on the
train file, times ten, from which the rule's points were rounded.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from benchmarks.support.measures import start
from parlai_ext.core.display import number
from parlai_ext.data.toxic_pairs import ToxicData, ToxicPair, read_pairs
from parlai_ext.data.toxic_sets import AGREEMENT
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.detection import detection_measures
from parlai_ext.ranking.prompt_means import prompt_means
from parlai_ext.toxic.detectors import load_detectors
from parlai_ext.toxic.stance import LexicalStance

SHOWN = ('precision', 'recall', 'roc_auc', 'share_flagged')
PENALTY = 1.0  # of a squared weight
BOTS = ('dgpt', 'gpt3')


def main(given: argparse.Namespace) -> None:
    """
    Print the tables.
    """
    toxichat = read_pairs(ToxicData(path=str(given.data / 'toxichat'), pairs='all'))
    diasafety = read_pairs(ToxicData(path=str(given.data / 'diasafety'), pairs='all'))
    if given.fit:
        print_fit(offensive(toxichat['train']))
    for fold in ('train', 'valid', 'test'):
        pairs = offensive(toxichat[fold])
        print_measures(f'toxichat {fold}', pairs, agrees(pairs))
        bots = [pair for pair in pairs if pair.features['speaker'] in BOTS]
        print_measures(f'toxichat {fold}, bots', bots, agrees(bots))
    for fold in ('train', 'test'):
        pairs = [p for p in diasafety[fold] if p.features['category'] == AGREEMENT]
        labels = [pair.features['label'] == 'Unsafe' for pair in pairs]
        print_measures(f'diasafety {fold}', pairs, labels)
    print_bots(offensive(toxichat['test']), given)


def offensive(pairs: Sequence[ToxicPair]) -> list[ToxicPair]:
    """
    Return the pairs with an offensive prompt and an answer.
    """
    return [p for p in pairs if p.features['prompt_label'] == 'Offensive' and p.answer]


def agrees(pairs: Sequence[ToxicPair]) -> list[bool]:
    """
    Return whether people say that each answer agrees.
    """
    return [pair.features['stance'] == 'Agree' for pair in pairs]


def points_of(pairs: Sequence[ToxicPair]) -> list[float]:
    """
    Return the points of each answer.
    """
    answers = [pair.answer or '' for pair in pairs]
    return LexicalStance().numbers([pair.prompt for pair in pairs], answers)


def print_measures(
    name: str, pairs: Sequence[ToxicPair], labels: Sequence[bool]
) -> None:
    """
    Print what the rule's points are worth on labelled pairs.
    """
    measures = detection_measures(
        np.array(points_of(pairs)),
        np.array(labels),
        LexicalStance().threshold,
        [
            pair.id.rsplit(':', 2)[0] if name[0] == 't' else pair.prompt
            for pair in pairs
        ],
    )
    cells = [
        f'{key} {number(one.value)} ({number(one.low)} to {number(one.high)})'
        for key in SHOWN
        for one in [measures[key]]
    ]
    print(f'{name}: {len(pairs)} answers, {sum(labels)} agree; {"; ".join(cells)}')


def print_bots(pairs: Sequence[ToxicPair], given: argparse.Namespace) -> None:
    """
    Print the rates of offensive and of agreeing answers of each bot.
    """
    detectors, missing = load_detectors(given.detectors, ModelHandle())
    rule = LexicalStance()
    for bot in BOTS:
        own = [pair for pair in pairs if pair.features['speaker'] == bot]
        answers = [pair.answer or '' for pair in own]
        columns = {
            'people: offensive': [
                p.features['answer_label'] == 'Offensive' for p in own
            ],
            **{d.name: [d.is_toxic(x) for x in d.toxicity(answers)] for d in detectors},
            'people: agrees': agrees(own),
            'rule: agrees': [x >= rule.threshold for x in points_of(own)],
        }
        values = np.array(list(columns.values()), np.float64)
        cells = [
            f'{name} {number(one.value)} ({number(one.low)} to {number(one.high)})'
            for name, one in zip(
                columns, prompt_means(values, shares=True), strict=True
            )
        ]
        print(f'{bot}, {len(own)} answers: {"; ".join(cells)}')
    for line in missing:
        print(f'left out: {line}')


def print_fit(pairs: Sequence[ToxicPair]) -> None:
    """
    Print the weights of a logistic regression on the rule's features, times ten.
    """
    rule = LexicalStance()
    rows = [rule.features(pair.prompt, pair.answer or '') for pair in pairs]
    features = np.array([[float(v) for v in row.values()] for row in rows])
    design = np.column_stack([features, np.ones(len(features))])
    signs = np.where(agrees(pairs), 1.0, -1.0)

    def loss(weights: np.ndarray) -> float:
        losses = np.logaddexp(0, -signs * (design @ weights)).sum()
        return float(losses + PENALTY / 2 * (weights[:-1] ** 2).sum())

    weights = minimize(loss, np.zeros(design.shape[1])).x
    cutoff = np.quantile(design @ weights, 1 - np.mean(agrees(pairs)))
    shown = {
        name: float(round(10 * w, 1)) for name, w in zip(rows[0], weights, strict=False)
    }
    print(f'{shown}; threshold {10 * (cutoff - weights[-1]):.1f}')


if __name__ == '__main__':
    start(main, __doc__, required=['data'], data=Path, detectors=[], fit=False)
