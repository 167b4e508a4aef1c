"""
The ranking in plain sentences: who is first, who cannot be told apart, what to doubt.

Works on the dict that `ranking.json` holds. The sentences are plain text; whoever
prints them makes hidden characters visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parlai_ext.core.display import join_names, number, percent
from parlai_ext.core.floors import is_floor
from parlai_ext.core.signature import PART_SEPARATOR
from parlai_ext.report import tournament

Row = Mapping[str, Any]


def scorer_of(ranking: Mapping[str, Any]) -> str:
    """
    Return the scorer's part of a ranking's signature.
    """
    scorer = str(ranking['signature']).partition(PART_SEPARATOR)[2]
    if 'tournament' in ranking:
        return scorer.rpartition(PART_SEPARATOR)[0]
    return scorer


def not_comparable(ranking: Mapping[str, Any]) -> frozenset[str]:
    """
    Return the systems of whose contexts too many were cut to fit into the judge.
    """
    truncated = ranking.get('truncated') or {}  # early rankings do not tell
    return frozenset(n for n, one in truncated.items() if not one['comparable'])


def dimension_order(ranking: Mapping[str, Any]) -> list[str]:
    """
    Return the dimensions, the overall one first, the others as they come.
    """
    rated = (ranking.get('tournament') or {}).get('name')
    return sorted(
        ranking['dimensions'], key=lambda d: (d != rated, d.casefold() != 'overall')
    )


def dialogue_dimensions(ranking: Mapping[str, Any]) -> list[str]:
    """
    Return the dimensions on which dialogues have a score; a rating is no such.
    """
    rated = (ranking.get('tournament') or {}).get('name')
    return [d for d in dimension_order(ranking) if d != rated]


def ordered(rows: Sequence[Row]) -> list[Row]:
    """
    Return rows by rank, then score, then name; those without a rank last.
    """

    def key(row: Row) -> tuple[Any, ...]:
        score = row['score']
        missing = score is None
        place = (row['rank'] is None, row['rank'] or 0)
        return (*place, missing, 0 if missing else -score, row['system'])

    return sorted(rows, key=key)


def sentences(ranking: Mapping[str, Any]) -> list[str]:
    """
    Return what a reader should take home, most important first.
    """
    dimensions = dimension_order(ranking)
    if not dimensions:
        return ['No dialogue has a score, so there is no ranking.']
    main, *others = dimensions
    said = [_first(ranking, main)]
    if others:
        said.append(_elsewhere(ranking, others))
    found = ranking.get('reference', {}).get(main)
    if found:
        said.append(f'{main}: {agreement(found)}.')
    return said


def _first(ranking: Mapping[str, Any], main: str) -> str:
    if (ranking.get('tournament') or {}).get('name') == main:
        return tournament.leader(ranking)
    return leader(ranking['dimensions'][main], main)


def leader(rows: Sequence[Row], dimension: str) -> str:
    """
    Say who is first on a dimension and who cannot be told apart from the first.
    """
    ranked = [r for r in ordered(rows) if r['rank'] is not None]
    if not ranked:
        return f'On {dimension} no system could be ranked.'
    top, *rest = ranked
    if not rest:
        return f'On {dimension}, {top["system"]} is the only ranked system.'
    start = f'On {dimension}, {top["system"]} comes first of {len(ranked)} systems'
    tied = [r['system'] for r in rest if r['rank'] == top['rank']]
    if tied:
        return f'{start}; this run cannot tell it apart from {join_names(tied, "or")}.'
    if top['rank_high'] == top['rank']:
        return f'{start}, and its lead over every other is more than chance explains.'
    return f'{start}, and no other shares its rank.'


def warnings(ranking: Mapping[str, Any]) -> list[str]:
    """
    Return what should make a reader doubt the ranking.
    """
    found: list[str] = []
    dimensions = dimension_order(ranking)
    where: dict[tuple[str, str], list[str]] = {}
    for dimension in dimensions:
        for pair in _floors_above(ranking['dimensions'][dimension]):
            where.setdefault(pair, []).append(dimension)
    for (floor, systems), places in where.items():
        found.append(
            f'On {join_names(places)} the floor {floor} scores above {systems}.'
        )
    as_good = [one for d in dimensions if (one := _baselines_as_good(ranking, d))]
    if as_good:
        found.append(
            'Something trivial agrees with the reference as well as the scorer does: '
            f'{"; ".join(as_good)}.'
        )
    for name, failure in ranking.get('failures', {}).items():
        if failure.get('ranked') is False:
            share = percent(failure['share'])
            found.append(f'{name} is not ranked: {share} of its dialogues failed.')
    for name in sorted(not_comparable(ranking)):
        share = percent(ranking['truncated'][name]['share'])
        found.append(
            f'The scores of {name} are not comparable: {share} of its contexts were '
            'too long for the judge, which read them in part.'
        )
    return found


def agreement(found: Mapping[str, Any]) -> str:
    """
    Say how well mean scores agree with the reference.
    """
    kind = 'the planted order' if found.get('kind') == 'planted' else 'people'
    start = f'agreement with {kind}'
    if found['spearman']['value'] is None:
        return f'{start} is not known ({found.get("reason") or "no reason given"})'
    return (
        f'{start}: Spearman {coefficient(found["spearman"])}, '
        f'Kendall {coefficient(found["kendall"])}, {found["n"]} systems'
    )


def coefficient(one: Mapping[str, Any]) -> str:
    """
    Return a correlation with its interval, if it has one.
    """
    if one['low'] is None or one['high'] is None:
        return number(one['value'])
    return f'{number(one["value"])} [{number(one["low"])}, {number(one["high"])}]'


def words(name: str) -> str:
    """
    Return a baseline's name as words.
    """
    return name.replace('_', ' ').replace('distinct 2', 'distinct-2')


def _elsewhere(ranking: Mapping[str, Any], dimensions: Sequence[str]) -> str:
    """
    Say who is first on the other dimensions.
    """
    firsts: dict[str, list[str]] = {}
    for dimension in dimensions:
        ranked = [r for r in ordered(ranking['dimensions'][dimension]) if r['rank']]
        name = ranked[0]['system'] if ranked else 'nobody'
        firsts.setdefault(name, []).append(dimension)
    said = '; '.join(f'{name} on {join_names(where)}' for name, where in firsts.items())
    return f'First on the other dimensions, alone or tied: {said}.'


def _floors_above(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """
    Return each floor that scores above a system, and those systems: a sign that the
    scorer rewards the wrong.
    """
    scored = [r for r in rows if r['rank'] is not None and r['score'] is not None]
    found = []
    for floor in (r for r in scored if is_floor(r['system'])):
        below = [
            r['system']
            for r in scored
            if not is_floor(r['system']) and r['score'] < floor['score']
        ]
        if below:
            found.append((floor['system'], join_names(below)))
    return found


def _baselines_as_good(ranking: Mapping[str, Any], dimension: str) -> str:
    """
    Name trivial baselines that agree with the reference as well as the scorer does.
    """
    which = leading_coefficient(ranking, dimension)
    own = ranking.get('reference', {}).get(dimension, {}).get(which, {})
    mine = own.get('value')
    if mine is None or mine <= 0:
        return ''  # said where the agreement is
    as_good = []
    for name, found in ranking.get('baseline_reference', {}).items():
        value = found.get(dimension, {}).get(which, {}).get('value')
        # a strong agreement upside down says as much about the data
        if value is not None and abs(value) >= mine:
            as_good.append(f'{words(name)} {number(value)}')
    if not as_good:
        return ''
    return f'on {dimension} {join_names(as_good)} against {number(mine)}'


def leading_coefficient(ranking: Mapping[str, Any], dimension: str) -> str:
    """
    Return the coefficient that papers give: Kendall's for ratings, else Spearman's.
    """
    rated = dimension == (ranking.get('tournament') or {}).get('name')
    return 'kendall' if rated else 'spearman'
