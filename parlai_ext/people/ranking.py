"""
What people think of the systems: a ranking with intervals, and how far people agree.

Annotators stand where the automatic ranking has partners: the wide interval holds for
annotators like these, the narrow one for these. What is drawn anew beside them are
contexts (openers), with all that was said about them.

Comparisons are ranked by Bradley-Terry. The score of a system is the share of
comparisons that it would win if it met each other system equally often.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.core.progress import Counting, bar_of
from parlai_ext.people.judgements import Comparison, Judgements
from parlai_ext.ranking.agreement import SYSTEM_MEANS, Correlation, correlate
from parlai_ext.ranking.annotator_agreement import (
    Alpha,
    HalfAgreement,
    agreement_of_halves,
    krippendorff_alpha,
)
from parlai_ext.ranking.bradley_terry import strengths_of_draws
from parlai_ext.ranking.intervals import FEWEST_PARTNERS, Draws, draw_counts
from parlai_ext.ranking.standings import Standing, rank_draws
from parlai_ext.ranking.table import Floats

T = TypeVar('T', str, tuple[str, str])
BOOTSTRAPS = 1000
MOST_COUNTS = 2**20  # of contexts drawn at a time, eight bytes each
# system, dialogue, and the turn where turns are judged
Unit = tuple[str, str, int | None]


@dataclass(frozen=True)
class PeopleRanking:
    """
    The ranking of one dimension by people.

    :param method: ``mean rating`` or ``share of comparisons won (Bradley-Terry)``.
    :param num_answers: ratings or comparisons.
    :param alpha: of the answers to the same item, or about the same dialogue.
    :param halves_systems, halves_dialogues: over the means of systems, of dialogues.
    """

    dimension: str
    method: str
    num_answers: int
    num_annotators: int
    num_items: int
    standings: tuple[Standing, ...]
    alpha: Alpha
    halves_systems: HalfAgreement
    halves_dialogues: HalfAgreement
    higher_is_better: bool = True

    def values(self) -> dict[str, float | None]:
        """
        Return the score of each system.
        """
        return {standing.system: standing.score for standing in self.standings}


def rank_by_people(
    judgements: Judgements, bootstraps: int = BOOTSTRAPS, seed: int = 0
) -> list[PeopleRanking]:
    """
    Return a ranking for each dimension that was judged; ratings and comparisons of the
    same dimension are ranked apart.
    """
    rated: dict[str, list[HumanJudgement]] = defaultdict(list)
    for rating in judgements.ratings:
        rated[rating.dimension].append(rating)
    compared: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in judgements.comparisons:
        compared[comparison.dimension].append(comparison)
    total = bootstraps * (len(rated) + len(compared))
    with bar_of('rank', total, delay=1, unit='resample') as bar:
        resampling = Resampling(bootstraps, seed, bar)
        return [
            *(_rank_ratings(*one, judgements, resampling) for one in rated.items()),
            *(
                _rank_comparisons(*one, judgements.contexts, resampling)
                for one in compared.items()
            ),
        ]


@dataclass(frozen=True)
class Resampling:
    """
    How many resamples are drawn, by which seed, and the bar that counts them.
    """

    bootstraps: int
    seed: int
    bar: Counting


def _partners(num_annotators: int) -> str:
    """
    Return what claims are about: annotators like these, or these where there is one.
    """
    return 'sampled' if num_annotators >= FEWEST_PARTNERS else 'fixed'


# ----------------------------------------------------------------------------- ratings


def _rank_ratings(
    dimension: str,
    ratings: Sequence[HumanJudgement],
    judgements: Judgements,
    resampling: Resampling,
) -> PeopleRanking:
    """
    Rank systems by the mean of their ratings.
    """
    units = unit_means(
        (r.system, r.dialogue_id or '', r.utterance_index, r.rater or '', r.value)
        for r in ratings
    )
    systems = sorted({system for system, _, _ in units})
    dialogues = {unit: unit[:2] for unit in units}
    num_dialogues = Counter(system for system, _ in set(dialogues.values()))
    num_annotators = len({name for given in units.values() for name in given})
    problems = dimension in judgements.lower_is_better
    return PeopleRanking(
        dimension,
        'share of turns with it, fewer are better' if problems else 'mean rating',
        len(ratings),
        num_annotators,
        len(units),
        rank_draws(
            rating_draws(units, systems, judgements.contexts, resampling),
            systems,
            dimension,
            [num_dialogues[name] for name in systems],
            partners=_partners(num_annotators),
            higher_is_better=not problems,
        ),
        krippendorff_alpha(units, 'ordinal'),
        agreement_of_halves(units, {u: u[0] for u in units}, seed=resampling.seed),
        agreement_of_halves(units, dialogues, seed=resampling.seed),
        higher_is_better=not problems,
    )


def rating_draws(
    units: Mapping[Unit, Mapping[str, float]],
    systems: Sequence[str],
    contexts: Mapping[str, str],
    resampling: Resampling,
) -> Draws:
    """
    Return the systems' mean ratings, and bootstrap draws of them. What an annotator
    said of one system in one context is one value, the mean of it.
    """
    sizes = [len(given) for given in units.values()]
    row = {name: place for place, name in enumerate(systems)}
    of = np.repeat([row[system] for system, _, _ in units], sizes)
    _, context = _numbered([contexts.get(name, name) for _, name, _ in units])
    context = np.repeat(context, sizes)
    _, rater = _numbered([name for given in units.values() for name in given])
    values = np.array([value for given in units.values() for value in given.values()])
    sums = _by_system(values, context, rater, of, len(systems))
    counts = _by_system(np.ones(len(values)), context, rater, of, len(systems))
    means, tables = np.full(len(systems), np.nan), []
    for place, (total, number) in enumerate(zip(sums, counts, strict=True)):
        cells = total.data / number.data
        means[place] = math.fsum(cells) / len(cells)
        tables.append(_with_data(number, cells - means[place]))
        tables.append(_with_data(number, np.ones(len(cells))))
    fixed, sampled = drawn_sums(tables, resampling)
    with np.errstate(invalid='ignore'):
        fixed, sampled = (sums[:, ::2] / sums[:, 1::2] for sums in (fixed, sampled))
    num_raters = [len(np.unique(number.indices)) for number in counts]
    single = np.array(num_raters) < FEWEST_PARTNERS
    sampled[:, single] = fixed[:, single]
    num_contexts = [int((np.diff(number.indptr) > 0).sum()) for number in counts]
    return Draws(means, fixed, sampled, np.array(num_contexts), np.array(num_raters))


def _numbered(names: Sequence[T]) -> tuple[list[T], NDArray[np.int64]]:
    """
    Return the different names, sorted, and the place of each name among them.
    """
    different = sorted(set(names))
    places = {name: place for place, name in enumerate(different)}
    return different, np.array([places[name] for name in names], np.int64)


def _by_system(
    values: Floats,
    context: NDArray[np.int64],
    rater: NDArray[np.int64],
    of: NDArray[np.int64],
    size: int,
) -> list[csr_array]:
    """
    Return, for each system or pair, a sparse table ``[context, annotator]`` of the sums
    of its values.
    """
    shape = (int(context.max()) + 1, int(rater.max()) + 1)
    tables = []
    for place in range(size):
        mine = np.flatnonzero(of == place)
        entries = (values[mine], (context[mine], rater[mine]))
        tables.append(csr_array(entries, shape=shape))
    return tables


def _with_data(table: csr_array, data: Floats) -> csr_array:
    return csr_array((data, table.indices, table.indptr), shape=table.shape)


def drawn_sums(
    tables: Sequence[csr_array], resampling: Resampling
) -> tuple[Floats, Floats]:
    """
    Return ``[draw, table]``: the sums of sparse tables ``[context, annotator]`` when
    contexts are drawn, and when both contexts and annotators are, as `draw_means` draws
    openers and partners. Tables are not filled up: most annotators see few contexts.
    """
    num_contexts, num_annotators = tables[0].shape
    bootstraps, seed = resampling.bootstraps, resampling.seed
    context_rng, annotator_rng = (np.random.default_rng([seed, k]) for k in (0, 1))
    fixed = np.empty((bootstraps, len(tables)))
    sampled = np.empty_like(fixed)
    chunk = max(1, MOST_COUNTS // max(num_contexts, num_annotators))
    for start in range(0, bootstraps, chunk):
        rows = slice(start, min(start + chunk, bootstraps))
        size = rows.stop - rows.start
        by_context = draw_counts(num_contexts, size, context_rng).T.copy()
        by_annotator = draw_counts(num_annotators, size, annotator_rng).T
        for place, table in enumerate(tables):
            sums = table.T @ by_context
            fixed[rows, place] = sums.sum(axis=0)
            sampled[rows, place] = (sums * by_annotator).sum(axis=0)
        resampling.bar.update(size)
    return fixed, sampled


# ------------------------------------------------------------------------- comparisons


def _rank_comparisons(
    dimension: str,
    comparisons: Sequence[Comparison],
    contexts: Mapping[str, str],
    resampling: Resampling,
) -> PeopleRanking:
    """
    Rank systems by Bradley-Terry.
    """
    systems = sorted({n for c in comparisons for n in (c.first, c.second)})
    num_annotators = len({c.annotator for c in comparisons})
    items: dict[tuple[str, str], dict[str, float]] = {}
    for c in comparisons:
        items.setdefault((c.item, c.first_dialogue), {})[c.annotator] = c.value
    sides = [
        *((c.first, c.first_dialogue, None, c.annotator, c.value) for c in comparisons),
        *(
            (c.second, c.second_dialogue, None, c.annotator, 1 - c.value)
            for c in comparisons
        ),
    ]
    wins = unit_means(sides)  # the shares of comparisons won
    num_dialogues = Counter(system for system, _, _ in wins)
    return PeopleRanking(
        dimension,
        'share of comparisons won (Bradley-Terry)',
        len(comparisons),
        num_annotators,
        len(items),
        rank_draws(
            comparison_draws(comparisons, systems, contexts, resampling),
            systems,
            dimension,
            [num_dialogues[name] for name in systems],
            partners=_partners(num_annotators),
        ),
        krippendorff_alpha(items, 'nominal'),
        agreement_of_halves(wins, {u: u[0] for u in wins}, seed=resampling.seed),
        agreement_of_halves(wins, {u: u for u in wins}, seed=resampling.seed),
    )


def unit_means(
    judgements: Iterable[tuple[str, str, int | None, str, float]],
) -> dict[Unit, dict[str, float]]:
    """
    Return the mean of each annotator's judgements of each unit.

    :param judgements: system, dialogue, turn, annotator, value.
    """
    values: dict[Unit, dict[str, list[float]]] = {}
    for system, dialogue, turn, annotator, value in judgements:
        given = values.setdefault((system, dialogue, turn), {})
        given.setdefault(annotator, []).append(value)
    return {
        unit: {name: sum(some) / len(some) for name, some in given.items()}
        for unit, given in values.items()
    }


def comparison_draws(
    comparisons: Sequence[Comparison],
    systems: Sequence[str],
    contexts: Mapping[str, str],
    resampling: Resampling,
) -> Draws:
    """
    Return the systems' win shares, and bootstrap draws of them.
    """
    pairs, pair = _numbered([(c.first, c.second) for c in comparisons])
    values = np.array([c.value for c in comparisons])
    _, context = _numbered(
        [contexts.get(c.first_dialogue, c.item) for c in comparisons]
    )
    _, rater = _numbered([c.annotator for c in comparisons])
    won, lost = (
        _by_system(of_side, context, rater, pair, len(pairs))
        for of_side in (values, 1 - values)
    )
    index = {name: place for place, name in enumerate(systems)}
    sides = [(index[first], index[second]) for first, second in pairs]

    def shares(sums: Floats) -> Floats:
        wins = np.zeros((len(sums), len(systems), len(systems)))
        for k, (i, j) in enumerate(sides):
            wins[:, i, j] += sums[:, k]
            wins[:, j, i] += sums[:, len(pairs) + k]
        return win_shares(wins)

    tables = [*won, *lost]
    means = shares(np.array([[table.sum() for table in tables]]))[0]
    fixed, sampled = (shares(s) - means for s in drawn_sums(tables, resampling))
    played = np.array([[i in both for both in sides] for i in range(len(systems))])
    takes_part = played[:, pair]
    return Draws(
        means,
        fixed,
        sampled if rater.max() + 1 >= FEWEST_PARTNERS else fixed,
        np.array([len(np.unique(context[part])) for part in takes_part]),
        np.array([len(np.unique(rater[part])) for part in takes_part]),
    )


def win_shares(wins: Floats) -> Floats:
    """
    Return ``[draw, system]``: the mean chance of each system to win against another.

    :param wins: ``[draw, i, j]``: comparisons that i won against j, half for a tie.
    """
    strengths = strengths_of_draws(wins)
    chances = 1 / (1 + np.exp(strengths[:, None, :] - strengths[:, :, None]))
    return np.asarray((chances.sum(axis=2) - 0.5) / (wins.shape[1] - 1))


def agreement_with_order(
    ranking: PeopleRanking, order: Mapping[str, float]
) -> Correlation:
    """
    Return Spearman's coefficient of people's scores with values of the systems, over
    the systems that have both.
    """
    values = ranking.values()
    there = [name for name in sorted(order) if values.get(name) is not None]
    left = np.array([values[name] for name in there], float)
    right = np.array([order[name] for name in there], float)
    if not ranking.higher_is_better:
        left = -left
    return correlate(left, right, SYSTEM_MEANS, ['spearman'])['spearman']
