"""
The ranking in plain sentences: who is first, who cannot be told apart, what to doubt.

The sentences are plain text; hidden characters in names are made visible where they are
printed.
"""

import math
from collections import defaultdict
from types import MappingProxyType

from parlai_ext.core import frozen, grouped, is_floor
from parlai_ext.judge_check.record import FAIL
from parlai_ext.ranking.intervals import FEWEST_FOR_OTHERS, FEWEST_OPENERS
from parlai_ext.ranking.ratings import NORMAL_BOUND
from parlai_ext.ranking.standings import Separation, Standing, best_first
from parlai_ext.report import judge
from parlai_ext.report.view import Doubts
from parlai_ext.results.ranking import Ranking, TournamentResult
from parlai_ext.view import join_names, number
from parlai_ext.view.page import terminal_notes, terminal_sentence

NO_DOUBTS: Doubts = MappingProxyType({})
NARROW = 0.5  # an interval of a rating, of which one decimal would show little
NUMBERS = {2: 'two', 3: 'three'}  # of partners that cannot speak for others


def sentences(ranking: Ranking, doubts: Doubts = NO_DOUBTS) -> list[str]:
    """
    Return the findings of a ranking as sentences, most important first: the headline
    says who is first on the main dimension, or that the judge failed its check, or that
    the audit is against it.

    :param doubts: what its audit says against it.
    """
    if not ranking.dimensions:
        return ['No dialogue has a score, so there is no ranking.']
    main, *others = ranking.dimensions
    if ranking.tournament is not None:
        n_openers = leaders_on(ranking, main).n_openers
        leaders = tournament_sentence(ranking.tournament, n_openers)
    else:
        leaders = leader_sentence(ranking, main)
    return terminal_notes(
        'findings',
        leaders=leaders,
        failure=judge.failure_on(ranking, main),
        doubt=doubts.get(main),
        check=ranking.leading_check,
        others=grouped((news_on(ranking, name), name) for name in others),
    )


def news_on(ranking: Ranking, dimension: str) -> tuple[str, str]:
    """
    Return the kind of news on one of the other dimensions, and the system that is
    ``first`` on it where that is the news.
    """
    leaders = leaders_on(ranking, dimension)
    if judge.outcome_on(ranking, dimension) == FAIL:
        return 'failed', ''
    if leaders.separation is not None and not leaders.separation.n_apart:
        return 'unclear', ''
    return ('first', leaders.ranked[0].system) if leaders.ranked else ('unranked', '')


@frozen
class Leaders:
    """
    Who is first on a dimension, and what the data can say of that.

    :param where: the dimension and, where they are few, the partners.
    :param few_partners: how many they are, where they cannot speak for others; else ''.
    :param ranked: the ranked systems, best first.
    :param separation: what can be told apart; `None` with fewer than two systems.
    :param n_partners: with how many partners the systems have scores.
    """

    where: str
    few_partners: str
    ranked: list[Standing]
    separation: Separation | None
    n_partners: int

    @property
    def systems(self) -> list[Standing]:
        """
        The ranked systems without floors, unless there is nothing else.
        """
        return [one for one in self.ranked if not one.is_floor] or self.ranked

    @property
    def is_tied_with_all(self) -> bool:
        """
        True if no other system but floors can be told apart from the first.
        """
        others = {one.system for one in self.ranked[1:] if not one.is_floor}
        not_apart = self.separation.not_apart if self.separation else ()
        return bool(others) and others <= {*not_apart}

    @property
    def n_openers(self) -> int:
        """
        Over how many distinct openers the systems have scores.
        """
        return max((one.n_openers or 0 for one in self.ranked), default=0)

    @property
    def never_vary(self) -> bool:
        """
        True if the first and another system have the same score over every opener, so
        that neither has an interval.
        """
        constant = [one for one in self.ranked if one.low_fixed is None]
        return len(constant) > 1 and constant[0] is self.ranked[0]


def leaders_on(ranking: Ranking, dimension: str) -> Leaders:
    """
    Return who is first on a dimension of a ranking.
    """
    ordered = best_first(ranking.standings[dimension])
    ranked = [one for one in ordered if one.rank is not None]
    separation = (ranking.separation or {}).get(dimension)
    n_partners = max((one.n_partners or 0 for one in ranked), default=0)
    few = ''
    if ranking.partners == 'fixed' and 1 < n_partners < FEWEST_FOR_OTHERS:
        few = f'{NUMBERS[n_partners]} partners'
    where = f'{dimension}, with these {few}' if few else dimension
    return Leaders(where, few, ranked, separation, n_partners)


