"""
What people think of the systems: a ranking with intervals, and how far people agree.

Annotators stand where the automatic ranking has partners: the wide interval holds for
annotators like these, the narrow one for these. What is drawn anew beside them are
contexts (openers), with all that was said about them.

Comparisons are ranked by Bradley-Terry. The score of a system is the share of
comparisons that it would win if it met each other system equally often.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    AnnotatorAgreement,
    agreement_of_halves,
    krippendorff_alpha,
)
from parlai_ext.ranking.bradley_terry import strengths_of_draws
from parlai_ext.ranking.intervals import FEWEST_PARTNERS, Draws, draw_ratios, draw_sums
from parlai_ext.ranking.standings import Standing, rank_draws
from parlai_ext.ranking.table import Floats

T = TypeVar('T', str, tuple[str, str])
BOOTSTRAPS = 1000
Places = NDArray[np.int64]
# system, dialogue, and the turn where turns are judged
Unit = tuple[str, str, int | None]
Units = Mapping[Unit, Mapping[str, float]]  # annotator -> value, of each unit


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
    halves_systems: AnnotatorAgreement
    halves_dialogues: AnnotatorAgreement
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
    ratings: dict[str, list[HumanJudgement]] = defaultdict(list)
    for rating in judgements.ratings:
        ratings[rating.dimension].append(rating)
    comparisons: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in judgements.comparisons:
        comparisons[comparison.dimension].append(comparison)
    total = bootstraps * (len(ratings) + len(comparisons))
    with bar_of('rank', total, delay=1, unit='resample') as bar:
        resampling = Resampling(bootstraps, seed, bar)
        return [
            *(_rank_ratings(some, judgements, resampling) for some in ratings.values()),
            *(
                _rank_comparisons(some, judgements.contexts, resampling)
                for some in comparisons.values()
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


def _rank_ratings(
    ratings: Sequence[HumanJudgement], judgements: Judgements, resampling: Resampling
) -> PeopleRanking:
    """
    Rank systems by the mean of their ratings.
    """
    units = unit_means(
        (r.system, r.dialogue_id or '', r.utterance_index, r.rater or '', r.value)
        for r in ratings
    )
    problems = ratings[0].dimension in judgements.lower_is_better
    return _ranking(
        'share of turns with it, fewer are better' if problems else 'mean rating',
        ratings,
        units,
        rating_draws(units, judgements.contexts, resampling),
        krippendorff_alpha(units, 'ordinal'),
        resampling.seed,
        higher_is_better=not problems,
    )


def _rank_comparisons(
    comparisons: Sequence[Comparison],
    contexts: Mapping[str, str],
    resampling: Resampling,
) -> PeopleRanking:
    """
    Rank systems by Bradley-Terry.
    """
    shares_won = unit_means(
        (system, dialogue, None, c.annotator, value)
        for c in comparisons
        for system, dialogue, value in c.sides
    )
    items: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for c in comparisons:
        items[c.item, c.first_dialogue][c.annotator] = c.value
    ranking = _ranking(
        'share of comparisons won (Bradley-Terry)',
        comparisons,
        shares_won,
        comparison_draws(comparisons, contexts, resampling),
        krippendorff_alpha(items, 'nominal'),
        resampling.seed,
    )
    return replace(ranking, num_items=len(items))


def _ranking(
    method: str,
    answers: Sequence[HumanJudgement | Comparison],
    units: Units,
    draws: Draws,
    alpha: Alpha,
    seed: int,
    higher_is_better: bool = True,
) -> PeopleRanking:
    """
    Return the ranking of the systems of ``units``, each of which is an item.

    :param draws: of the scores of the systems, in the order of their names.
    """
    dimension = answers[0].dimension
    dialogues = {unit: unit[:2] for unit in units}
    num_dialogues = Counter(system for system, _ in set(dialogues.values()))
    systems = sorted(num_dialogues)
    num_annotators = len({name for given in units.values() for name in given})
    # claims are about annotators like these, or these where there is one
    scope = 'sampled' if num_annotators >= FEWEST_PARTNERS else 'fixed'
    standings, _ = rank_draws(
        replace(draws, partners=scope),
        systems,
        dimension,
        [(num_dialogues[name], 0) for name in systems],
        higher_is_better=higher_is_better,
    )
    return PeopleRanking(
        dimension,
        method,
        len(answers),
        num_annotators,
        num_items=len(units),
        standings=tuple(standings),
        alpha=alpha,
        halves_systems=agreement_of_halves(units, {u: u[0] for u in units}, seed=seed),
        halves_dialogues=agreement_of_halves(units, dialogues, seed=seed),
        higher_is_better=higher_is_better,
    )


def unit_means(
    judgements: Iterable[tuple[str, str, int | None, str, float]],
) -> Units:
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


def rating_draws(
    units: Units, contexts: Mapping[str, str], resampling: Resampling
) -> Draws:
    """
    Return the mean ratings of the systems, in the order of their names, and bootstrap
    draws of them. What an annotator said of one system in one context is one value, the
    mean of it.
    """
    sizes = [len(given) for given in units.values()]
    _, system = number_names([name for name, _, _ in units])
    _, context = number_names([contexts.get(name, name) for _, name, _ in units])
    _, rater = number_names([name for given in units.values() for name in given])
    places = np.repeat(system, sizes), np.repeat(context, sizes), rater
    values = np.array([value for given in units.values() for value in given.values()])
    cells, ones = [], []
    for total, number in zip(
        sparse_tables(values, *places),
        sparse_tables(np.ones(len(values)), *places),
        strict=True,
    ):
        cell = (total.data / number.data, number.indices, number.indptr)
        cells.append(csr_array(cell, number.shape))
        ones.append(csr_array((np.ones_like(number.data), *cell[1:]), number.shape))
    return draw_ratios(
        cells, ones, resampling.bootstraps, resampling.seed, resampling.bar.update
    )


def number_names(names: Sequence[T]) -> tuple[list[T], Places]:
    """
    Return the different names, sorted, and the place of each name among them.
    """
    different = sorted(set(names))
    places = {name: place for place, name in enumerate(different)}
    return different, np.array([places[name] for name in names], np.int64)


def sparse_tables(
    values: Floats, table: Places, context: Places, rater: Places
) -> list[csr_array]:
    """
    Return sparse tables ``[context, annotator]`` of the sums of values.

    :param table: the place of the table that each value is in.
    """
    shape = (int(context.max()) + 1, int(rater.max()) + 1)
    tables = []
    for place in range(int(table.max()) + 1):
        mine = np.flatnonzero(table == place)
        entries = (values[mine], (context[mine], rater[mine]))
        tables.append(csr_array(entries, shape=shape))
    return tables


def comparison_draws(
    comparisons: Sequence[Comparison],
    contexts: Mapping[str, str],
    resampling: Resampling,
) -> Draws:
    """
    Return the win shares of the systems, in the order of their names, and bootstrap
    draws of them.
    """
    systems = sorted({n for c in comparisons for n in (c.first, c.second)})
    pairs, pair = number_names([(c.first, c.second) for c in comparisons])
    values = np.array([c.value for c in comparisons])
    _, context = number_names(
        [contexts.get(c.first_dialogue, c.item) for c in comparisons]
    )
    _, rater = number_names([c.annotator for c in comparisons])
    won, lost = (sparse_tables(v, pair, context, rater) for v in (values, 1 - values))
    tables = [*won, *lost]
    sides = np.array([[systems.index(n) for n in names] for names in pairs])

    def shares(sums: Floats) -> Floats:
        wins = np.zeros((len(sums), len(systems), len(systems)))
        for k, (i, j) in enumerate(sides):
            wins[:, i, j] += sums[:, k]
            wins[:, j, i] += sums[:, len(pairs) + k]
        return win_shares(wins)

    means = shares(np.array([[table.sum() for table in tables]]))[0]
    drawn = draw_sums(
        tables, resampling.bootstraps, resampling.seed, resampling.bar.update
    )
    fixed, sampled = (shares(sums) - means for sums in drawn)
    plays = [(sides[pair] == i).any(axis=1) for i in range(len(systems))]
    return Draws(
        means,
        fixed,
        sampled if rater.max() + 1 >= FEWEST_PARTNERS else fixed,
        np.array([len(np.unique(context[part])) for part in plays]),
        np.array([len(np.unique(rater[part])) for part in plays]),
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
    sign = 1 if ranking.higher_is_better else -1
    values = ranking.values()
    pairs = [
        (sign * v, order[n])
        for n, v in sorted(values.items())
        if n in order and v is not None
    ]
    left, right = np.array(pairs, float).reshape(-1, 2).T
    return correlate(left, right, SYSTEM_MEANS, ['spearman'])['spearman']
