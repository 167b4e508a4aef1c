"""
The judge beside the teams of DSTC10 Track 5, and against trivial numbers item by item.

Every agreement is that of a judge learned without the set and without all that shares a
corpus or a study with it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.learned_judge.fit import (
    RESAMPLES,
    Material,
    places_by_context,
    spearman,
)
from benchmarks.learned_judge.items import SETS, ResponseSet
from parlai_ext.bench.bench_table import FITTED
from parlai_ext.bench.published import published_tables
from parlai_ext.ranking.comparison import holm
from parlai_ext.training.fit_judge import rank_labels

# what every scorer has to beat, and two scorers that cost little
TRIVIAL = {
    'length': 'words',
    'distinct': 'distinct_words',
    'repetition': 'pairs_in_own',
    'overlap': 'in_last',
}
CHEAP = {'relevance': 'near_last', 'likelihood': 'likelihood'}
NUMBERS = {**TRIVIAL, **CHEAP}
FLIPS = 10000
Scores = Mapping[str, np.ndarray]  # by set


def track_lines(material: Material, scores: Mapping[str, Scores]) -> Iterator[str]:
    """
    Yield the tables of the Track over the sets that are here: 100 times the mean
    Spearman over a set's qualities, with the average that the Track takes of them.

    :param scores: by scorer.
    """
    for table in published_tables():
        names = [name for name in table.rows if name in SETS]
        counts = [table.qualities.get(name, 1) for name in names]
        yield f'{table.phase} sets: {", ".join(names)}'
        for team, average in zip(table.columns, table.averages(names), strict=True):
            yield f'{team:12} {average:6.1f}'
        for scorer, by_set in scores.items():
            parts = [set_row(material.sets[name], by_set[name]) for name in names]
            drawn = np.average([p.drawn for p in parts], axis=0, weights=counts)
            low, high = np.quantile(drawn, [0.025, 0.975])
            mean = np.average([p.value for p in parts], weights=counts)
            cells = ' '.join(f'{p.value:.1f}' for p in parts)
            yield f'{scorer:12} {mean:6.1f} [{low:.1f}, {high:.1f}]   {cells}'
    yield (
        f'{FITTED}: fitted on human scores of these sets, but each number is of a '
        'judge learned without the set and all that shares a corpus or a study with it'
    )


@dataclass(frozen=True)
class SetRow:
    """
    What a scorer has on a set: 100 times the mean Spearman over its qualities.

    :param drawn: the same in resamples of contexts, or of judged dialogues.
    """

    value: float
    drawn: np.ndarray


def set_row(responses: ResponseSet, scores: np.ndarray) -> SetRow:
    """
    Return the row of a set; dialogues that were judged whole have the mean of their
    turns.
    """
    qualities = {quality for one in responses.responses for quality in one.human}
    columns = {quality: responses.values(quality) for quality in sorted(qualities)}
    groups = places_by_context(responses, range(len(responses.responses)))
    if all(one.dialogue for one in responses.responses):
        dialogues = defaultdict(list)
        for i, one in enumerate(responses.responses):
            dialogues[one.dialogue, one.system].append(i)
        first = [places[0] for places in dialogues.values()]
        columns = {quality: values[first] for quality, values in columns.items()}
        scores = np.array([scores[places].mean() for places in dialogues.values()])
        groups = [np.array([i]) for i in range(len(first))]
    rng = np.random.default_rng(0)
    drawn = [
        _mean_spearman(scores, columns, np.concatenate([groups[k] for k in chosen]))
        for chosen in rng.integers(0, len(groups), (RESAMPLES, len(groups)))
    ]
    whole = np.arange(len(scores))
    return SetRow(_mean_spearman(scores, columns, whole), np.array(drawn))


def _mean_spearman(
    scores: np.ndarray, columns: Mapping[str, np.ndarray], places: np.ndarray
) -> float:
    values = [spearman(scores[places], column[places]) for column in columns.values()]
    known = [value for value in values if value is not None]
    return 100 * float(np.mean(known)) if known else np.nan


def paired_lines(
    material: Material, learned: Scores, names: Sequence[str]
) -> Iterator[str]:
    """
    Yield by trivial number: the mean difference of Spearman over sets, and the p-value
    (one-sided, Holm over the numbers) of a test that swaps the ranks of judge and
    number in whole contexts.
    """
    differences, p_values = zip(
        *(
            _flipped(
                [
                    _context_sums(
                        material, name, learned[name], material.number(name, number)
                    )
                    for name in names
                ]
            )
            for number in NUMBERS.values()
        ),
        strict=True,
    )
    rows = zip(NUMBERS, differences, holm(p_values), strict=True)
    for label, difference, adjusted in rows:
        yield f'{label:12} {difference:+.3f}  p {adjusted:.4f}'


def _context_sums(
    material: Material, name: str, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    responses = material.sets[name]
    human = rank_labels(responses.target())
    known = ~np.isnan(human)
    columns = []
    for scores in (first, second):
        kept = np.where(known, scores, np.nan)
        columns.append(rank_labels(kept))
    products = np.where(known, (columns[0] - columns[1]) * human, 0) / known.sum()
    groups = places_by_context(responses, range(len(responses.responses)))
    return np.array([products[places].sum() for places in groups])


def _flipped(sums: Sequence[np.ndarray]) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    observed = float(np.mean([one.sum() for one in sums]))
    drawn = np.mean(
        [rng.choice((-1.0, 1.0), (FLIPS, len(one))) @ one for one in sums], axis=0
    )
    return observed, (1 + float((drawn >= observed).sum())) / (1 + FLIPS)
