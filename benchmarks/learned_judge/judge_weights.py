"""
Weights of a learned judge, from people's judgements and from pairs of replies of which
one is known to be worse.

Each kind of input has a ridge regression of its own, in closed form: it minimises

    mean over sets of E[(label - score)²]  +  strength * |weights|²
    + c * mean over kinds of pairs E[(1 - (better - worse))²]

where labels are ranks within a set, so that no scale of a questionnaire counts. The
judge is the sum of the three, each scaled to its share of the variance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parlai_ext.scoring.learned import BLOCKS, MOST, BlockWeights
from parlai_ext.training.fit_judge import Inputs

# of the penalty, and the share of the variance; chosen on docs/learned_worth.md's sets
STRENGTHS = {'numbers': 0.05, 'states': 0.3, 'products': 10.0}
SHARES = {'numbers': 3.0, 'states': 1.0, 'products': 1.5}
PAIRS = 0.12  # how much the pairs count beside the labels


@dataclass(frozen=True)
class Labelled:
    """
    The responses of one set: their inputs, and their labels (`nan` for none).
    """

    inputs: Inputs
    labels: np.ndarray


@dataclass(frozen=True)
class WorsePairs:
    """
    Pairs of one kind: the inputs of better replies and of worse ones, row by row.

    :param weight: how much this kind counts beside the others.
    """

    better: Inputs
    worse: Inputs
    weight: float = 1.0


@dataclass(frozen=True)
class Scaling:
    """
    Mean and spread of one kind of input, the mean over sets.
    """

    mean: np.ndarray
    scale: np.ndarray

    def scaled(self, inputs: np.ndarray) -> np.ndarray:
        """
        Return the inputs in spreads from the mean, cut.
        """
        return np.clip((inputs - self.mean) / self.scale, -MOST, MOST)


@dataclass(frozen=True)
class Moments:
    """
    What a set or a kind of pairs adds to the normal equations of a regression.
    """

    products: np.ndarray
    targets: np.ndarray


def input_scaling(sets: Sequence[Inputs], block: str) -> Scaling:
    """
    Return the scaling of one kind of input, every set counting the same.
    """
    means = [inputs[block].mean(0) for inputs in sets]
    variances = [inputs[block].var(0) for inputs in sets]
    spread = np.sqrt(np.mean(variances, 0)) + 1e-6
    return Scaling(np.mean(means, 0), spread)


def label_moments(scaling: Scaling, block: str, labelled: Labelled) -> Moments:
    """
    Return the moments of a set, about its own means.
    """
    known = ~np.isnan(labelled.labels)
    rows = scaling.scaled(labelled.inputs[block][known])
    labels = labelled.labels[known]
    rows = rows - rows.mean(0)
    labels = labels - labels.mean()
    return Moments(rows.T @ rows / len(rows), rows.T @ labels / len(rows))


def pair_moments(scaling: Scaling, block: str, pairs: WorsePairs) -> Moments:
    """
    Return the moments of the differences of a kind of pairs, whose target is 1.
    """
    rows = scaling.scaled(pairs.better[block]) - scaling.scaled(pairs.worse[block])
    return Moments(rows.T @ rows / len(rows), rows.mean(0))


def block_weights(
    block: str, sets: Sequence[Moments], pairs: Sequence[tuple[float, Moments]]
) -> np.ndarray:
    """
    Return the ridge weights of one kind of input.

    :param pairs: with the weight of each kind.
    """
    products = np.mean([one.products for one in sets], 0)
    targets = np.mean([one.targets for one in sets], 0)
    for weight, one in pairs:
        share = PAIRS * weight / len(pairs)
        products = products + share * one.products
        targets = targets + share * one.targets
    penalty = STRENGTHS[block] * np.eye(len(targets))
    return np.asarray(np.linalg.solve(products + penalty, targets))


def learn_weights(
    sets: Sequence[Labelled], pairs: Sequence[WorsePairs]
) -> tuple[dict[str, BlockWeights], float]:
    """
    Return the weights of a judge and its bias. Its scores have mean 0 and standard
    deviation 1, the mean over the sets.
    """
    blocks = {}
    for block in BLOCKS:
        scaling = input_scaling([one.inputs for one in sets], block)
        weights = block_weights(
            block,
            [label_moments(scaling, block, one) for one in sets],
            [(one.weight, pair_moments(scaling, block, one)) for one in pairs],
        )
        spreads = [(scaling.scaled(one.inputs[block]) @ weights).std() for one in sets]
        weights = weights * SHARES[block] / np.mean(spreads)
        blocks[block] = BlockWeights(scaling.mean, scaling.scale, weights)
    return unit_scale(blocks, [one.inputs for one in sets])


def unit_scale(
    blocks: Mapping[str, BlockWeights], sets: Sequence[Inputs]
) -> tuple[dict[str, BlockWeights], float]:
    """
    Return the weights scaled so that scores have mean 0 and standard deviation 1, the
    mean over sets, and the bias.
    """
    scores = [
        sum(block.scaled(inputs[name]) @ block.weight for name, block in blocks.items())
        for inputs in sets
    ]
    factor = 1 / float(np.mean([np.std(one) for one in scores]))
    scaled = {
        name: BlockWeights(block.mean, block.scale, block.weight * factor)
        for name, block in blocks.items()
    }
    return scaled, -factor * float(np.mean([np.mean(one) for one in scores]))
