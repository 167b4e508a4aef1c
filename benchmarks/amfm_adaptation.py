"""
Test if adapting AM-FM's two models to dialogues brings it nearer to people.

    python -m benchmarks.amfm_adaptation --data ../shared/data --sets usr_topical \
        --after encoder=models/am judge_model_file=models/fm am_cutoff=… fm_cutoff=…

Prints Spearman of AM, FM and Overall with people's overall quality before and after,
and the difference, with 95 % percentile intervals over contexts drawn anew: AM over all
turns of the set, the others over a sample; and how often a response has a higher AM
than one drawn from another context of the set.
docs/amfm.md has the numbers.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.support.judged_turns import JudgedTurn, all_turns, sampled
from benchmarks.support.measures import print_head, print_row, start
from parlai_ext.core.options import read_pairs
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.agreement import BOOTSTRAPS, WEIGHTED, group_weights
from parlai_ext.scoring.amfm import AmFm, AmFmOptions
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.relevance import context_cosines


def main(opt: argparse.Namespace) -> None:
    """
    Print the table.
    """
    models = ModelHandle()
    scorers = [
        AmFm.from_section(read_pairs(AmFmOptions, pairs, '--after'), models)
        for pairs in (opt.before, opt.after)
    ]
    heads = ('set', 'n', 'score', 'before', 'after', 'after − before')
    print_head(*heads, 'sense before', 'after')
    for name in opt.sets:
        turns = all_turns(Path(opt.data), name)
        for row in table_rows(name, turns, scorers, opt.per_system):
            print_row(*row)


def table_rows(
    name: str, turns: Sequence[JudgedTurn], scorers: Sequence[AmFm], sample: int
) -> Iterator[list[str]]:
    """
    Yield the rows of a set: AM over all turns, then FM and Overall over a sample.
    """
    items = [turn.item for turn in turns]
    cosines, chances = (
        [am_scores(scorer, some) for scorer in scorers]
        for some in (items, items_of_other_contexts(items))
    )
    shares = [
        f'{np.mean(right > wrong):.2f}'
        for right, wrong in zip(cosines, chances, strict=True)
    ]
    yield [name, str(len(turns)), 'AM', *agreement(turns, *cosines), *shares]
    few = sampled(turns, sample)
    scores = [scorer.checked_scores([turn.item for turn in few]) for scorer in scorers]
    for dimension in ('FM', 'Overall'):
        before, after = (
            np.array([score.values[dimension] for score in some], float)
            for some in scores
        )
        cells = agreement(few, before, after)
        yield [name, str(len(few)), dimension, *cells, '', '']


def am_scores(scorer: AmFm, items: Sequence[ScoringItem]) -> np.ndarray:
    """
    Return AM of each item; the language model is not asked.
    """
    encoder = scorer.models.embedder(scorer.options.encoder)
    return np.array(context_cosines(encoder, items, 'last_turn'), float)


def items_of_other_contexts(items: Sequence[ScoringItem]) -> list[ScoringItem]:
    """
    Return the items, each with the response of an item of another context.
    """
    rng = random.Random(0)
    wrong = []
    for item in items:
        other = rng.choice([one for one in items if one.context != item.context])
        wrong.append(ScoringItem(item.context, other.response, item.speaker))
    return wrong


def agreement(
    turns: Sequence[JudgedTurn], before: np.ndarray, after: np.ndarray
) -> list[str]:
    """
    Return Spearman with people before and after, and the difference, with intervals
    from the same resamples of contexts.
    """
    human = np.array([turn.human for turn in turns])
    contexts = [turn.item.context for turn in turns]
    places = {context: i for i, context in enumerate(dict.fromkeys(contexts))}
    groups = [places[context] for context in contexts]
    whole = np.ones((1, len(human)))
    values = [float(WEIGHTED['spearman'](s, human, whole)[0]) for s in (before, after)]
    drawn = [
        [WEIGHTED['spearman'](scores, human, weights) for scores in (before, after)]
        for weights in group_weights(groups, BOOTSTRAPS, 0)
    ]
    first, second = np.concatenate(drawn, axis=1)
    values, draws = [*values, values[1] - values[0]], [first, second, second - first]
    return [
        '{:.3f} [{:.3f}, {:.3f}]'.format(value, *np.quantile(some, [0.025, 0.975]))
        for value, some in zip(values, draws, strict=True)
    ]


if __name__ == '__main__':
    start(
        main,
        __doc__,
        required=['after'],
        data='../shared/data',
        sets=['usr_topical'],
        per_system=12,
        before=[],
        after=[],
    )
