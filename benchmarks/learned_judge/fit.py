"""
Learn the judge, and read what it is worth on corpora that it was not learned from.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from benchmarks.learned_judge.copies import COPIES, Copy, shares_higher, worse_pairs
from benchmarks.learned_judge.items import (
    SETS,
    JudgedResponse,
    ResponseSet,
    training_sets,
)
from benchmarks.learned_judge.judge_weights import Labelled, learn_weights
from parlai_ext.scoring.learned import NUMBERS, JudgeWeights
from parlai_ext.training.fit_judge import Inputs

RESAMPLES = 1000
ALL = 'all'  # the fold that leaves no set out
PLAIN = {
    'length': 'words',
    'overlap': 'in_last',
    'relevance': 'near_last',
    'likelihood': 'likelihood',
}


def read_adapted(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """
    Return what adapters said of sets and copies, by fold.
    """
    return {
        path.stem: {
            name: np.array(n) for name, n in json.loads(path.read_bytes()).items()
        }
        for path in sorted(folder.glob('*.json'))
    }


@dataclass(frozen=True)
class Material:
    """
    All sets and copies with their inputs.

    :param adapted: what adapters say of sets and copies, by fold (`adapter.py`).
    """

    sets: Mapping[str, ResponseSet]
    copies: Mapping[str, Sequence[Copy]]
    inputs: Mapping[str, Inputs]
    adapted: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)

    def learn(self, names: Sequence[str], without: Iterable[str] = ()) -> JudgeWeights:
        """
        Return a judge learned from these sets and from the training copies of corpora
        that are not left out.

        :param without: tags of corpora.
        """
        tags = set(without)
        pairs = [
            one
            for name, source in COPIES.items()
            if source.for_training and source.tag not in tags
            for one in worse_pairs(self.copies[name], self.inputs[name])
        ]
        labelled = [
            Labelled(self.inputs[name], self.sets[name].labels()) for name in names
        ]
        blocks, bias = learn_weights(labelled, pairs)
        return JudgeWeights(blocks, bias, '', {}, tuple(names))

    def learn_without(self, name: str, names: Sequence[str]) -> JudgeWeights:
        """
        Return a judge learned without a set, and without all sets and copies that share
        a corpus or a study with it.
        """
        return self.learn(training_sets(name, names), SETS[name].tags)

    def scores(
        self, judge: JudgeWeights, name: str, fold: str | None = None
    ) -> np.ndarray:
        """
        Return a judge's scores of a set or of copies: those of the inputs, whose spread
        is 1, and as much of the adapter that was learned in the same fold.

        :param fold: `None` for the inputs alone.
        """
        scores = np.asarray(judge.parts(self.inputs[name]).sum(1) + judge.bias)
        if fold is None:
            return scores
        return scores + self.adapted[fold][name] / self.spread(fold)

    def spread(self, fold: str) -> float:
        """
        Return the standard deviation of what adapters say of a set, the mean over sets:
        of those that it learned from, or of those that were left out.
        """
        folds = [(one, one) for one in self.adapted if one != ALL]
        pairs = [(ALL, name) for name in self.sets] if fold == ALL else folds
        return float(np.mean([self.adapted[one][name].std() for one, name in pairs]))

    def shares(
        self, judge: JudgeWeights, name: str, fold: str | None = None
    ) -> dict[str, float]:
        """
        Return by kind how often a good reply scores above its copy.
        """
        return shares_higher(self.copies[name], self.scores(judge, name, fold))

    def number(self, name: str, number: str) -> np.ndarray:
        """
        Return one of the plain numbers of a set.
        """
        return self.inputs[name]['numbers'][:, NUMBERS.index(number)]


@dataclass(frozen=True)
class Agreement:
    """
    Spearman with people over turns, over systems and over dialogues; `None` where a set
    has fewer than three of them.
    """

    turns: float | None
    systems: float | None
    dialogues: float | None


def agreement(responses: ResponseSet, scores: np.ndarray) -> Agreement:
    """
    Return the agreement of scores with people.
    """
    everything, dialogues = np.arange(len(scores)), None
    if all(one.dialogue for one in responses.responses):
        columns = scores, responses.target()
        dialogues = group_means(
            responses.responses, lambda r: (r.dialogue, r.system), *columns
        )
    return Agreement(
        turns_agreement(responses, scores, everything),
        systems_agreement(responses, scores, everything),
        dialogues and spearman(*dialogues),
    )


def group_means(
    responses: Sequence[JudgedResponse],
    group: Callable[[JudgedResponse], object],
    *columns: np.ndarray,
) -> list[np.ndarray]:
    """
    Return the means of columns over groups of responses with a number by people.
    """
    places: dict[object, list[int]] = defaultdict(list)
    for i, response in enumerate(responses):
        if not np.isnan(columns[-1][i]):
            places[group(response)].append(i)
    return [np.array([column[p].mean() for p in places.values()]) for column in columns]


def turns_agreement(
    responses: ResponseSet, scores: np.ndarray, places: np.ndarray
) -> float | None:
    """
    Return Spearman over some turns.
    """
    return spearman(scores[places], responses.target()[places])


def systems_agreement(
    responses: ResponseSet, scores: np.ndarray, places: np.ndarray
) -> float | None:
    """
    Return Spearman over the systems' means of some turns.
    """
    some = [responses.responses[i] for i in places]
    columns = scores[places], responses.target()[places]
    return spearman(*group_means(some, lambda r: r.system, *columns))


def places_by_context(
    responses: ResponseSet, places: Iterable[int]
) -> list[np.ndarray]:
    """
    Return these places of a set, those of the responses to each context together.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i in places:
        groups[responses.responses[i].item.context].append(i)
    return [np.array(group) for group in groups.values()]


def resampled(
    responses: ResponseSet,
    scores: np.ndarray,
    statistic: Callable[[ResponseSet, np.ndarray, np.ndarray], float | None],
    resamples: int = RESAMPLES,
) -> np.ndarray:
    """
    Return a statistic in resamples of whole contexts.
    """
    groups = places_by_context(responses, np.flatnonzero(~np.isnan(responses.target())))
    rng = np.random.default_rng(0)
    values = []
    for _ in range(resamples):
        drawn = rng.integers(0, len(groups), len(groups))
        places = np.concatenate([groups[k] for k in drawn])
        values.append(statistic(responses, scores, places) or 0.0)
    return np.array(values)


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """
    Return Spearman over the places where both are known; `None` where there are fewer
    than three, or all are alike.
    """
    known = ~(np.isnan(first) | np.isnan(second))
    if known.sum() < 3 or np.ptp(first[known]) == 0 or np.ptp(second[known]) == 0:
        return None
    return float(spearmanr(first[known], second[known]).statistic)
