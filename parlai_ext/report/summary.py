"""
The ranking in plain sentences: who is first, who cannot be told apart, what to doubt.

The sentences are plain text; hidden characters in names are made visible where they are
printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from parlai_ext.core.display import join_names, number, percent
from parlai_ext.core.floors import is_floor
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report import tournament
from parlai_ext.results.ranking import Agreement, Coefficient, Ranking


def sentences(ranking: Ranking) -> list[str]:
    """
    Return the findings of a ranking as sentences, most important first.
    """
    if not ranking.dimensions:
        return ['No dialogue has a score, so there is no ranking.']
    main, *others = ranking.dimensions
    if ranking.tournament is not None:
        lines = [tournament.leader_sentence(ranking.tournament)]
    else:
        lines = [leader_sentence(ranking.standings[main], main)]
    if others:
        lines.append(_other_dimensions_sentence(ranking, others))
    if agreement := ranking.reference.get(main):
        lines.append(f'{main}: {agreement_text(agreement)}.')
    return lines


def leader_sentence(standings: Sequence[Standing], dimension: str) -> str:
    """
    Return which system is first on a dimension and which cannot be told apart from it.
    """
    ranked = [
        standing for standing in best_first(standings) if standing.rank is not None
    ]
    if not ranked:
        return f'On {dimension} no system could be ranked.'
    top, *others = ranked
    if not others:
        return f'On {dimension}, {top.system} is the only ranked system.'
    start = f'On {dimension}, {top.system} comes first of {len(ranked)} systems'
    tied = [standing.system for standing in others if standing.rank == top.rank]
    if tied:
        return f'{start}; this run cannot tell it apart from {join_names(tied, "or")}.'
    if top.rank_high == top.rank:
        return f'{start}, and its lead over every other is more than chance explains.'
    return f'{start}, and no other shares its rank.'


def _other_dimensions_sentence(ranking: Ranking, dimensions: Sequence[str]) -> str:
    """
    Return which system is first on each of the other dimensions.
    """
    firsts: dict[str, list[str]] = {}
    for dimension in dimensions:
        ranked = [
            standing
            for standing in best_first(ranking.standings[dimension])
            if standing.rank
        ]
        name = ranked[0].system if ranked else 'nobody'
        firsts.setdefault(name, []).append(dimension)
    parts = [f'{name} on {join_names(where)}' for name, where in firsts.items()]
    return f'First on the other dimensions, alone or tied: {"; ".join(parts)}.'


def warnings(ranking: Ranking) -> list[str]:
    """
    Return the reasons to doubt the ranking, as sentences.
    """
    lines: list[str] = []
    dimensions_by_pair: dict[tuple[str, str], list[str]] = {}
    for dimension in ranking.dimensions:
        for pair in _floors_above(ranking.standings[dimension]):
            dimensions_by_pair.setdefault(pair, []).append(dimension)
    for (floor, systems), where in dimensions_by_pair.items():
        lines.append(
            f'On {join_names(where)} the floor {floor} scores above {systems}.'
        )
    as_good = [
        _baselines_as_good(ranking, dimension) for dimension in ranking.dimensions
    ]
    if any(as_good):
        lines.append(
            'Something trivial agrees with the reference as well as the scorer does: '
            f'{"; ".join(filter(None, as_good))}.'
        )
    for name, failures in ranking.failures.items():
        if failures.ranked is False:
            share = percent(failures.share)
            lines.append(f'{name} is not ranked: {share} of its dialogues failed.')
    for name, cut in sorted((ranking.truncated or {}).items()):
        if not cut.comparable:
            lines.append(
                f'The scores of {name} are not comparable: {percent(cut.share)} of its '
                'contexts were too long for the judge, which read them in part.'
            )
    return lines


def _floors_above(standings: Sequence[Standing]) -> list[tuple[str, str]]:
    """
    Return each floor that scores above systems, and these systems as a list in words:
    a sign that the scorer rewards the wrong thing.
    """
    scored = [
        (standing.system, standing.score)
        for standing in standings
        if standing.rank is not None and standing.score is not None
    ]
    pairs = []
    for floor, floor_score in scored:
        below = [
            name
            for name, score in scored
            if is_floor(floor) and not is_floor(name) and score < floor_score
        ]
        if below:
            pairs.append((floor, join_names(below)))
    return pairs


def _baselines_as_good(ranking: Ranking, dimension: str) -> str:
    """
    Return the trivial baselines that agree with the reference as well as the scorer
    does, in words; nothing when none does.
    """
    name = ranking.leading_coefficient(dimension)

    def coefficient(agreement: Agreement | None) -> float | None:
        return getattr(agreement, name).value if agreement else None

    scorers_value = coefficient(ranking.reference.get(dimension))
    if scorers_value is None or scorers_value <= 0:
        return ''  # said where the agreement is
    as_good = []
    for baseline, by_dimension in ranking.baseline_reference.items():
        value = coefficient(by_dimension.get(dimension))
        # a strong agreement upside down says as much about the data
        if value is not None and abs(value) >= scorers_value:
            as_good.append(f'{baseline_words(baseline)} {number(value)}')
    if not as_good:
        return ''
    return f'on {dimension} {join_names(as_good)} against {number(scorers_value)}'


def agreement_text(agreement: Agreement) -> str:
    """
    Return how well scores agree with the reference, in words.
    """
    kind = 'the planted order' if agreement.kind == 'planted' else 'people'
    start = f'agreement with {kind}'
    if agreement.spearman.value is None:
        return f'{start} is not known ({agreement.reason or "no reason given"})'
    return (
        f'{start}: Spearman {coefficient_text(agreement.spearman)}, '
        f'Kendall {coefficient_text(agreement.kendall)}, {agreement.n} systems'
    )


def coefficient_text(coefficient: Coefficient) -> str:
    """
    Return a coefficient as text, with its interval if it has one.
    """
    value = number(coefficient.value)
    if coefficient.low is None or coefficient.high is None:
        return value
    return f'{value} [{number(coefficient.low)}, {number(coefficient.high)}]'


def baseline_words(name: str) -> str:
    """
    Return a baseline's name as words.
    """
    return name.replace('_', ' ').replace('distinct 2', 'distinct-2')
