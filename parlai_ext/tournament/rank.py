"""
A ranking by a tournament: the games of a run, their points, and the rating.

The rating is one more dimension of the ranking; everything behind it is the ranking's
`tournament`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from parlai_ext.core import PART_SEPARATOR, RankingOptions, UserError, is_floor
from parlai_ext.ranking.agreement import correlate_with_ranks
from parlai_ext.ranking.games import award_points, mean_raw
from parlai_ext.ranking.intervals import FEWEST_OPENERS, json_number, system_means
from parlai_ext.ranking.ratings import (
    FOOTBALL,
    NORMAL_BOUND,
    Rating,
    rate,
    sum_of_ranks,
)
from parlai_ext.ranking.standings import (
    Standing,
    rank_ranges,
    ranks_by_score,
)
from parlai_ext.results.ranking import (
    OVERALL,
    Agreement,
    Ranking,
    Reference,
    RunScores,
    ScoreTables,
    TournamentResult,
    Values,
)

SUM_OF_RANKS = 'sum_of_ranks'
# shown beside the rating that ranks
SHOWN_RATINGS = ('openskill', 'bradley_terry', *FOOTBALL)


def with_tournament(
    ranking: Ranking, scores: RunScores, reference: Reference
) -> Ranking:
    """
    Return a ranking with the rating of its games as the first dimension, where its
    protocol ranks by one.

    :raises UserError: when the reference of the rating names no target.
    """
    if not scores.options.is_tournament:
        return ranking
    tables, seed = scores.tables, scores.run.plan.protocol.seed
    result = play_tournament(tables, scores.options, reference, seed)
    rating, name = result.chosen_rating, result.name
    standings = rating_standings(result, tables, scores.ranked.tolist())
    compared, baselines = ranking.reference, {**ranking.baseline_reference}
    if reference.rating:
        of_rating = rating_agreement(rating.values, reference, rating.reason)
        compared = {name: of_rating, **compared}
        for baseline, own in ranking.baseline_reference.items():
            means = system_means(tables.signed_baselines[baseline]).tolist()
            values = dict(zip(tables.systems, map(json_number, means), strict=True))
            baselines[baseline] = {**own, name: rating_agreement(values, reference)}
    return replace(
        ranking,
        signature=PART_SEPARATOR.join([ranking.signature, rating.signature]),
        standings={name: standings, **ranking.standings},
        reference=compared,
        baseline_reference=baselines,
        tournament=result,
    )


def play_tournament(
    tables: ScoreTables, options: RankingOptions, reference: Reference, seed: int
) -> TournamentResult:
    """
    Return the points and ratings of a run's games, compared with the reference.

    :raises UserError: when the reference of the rating names no target.
    """
    names = {dimension.casefold() for dimension in tables.scores}
    name = 'Rating' if OVERALL in names else OVERALL.capitalize()
    between = [game for game in tables.games if game.first != game.second]
    compared = {d for game in between for own in game.raw.values() for d in own}
    tournament = award_points(
        between,
        dimensions=[d for d in tables.scores if d in compared],
        systems=tables.systems,
    )
    ratings = {
        method: rate(tournament, method, seed=seed, shuffles=options.shuffles)
        for method in dict.fromkeys((options.rating, *SHOWN_RATINGS))
        if method != SUM_OF_RANKS
    }
    ratings[SUM_OF_RANKS] = sum_of_ranks(mean_raw(tables.games, tables.systems))
    notes = [*tournament.notes()]
    if self_chats := len(tables.games) - len(between):
        notes.append(f'{self_chats} self-chats are no games of two systems')
    if unknown := unknown_in_reference(reference, tables.systems, name):
        notes.append(f'reference values of no target: {", ".join(unknown)}')
    return TournamentResult(
        systems=tournament.systems,
        dimensions=tournament.dimensions,
        n_games=len(tournament.results),
        cross_table=tournament.cross_table(),
        dimension_points=tournament.dimension_points(),
        records=tournament.records(),
        ratings=with_taus(ratings, reference),
        incomplete=tournament.incomplete(),
        notes=tuple(notes),
        rating=options.rating,
        shuffles=options.shuffles,
        seed=seed,
        name=name,
    )


def with_taus(
    ratings: Mapping[str, Rating], reference: Reference
) -> Mapping[str, Rating]:
    """
    Return ratings with Kendall's tau-b to the human ranks, if there are any.
    """
    if reference.rating_ranks is None:
        return ratings
    compared = {}
    for method, rating in ratings.items():
        tau = correlate_with_ranks(rating.values, reference.rating_ranks)
        tau = replace(tau, reason=rating.reason or tau.reason)
        compared[method] = replace(rating, tau=tau)
    return compared


def unknown_in_reference(
    reference: Reference, systems: Sequence[str], name: str
) -> list[str]:
    """
    Return the systems of the reference that are no targets.

    :param name: of the dimension, for the message.
    :raises UserError: when none of them is one.
    """
    unknown = sorted(set(reference.rating) - set(systems))
    if unknown and len(unknown) == len(reference.rating):
        raise UserError(f'reference: {name}: no target {unknown[0]!r}')
    return unknown


def rating_standings(
    result: TournamentResult, tables: ScoreTables, takes_part: Sequence[bool]
) -> tuple[Standing, ...]:
    """
    Return the standings by the rating that was chosen to rank the systems.

    The interval is 1.96 standard deviations to each side, where the rating knows them;
    the ranks left open are those that such differences leave open. With fewer than
    three distinct openers there are neither.

    :param takes_part: which of the targets are ranked.
    """
    rating, num_openers = result.chosen_rating, tables.distinct_openers()
    ranked = {
        name: value
        for name, part in zip(tables.systems, takes_part, strict=True)
        if part and (value := rating.values.get(name)) is not None
    }
    ranks = dict(zip(ranked, ranks_by_score(list(ranked.values())), strict=True))
    ranges = _open_ranks(ranked, rating.spreads)
    undefined = f'undefined: {rating.reason or "none of its games has a result"}'
    standings = []
    for name in tables.systems:
        value, spread = rating.values.get(name), rating.spreads.get(name)
        low = high = rank_low = rank_high = None
        if num_openers[name] >= FEWEST_OPENERS:
            rank_low, rank_high = ranges.get(name, (None, None))
            if value is not None and spread is not None:
                reach = NORMAL_BOUND * spread
                low, high = json_number(value - reach), json_number(value + reach)
        records = result.records[name]
        played = sum(n for key, n in records.items() if key.startswith('games_'))
        standings.append(
            Standing(
                name,
                ranks.get(name),
                rank_low,
                rank_high,
                value,
                low=low,
                high=high,
                low_fixed=low,
                high_fixed=high,
                n_dialogues=tables.n_dialogues[name],
                n_unscored=max(0, tables.n_dialogues[name] - played),
                why_unranked=undefined if value is None else None,
                n_openers=num_openers[name],
            )
        )
    return tuple(standings)


def _open_ranks(ranked: Values, spreads: Values) -> dict[str, tuple[int, int]]:
    """
    Return the best and worst ranks that the uncertainty of the ratings leaves open;
    none where a rating does not know its uncertainty.
    """
    if not set(ranked) <= set(spreads):
        return {}
    values = np.array([*ranked.values()])
    deviations = np.array([spreads[name] for name in ranked])
    reach = NORMAL_BOUND * np.hypot(deviations[:, None], deviations)
    better = values[:, None] - values > reach
    return dict(zip(ranked, rank_ranges(better), strict=True))


def rating_agreement(
    values: Mapping[str, float | None], reference: Reference, reason: str | None = None
) -> Agreement:
    """
    Return how well ratings, or other values of systems, agree with the reference.

    :param reason: why the values are undefined, if they are.
    """
    claimed = {name: value for name, value in values.items() if not is_floor(name)}
    ranks = reference.rating_ranks or {}
    agreement = Agreement.from_correlations(
        {
            name: correlate_with_ranks(claimed, ranks, name)
            for name in ('spearman', 'kendall')
        },
        reference.kind,
    )
    if agreement.kendall.value is None:
        return replace(agreement, reason=reason or agreement.reason)
    return replace(agreement, reason='no interval: a rating is of the whole tournament')
