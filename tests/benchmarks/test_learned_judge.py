"""
The learned judge's weights, from people's judgements and from pairs.
"""

import numpy as np
import pytest

from benchmarks.learned_judge.judge_weights import Labelled, WorsePairs, learn_weights
from parlai_ext.scoring.learned import JudgeWeights
from parlai_ext.training.fit_judge import agreement, rank_labels
from tests.training.test_fit_judge import inputs


def test_judges_are_learned_from_people_and_from_pairs():
    rng = np.random.default_rng(2)
    sets = []
    for _ in range(3):
        found = inputs(rng, 150)
        human = found['numbers'][:, 0] + found['states'][:, 1]
        sets.append(Labelled(found, rank_labels(human + rng.normal(size=150))))
    better, worse = inputs(rng, 80), inputs(rng, 80)
    worse['numbers'][:, 5] += 3  # a fault that no judged response has
    blocks, bias = learn_weights(sets, [WorsePairs(better, worse)])
    judge = JudgeWeights(blocks, bias, '', {})
    for one in sets:
        scores = judge.parts(one.inputs).sum(1) + bias
        assert agreement(scores, one.labels) > 0.5
    everything = np.concatenate([judge.parts(one.inputs).sum(1) + bias for one in sets])
    assert everything.mean() == pytest.approx(0, abs=0.01)
    alone = JudgeWeights(*learn_weights(sets, []), '', {})
    above, above_alone = (
        (one.parts(better).sum(1) > one.parts(worse).sum(1)).mean()
        for one in (judge, alone)
    )
    assert above > above_alone + 0.1
    weight, weight_alone = (o.blocks['numbers'].weight[5] for o in (judge, alone))
    assert weight < weight_alone - 0.05
