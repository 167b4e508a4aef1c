"""
A ranking by a tournament: the games of a run, who won what, and the rating.

The rating stands in `ranking.json` as one more dimension, and everything behind it
under ``tournament``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.floors import is_floor
from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.core.signature import PART_SEPARATOR
from parlai_ext.ranking.agreement import mean_ranks
from parlai_ext.ranking.ratings import SHUFFLES, ranked, sum_of_ranks
from parlai_ext.ranking.tournament import mean_raw, tournament
from parlai_ext.ranking.tournament_summary import METHODS, rating_data, summary
from parlai_ext.results.tables import Tables

RULE, RATING = 'tournament', 'openskill'
OVERALL, RANK = 'overall', 'rank'
SUMS = 'sum_of_ranks'

Values = Mapping[str, float]


@dataclass(frozen=True)
class Crown:
    """
    What a tournament adds to a ranking.

    :param name: the dimension that holds its rating.
    :param data: what `ranking.json` holds under ``tournament``.
    :param target: what the rating is compared with, larger is better.
    """

    name: str
    data: Mapping[str, Any]
    target: Values
    kind: str

    @property
    def chosen(self) -> Mapping[str, Any]:
        """
        The rating that ranks.
        """
        found: Mapping[str, Any] = self.data['ratings'][self.data['rating']]
        return found


def signed(found: Crown | None) -> str:
    """
    Return what of the rating belongs into a ranking's signature.
    """
    return '' if found is None else f'{PART_SEPARATOR}{found.chosen["signature"]}'


def kept(found: Crown | None) -> dict[str, Any]:
    """
    Return what `ranking.json` holds of the tournament itself.
    """
    return {} if found is None else {'tournament': {**found.data, 'name': found.name}}


def asked(settings: Mapping[str, Any]) -> bool:
    """
    Tell whether the ``ranking:`` section asks for a tournament.
    """
    return settings.get('rule') == RULE


def split(
    given: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], Values]:
    """
    Return the reference without what a tournament's rating is compared with, and that.

    These are the values called ``Overall``, or ``rank``, of which the smallest is best.

    :param given: dimension -> system -> value, or human judgements.
    """
    rest = dict(given)
    target: Values = {}
    if asked(settings):
        for name in given:
            if name.casefold() in (OVERALL, RANK):
                target = _target(rest.pop(name), name.casefold() == RANK)
    return rest, target


def _target(
    given: Mapping[str, float] | Sequence[HumanJudgement], best_low: bool
) -> Values:
    """
    Return one number a system, larger is better: of judges, their mean rank negated.
    """
    sign = -1.0 if best_low else 1.0
    if isinstance(given, Mapping):
        return {name: sign * value for name, value in given.items()}
    said: dict[str, dict[str, list[float]]] = {}
    for one in given:
        own = said.setdefault(one.rater or '', {})
        own.setdefault(one.system, []).append(sign * one.value)
    ranks = mean_ranks(
        {
            rater: ranked({name: math.fsum(of) / len(of) for name, of in own.items()})
            for rater, own in said.items()
        }
    )
    return {name: -rank for name, rank in ranks.items() if rank is not None}


def crown(
    tables: Tables,
    settings: Mapping[str, Any],
    *,
    target: Values,
    kind: str,
    seed: int,
) -> Crown | None:
    """
    Play the tournament that the ``ranking:`` section asks for; `None` when none is.

    :param tables: with the run's games.
    """
    if not asked(settings):
        return None
    names = {d.casefold(): d for d in tables.scores}
    name = 'Rating' if OVERALL in names else OVERALL.capitalize()
    strangers = sorted(set(target) - set(tables.systems))
    if target and len(strangers) == len(target):
        raise UserError(f'reference: {name}: no target {strangers[0]!r}')
    data = tournament_data(tables, settings, target, seed)
    if strangers:
        data['notes'].append(f'reference values of no target: {", ".join(strangers)}')
    return Crown(name, data, target, kind)


def tournament_data(
    tables: Tables, settings: Mapping[str, Any], target: Values, seed: int
) -> dict[str, Any]:
    """
    Return the tournament as plain data, its ratings compared with the reference.
    """
    games = tables.games
    chosen = settings.get('rating') or RATING
    shuffles = settings.get('shuffles') or SHUFFLES
    between = [game for game in games if game.first != game.second]
    judged = {d for game in between for of in game.raw.values() for d in of}
    results = tournament(
        between,
        dimensions=[d for d in tables.scores if d in judged],
        systems=tables.systems,
    )
    ranks = claimed_ranks(target)
    methods = [m for m in dict.fromkeys((chosen, *METHODS)) if m != SUMS]
    found = summary(results, methods, ranks=ranks, seed=seed, shuffles=shuffles)
    raw = {n: of for n, of in mean_raw(games).items() if n in tables.systems}
    found['ratings'][SUMS] = rating_data(sum_of_ranks(raw), ranks)
    found['notes'] = list(found['notes'])
    if chats := len(games) - len(between):
        found['notes'].append(f'{chats} self-chats are no games of two systems')
    return {**found, 'rating': chosen, 'shuffles': shuffles, 'seed': seed}


def claimed_ranks(target: Values) -> dict[str, float | None] | None:
    """
    Return ranks from the reference; floors are no part of any claim.
    """
    if not target:
        return None
    return ranked({n: v for n, v in target.items() if not is_floor(n)})
