"""
What people think of the systems: a ranking with intervals, and how far people agree.

Annotators stand where the automatic ranking has partners: the wide interval holds for
annotators like these, the narrow one for these. What is drawn anew beside them are
contexts (openers), with all that was said about them.

Comparisons are ranked by Bradley-Terry. The score of a system is the share of
comparisons that it would win if it met each other system equally often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.people.judgements import Comparison, Judgements, win_values
from parlai_ext.ranking.agreement import SYSTEM_MEANS, Correlation, correlate
from parlai_ext.ranking.annotator_agreement import (
    Alpha,
    HalfAgreement,
    agreement_of_halves,
    krippendorff_alpha,
)
from parlai_ext.ranking.bradley_terry import strengths_of_draws
from parlai_ext.ranking.intervals import FEWEST_PARTNERS, Draws, draw_counts
from parlai_ext.ranking.standings import Standing, rank_dimension, rank_draws
from parlai_ext.ranking.table import Floats

BOOTSTRAPS = 1000
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
    rankings = []
    by_dimension: dict[str, list[HumanJudgement]] = defaultdict(list)
    for rating in judgements.ratings:
        by_dimension[rating.dimension].append(rating)
    for dimension, ratings in by_dimension.items():
        rankings.append(_rank_ratings(dimension, ratings, judgements, bootstraps, seed))
    compared: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in judgements.comparisons:
        compared[comparison.dimension].append(comparison)
    for dimension, comparisons in compared.items():
        rankings.append(
            _rank_comparisons(
                dimension, comparisons, judgements.contexts, bootstraps, seed
            )
        )
    return rankings


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
    bootstraps: int,
    seed: int,
) -> PeopleRanking:
    """
    Rank systems by the mean of their ratings.
    """
    units = unit_means(ratings)
    systems = sorted({system for system, _, _ in units})
    annotators = sorted({name for given in units.values() for name in given})
    dialogues = {unit: unit[:2] for unit in units}
    problems = dimension in judgements.lower_is_better
    result = rank_dimension(
        _rating_table(units, judgements.contexts, systems, annotators),
        systems,
        dimension,
        ranked=None,
        n_dialogues=[
            sum(of == name for of, _ in set(dialogues.values())) for name in systems
        ],
        n_unscored=[0] * len(systems),
        bootstraps=bootstraps,
        seed=seed,
        higher_is_better=not problems,
        partners=_partners(len(annotators)),
    )
    return PeopleRanking(
        dimension,
        'share of turns with it, fewer are better' if problems else 'mean rating',
        len(ratings),
        len(annotators),
        len(units),
        result.standings,
        krippendorff_alpha(units, 'ordinal'),
        agreement_of_halves(units, {u: u[0] for u in units}, seed=seed),
        agreement_of_halves(units, dialogues, seed=seed),
        higher_is_better=not problems,
    )


def _rating_table(
    units: Mapping[Unit, Mapping[str, float]],
    contexts: Mapping[str, str],
    systems: Sequence[str],
    annotators: Sequence[str],
) -> Floats:
    """
    Return mean ratings ``[system, annotator, context]``, NaN where there are none.
    """
    seen = sorted({contexts.get(dialogue, dialogue) for _, dialogue, _ in units})
    places = [
        {name: i for i, name in enumerate(n)} for n in (systems, annotators, seen)
    ]
    sums = np.zeros([len(names) for names in places])
    counts = np.zeros_like(sums)
    for (system, dialogue, _), given in units.items():
        context = contexts.get(dialogue, dialogue)
        for annotator, value in given.items():
            cell = places[0][system], places[1][annotator], places[2][context]
            sums[cell] += value
            counts[cell] += 1
    with np.errstate(invalid='ignore'):
        return np.asarray(sums / counts)


# ------------------------------------------------------------------------- comparisons


def _rank_comparisons(
    dimension: str,
    comparisons: Sequence[Comparison],
    contexts: Mapping[str, str],
    bootstraps: int,
    seed: int,
) -> PeopleRanking:
    """
    Rank systems by Bradley-Terry.
    """
    systems = sorted({n for c in comparisons for n in (c.first, c.second)})
    annotators = sorted({c.annotator for c in comparisons})
    draws = comparison_draws(comparisons, systems, contexts, bootstraps, seed)
    dialogues = {
        name: len({w.dialogue_id for w in win_values(comparisons) if w.system == name})
        for name in systems
    }
    items: dict[tuple[str, str], dict[str, float]] = {}
    for c in comparisons:
        items.setdefault((c.item, c.first_dialogue), {})[c.annotator] = c.value
    wins = unit_means(win_values(comparisons))  # the shares of comparisons won
    return PeopleRanking(
        dimension,
        'share of comparisons won (Bradley-Terry)',
        len(comparisons),
        len(annotators),
        len(items),
        rank_draws(
            draws,
            systems,
            dimension,
            [dialogues[name] for name in systems],
            partners=_partners(len(annotators)),
        ),
        krippendorff_alpha(items, 'nominal'),
        agreement_of_halves(wins, {u: u[0] for u in wins}, seed=seed),
        agreement_of_halves(wins, {u: u for u in wins}, seed=seed),
    )


def unit_means(judgements: Iterable[HumanJudgement]) -> dict[Unit, dict[str, float]]:
    """
    Return the mean of each annotator's judgements of each unit.
    """
    values: dict[Unit, dict[str, list[float]]] = {}
    for one in judgements:
        unit = (one.system, one.dialogue_id or '', one.utterance_index)
        values.setdefault(unit, {}).setdefault(one.rater or '', []).append(one.value)
    return {
        unit: {name: float(np.mean(some)) for name, some in given.items()}
        for unit, given in values.items()
    }


def comparison_draws(
    comparisons: Sequence[Comparison],
    systems: Sequence[str],
    contexts: Mapping[str, str],
    bootstraps: int,
    seed: int,
) -> Draws:
    """
    Return the systems' win shares, and bootstrap draws of them.
    """
    index = {name: i for i, name in enumerate(systems)}
    pairs = np.array([(index[c.first], index[c.second]) for c in comparisons])
    values = np.array([c.value for c in comparisons])
    seen = [contexts.get(c.first_dialogue, c.item) for c in comparisons]
    names, context = np.unique(seen, return_inverse=True)
    raters, rater = np.unique([c.annotator for c in comparisons], return_inverse=True)
    rng, other_rng = (np.random.default_rng([seed, k]) for k in (0, 1))
    by_context = draw_counts(len(names), bootstraps, rng)[:, context]
    by_rater = draw_counts(len(raters), bootstraps, other_rng)[:, rater]
    ones = np.ones((1, len(values)))
    means = win_shares(ones, pairs, values, len(systems))[0]
    fixed = win_shares(by_context, pairs, values, len(systems)) - means
    sampled = win_shares(by_context * by_rater, pairs, values, len(systems)) - means
    takes_part = [(pairs == i).any(axis=1) for i in range(len(systems))]
    return Draws(
        means,
        fixed,
        sampled if len(raters) >= FEWEST_PARTNERS else fixed,
        np.array([len(set(context[part])) for part in takes_part]),
        np.array([len(set(rater[part])) for part in takes_part]),
    )


def win_shares(weights: Floats, pairs: Floats, values: Floats, size: int) -> Floats:
    """
    Return ``[draw, system]``: the mean chance of each system to win against another.

    :param weights: ``[draw, comparison]``: how often each comparison was drawn.
    :param pairs: ``[comparison, 2]``: the places of the two systems.
    :param values: of each comparison, 1 if the first won, 0.5 for a tie.
    """
    wins = np.zeros((len(weights), size * size))
    for (i, j), places in _by_pair(pairs).items():
        drawn = weights[:, places]
        wins[:, i * size + j] += drawn @ values[places]
        wins[:, j * size + i] += drawn @ (1 - values[places])
    strengths = strengths_of_draws(wins.reshape(-1, size, size))
    chances = 1 / (1 + np.exp(strengths[:, None, :] - strengths[:, :, None]))
    return np.asarray((chances.sum(axis=2) - 0.5) / (size - 1))


def _by_pair(pairs: Floats) -> dict[tuple[int, int], list[int]]:
    """
    Return the places of the comparisons of each pair of systems.
    """
    places: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, (i, j) in enumerate(pairs.tolist()):
        places[i, j].append(place)
    return places


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