def leader_sentence(ranking: Ranking, dimension: str) -> str:
    """
    Return which system is first on a dimension, if any is, and which cannot be told
    apart from it; and how many dialogues would settle what is open.
    """
    return terminal_sentence(
        'leaders',
        dimension=dimension,
        leaders=leaders_on(ranking, dimension),
        # of imported dialogues no openers are known
        units='dialogues of a pair' if ranking.is_imported else 'openers',
        fewest=FEWEST_OPENERS,
    )


def systems_by_rating(result: TournamentResult) -> list[str]:
    """
    Return the systems of a tournament, best first; those without a rating last.
    """
    values = result.chosen_rating.values

    def key(name: str) -> tuple[bool, float, str]:
        value = values.get(name)
        return (value is None, -(value or 0.0), name)

    return sorted(result.systems, key=key)


def rating_text(result: TournamentResult, name: str) -> str:
    """
    Return a system's rating as text, with a standard deviation where there is one.
    """
    rating = result.chosen_rating
    spread = rating.spreads.get(name)
    # the interval reaches `NORMAL_BOUND` deviations to both sides
    digits = 2 if spread is not None and 2 * NORMAL_BOUND * spread < NARROW else 1
    shown = number(rating.values.get(name), digits)
    return shown if spread is None else f'{shown} ± {number(spread, digits)}'


def tournament_sentence(result: TournamentResult, n_openers: int) -> str:
    """
    Return which system is first by the rating, and whose ratings are near to it.

    :param n_openers: over how many distinct openers games were played.
    """
    names, values = systems_by_rating(result), result.chosen_rating.values
    best = values.get(names[0]) if names else None
    return terminal_sentence(
        'tournament_sentence',
        result=result,
        names=names,
        best=best,
        first=[name for name in names if values.get(name) == best],
        near=[name for name in names[1:] if _is_close_behind(result, names[0], name)],
        rating_text=rating_text,
        n_openers=n_openers,
        fewest_openers=FEWEST_OPENERS,
    )


def _is_close_behind(result: TournamentResult, leader: str, other: str) -> bool:
    """
    True if the leader's rating is above the other system's by at most 1.96 standard
    deviations of their difference; false if one of them has no standard deviation.
    """
    rating = result.chosen_rating
    best, value = rating.values.get(leader), rating.values.get(other)
    if best is None or value is None or not {leader, other} <= set(rating.spreads):
        return False
    deviation = math.hypot(rating.spreads[leader], rating.spreads[other])
    return best - value <= NORMAL_BOUND * deviation


def warnings(ranking: Ranking) -> list[str]:
    """
    Return the reasons to doubt the ranking, as sentences.
    """
    missing = ranking.missing_scores
    as_good = (baselines_as_good(ranking, name) for name in ranking.dimensions)
    return terminal_notes(
        'cautions',
        ranking=ranking,
        floors=systems_below_floors(ranking),
        as_good=list(filter(None, as_good)),
        unscored=missing.not_ranked if missing else (),
    )


def systems_below_floors(ranking: Ranking) -> dict[tuple[str, str], list[str]]:
    """
    Return the dimensions on which a floor scores above systems, by the floor and these
    systems in words: a sign that the scorer rewards the wrong thing.
    """
    floors = defaultdict(list)
    for dimension in ranking.dimensions:
        scored = [
            (one.system, one.score)
            for one in ranking.standings[dimension]
            if one.rank is not None and one.score is not None
        ]
        for floor, worth in scored:
            below = [n for n, own in scored if own < worth and not is_floor(n)]
            if is_floor(floor) and below:
                floors[floor, join_names(below)].append(dimension)
    return floors


def baselines_as_good(ranking: Ranking, dimension: str) -> str:
    """
    Return the trivial baselines that agree with the reference on a dimension as well as
    the scorer does, in words; '' where none does, or the scorer does not agree.
    """
    name = ranking.leading_coefficient(dimension)
    agreement = ranking.reference.get(dimension)
    own = getattr(agreement, name).value if agreement else None
    if own is None or own <= 0:
        return ''  # said where the agreement is
    better = []
    for baseline, by_dimension in ranking.baseline_reference.items():
        other = by_dimension.get(dimension)
        value = getattr(other, name).value if other else None
        # a strong agreement upside down says as much about the data
        if value is not None and abs(value) >= own:
            better.append(f'{baseline_words(baseline)} {number(value)}')
    against = f'{join_names(better)} against {number(own)}'
    return f'on {dimension} {against}' if better else ''


def baseline_words(name: str) -> str:
    """
    Return a baseline's name as words.
    """
    words = {'distinct_2': 'distinct-2', 'overlap': 'overlap with the partner'}
    return words.get(name, name.replace('_', ' '))
