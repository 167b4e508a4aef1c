"""
What a ranking is compared with: people, or an order planted beforehand.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import HumanJudgement, is_floor
from parlai_ext.core.protocol import Protocol
from parlai_ext.ranking.agreement import mean_ranks
from parlai_ext.ranking.ratings import rank_values
from parlai_ext.results.tables import ScoreTables

# reference values of these dimensions are compared with a tournament's rating
OVERALL, RANK = 'overall', 'rank'

# system -> value, or judgements of systems
Values = Mapping[str, float]
DimensionReference = Values | Sequence[HumanJudgement]


@dataclass(frozen=True)
class Reference:
    """
    Reference values or judgements by dimension, and those of a tournament's rating.

    `rating` maps a system to a value, larger is better; it is empty where the mean
    scores are ranked. `given_now` is true for judgements that a user gave for this
    ranking: what fits nothing is then a mistake, otherwise a note.
    """

    kind: str
    by_dimension: Mapping[str, DimensionReference]
    rating: Values
    given_now: bool

    @property
    def rating_ranks(self) -> dict[str, float | None] | None:
        """
        The ranks of the systems by `rating`, floors left out; `None` without values.
        """
        if not self.rating:
            return None
        return rank_values({n: v for n, v in self.rating.items() if not is_floor(n)})


def read_reference(
    protocol: Protocol, human: Sequence[HumanJudgement], is_tournament: bool
) -> Reference:
    """
    Return the protocol's reference, or the human judgements that replace it.

    In a tournament the values called ``Overall``, or ``rank`` (the smallest is best),
    are those that the rating is compared with.
    """
    kind = protocol.reference_kind or 'human'
    by_dimension: dict[str, DimensionReference] = dict(protocol.reference)
    if human:
        judgements: dict[str, list[HumanJudgement]] = {}
        for judgement in human:
            judgements.setdefault(judgement.dimension, []).append(judgement)
        kind, by_dimension = 'human', dict(judgements)
    rating: Values = {}
    for name in list(by_dimension) if is_tournament else ():
        if name.casefold() in (OVERALL, RANK):
            best_is_smallest = name.casefold() == RANK
            rating = _rating_reference(by_dimension.pop(name), best_is_smallest)
    return Reference(kind, by_dimension, rating, bool(human))


def _rating_reference(given: DimensionReference, best_is_smallest: bool) -> Values:
    """
    Return one number for each system, larger is better.

    Of judgements that is the negated mean over annotators of the system's rank.
    """
    sign = -1.0 if best_is_smallest else 1.0
    if isinstance(given, Mapping):
        return {name: sign * value for name, value in given.items()}
    values: dict[str, dict[str, list[float]]] = {}
    for judgement in given:
        by_system = values.setdefault(judgement.rater or '', {})
        by_system.setdefault(judgement.system, []).append(sign * judgement.value)
    ranks = mean_ranks(
        {
            annotator: rank_values(
                {
                    name: math.fsum(numbers) / len(numbers)
                    for name, numbers in by_system.items()
                }
            )
            for annotator, by_system in values.items()
        }
    )
    return {name: -rank for name, rank in ranks.items() if rank is not None}


def match_reference(
    reference: Reference, tables: ScoreTables
) -> tuple[dict[str, DimensionReference], list[str]]:
    """
    Return the reference on dimensions that are scored, and notes on what fits nothing.

    :raises UserError: for a dimension without scores, or when no system fits, of a
        reference that was given now.
    """
    matching: dict[str, DimensionReference] = {}
    notes = []
    for dimension, values in reference.by_dimension.items():
        names = {v if isinstance(v, str) else v.system for v in values}
        unknown = sorted(names - set(tables.systems))
        if dimension not in tables.scores:
            problem = f'no scores on dimension {dimension!r}'
            hint = nearest(dimension, tables.scores)
        elif unknown and len(unknown) == len(names):
            problem = f'{dimension}: no target {unknown[0]!r}'
            hint = nearest(unknown[0], tables.systems)
        else:
            matching[dimension] = values
            if unknown:
                listed = ', '.join(unknown)
                notes.append(f'{dimension}: reference values of no target: {listed}')
            continue
        if reference.given_now:
            raise UserError(f'reference: {problem}; {hint}')
        notes.append(f'reference: {problem}')
    return matching, notes
