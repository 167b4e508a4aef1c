"""
How near responses are to the corpora on which the learned judge was tried, and from
which nearness on a run is called unlike them.

    python -m benchmarks.learned_judge --data FOLDER --cache FOLDER --corpora
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as tensor_bytes
from scipy.cluster.vq import kmeans2
from scipy.stats import spearmanr

from benchmarks.learned_judge.items import training_sets
from parlai_ext.files import read_file
from parlai_ext.files.agreement_file import MeasuredAgreement
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.judged_corpora import (
    THRESHOLD,
    JudgedCorpora,
    vector_in_dialogue,
)
from parlai_ext.scoring.learned import unit_vectors

UNLIKE = Path(__file__).with_name('unlike.yaml')
SAMPLE = 150  # responses of each corpus
POINTS = 4  # means of clusters, for each corpus
SEED = 0
RUN = 30  # responses of a run that is drawn to try a threshold
RUNS = 500  # drawn of each corpus
FALSE_ALARMS = 0.05  # of runs over corpora that are left out, on average


def drawn_items(name: str, items: Sequence[ScoringItem]) -> list[ScoringItem]:
    """
    Return the responses that stand for a corpus, each with its last turn.
    """
    drawn = random.Random(name).sample(list(items), min(SAMPLE, len(items)))
    return [ScoringItem(one.context[-1:], one.response) for one in drawn]


def other_texts() -> dict[str, dict[str, list[ScoringItem]]]:
    """
    Return texts that are unlike the corpora, by sort and kind; each line answers the
    line before it.
    """
    return {
        sort: {
            kind: [ScoringItem((turn,), response) for turn, response in pairwise(lines)]
            for kind, lines in kinds.items()
        }
        for sort, kinds in read_file(UNLIKE).data.items()
    }


def vectors_of(items: Sequence[ScoringItem], encoder: Any) -> np.ndarray:
    """
    Return ``[items, features]``, the vectors of responses with their last turns.
    """
    vectors = unit_vectors(encoder, items)
    rows = [
        vector_in_dialogue(
            vectors[one.response or ''],
            np.array([vectors[turn] for turn in one.context]),
        )
        for one in items
    ]
    return np.stack(rows).astype(np.float32)


def points_of(vectors: np.ndarray) -> np.ndarray:
    """
    Return the points that stand for a corpus, of unit length, in half precision.
    """
    centres, owners = kmeans2(vectors, POINTS, minit='++', seed=SEED)
    some = centres[np.unique(owners)]
    lengths = np.linalg.norm(some, axis=1, keepdims=True)
    return np.asarray(some / lengths, np.float16)


def corpora_of(
    points: Mapping[str, np.ndarray], threshold: float = 0.0
) -> JudgedCorpora:
    """
    Return corpora from their points.
    """
    tensors = {**points, THRESHOLD: np.array([threshold])}
    return JudgedCorpora.from_tensors(tensors)


@dataclass(frozen=True)
class TriedCorpus:
    """
    A corpus that was left out, or texts of another kind: the nearness of each response
    to the corpora that are left, and the corpus to which most of them are nearest.
    """

    name: str
    nearness: np.ndarray
    nearest: str

    @classmethod
    def from_vectors(
        cls, name: str, vectors: np.ndarray, corpora: JudgedCorpora
    ) -> TriedCorpus:
        """
        Return how near these vectors are.
        """
        found = [corpora.nearest(vector) for vector in vectors]
        places = [place for _, place in found]
        nearest = corpora.names[int(np.bincount(places).argmax())]
        return cls(name, np.array([value for value, _ in found]), nearest)

    def run_means(self) -> np.ndarray:
        """
        Return the mean nearness of runs of `RUN` responses, drawn with replacement.
        """
        rng = np.random.default_rng(SEED)
        return rng.choice(self.nearness, (RUNS, RUN)).mean(1)

    def flagged(self, threshold: float) -> float:
        """
        Return the share of runs whose mean is below a threshold.
        """
        return float((self.run_means() < threshold).mean())


def left_out(vectors: Mapping[str, np.ndarray]) -> list[TriedCorpus]:
    """
    Return how near each corpus is to those that share no corpus and no study with it.
    """
    points = {name: points_of(own) for name, own in vectors.items()}
    return [
        TriedCorpus.from_vectors(
            name,
            vectors[name],
            corpora_of(
                {other: points[other] for other in training_sets(name, [*vectors])}
            ),
        )
        for name in vectors
    ]


def chosen_threshold(tried: Sequence[TriedCorpus]) -> float:
    """
    Return the threshold that flags the allowed share of runs over corpora that were
    left out.
    """
    means = np.concatenate([one.run_means() for one in tried])
    return round(float(np.quantile(means, FALSE_ALARMS)), 2)


def corpora_lines(
    tried: Sequence[TriedCorpus],
    others: Mapping[str, Sequence[TriedCorpus]],
    rows: Sequence[MeasuredAgreement],
    threshold: float,
) -> list[str]:
    """
    Return the table of docs/learned_method.md, and the sentence below it.

    :param rows: agreement of judges that were learned without each set.
    """
    agreement = {row.set: row.spearman for row in rows if row.level == 'turn'}
    lines = [
        f'| texts | nearness | runs of {RUN} below {threshold:.2f} | nearest corpus '
        '| agreement (turns) |',
        '|---|---|---|---|---|',
    ]
    sorts = {'left out': tried, **others}
    for sort, some in sorts.items():
        for one in sorted(some, key=lambda one: -one.nearness.mean()):
            value = agreement.get(one.name)
            lines.append(
                f'| {sort.replace("_", " ")}: {one.name} | {one.nearness.mean():.2f} '
                f'| {one.flagged(threshold):.0%} | {one.nearest} | '
                f'{"" if value is None else f"{value:.2f}"} |'
            )
    both = [
        (one.nearness.mean(), agreement[one.name])
        for one in tried
        if one.name in agreement
    ]
    test = spearmanr(*np.array(both).T)
    return [
        *lines,
        '',
        f'Spearman of nearness and agreement over {len(both)} corpora: '
        f'{test.statistic:.2f} (p = {test.pvalue:.2f}).',
    ]


def corpora_bytes(points: Mapping[str, np.ndarray], threshold: float) -> bytes:
    """
    Return the file of the corpora.
    """
    return tensor_bytes({**points, THRESHOLD: np.array([threshold], np.float32)})
