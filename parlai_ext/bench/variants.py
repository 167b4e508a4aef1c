"""
How well variants of a scorer agree with people: Spearman and Pearson, with intervals.

At level ``dialogue`` an item is a dialogue: a system's mean score in it beside the mean
of what people said of that system in it. At level ``system`` an item is a system: both
means once more, over its dialogues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from parlai_ext.core.dialogue_means import dialogue_means
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.floors import is_floor
from parlai_ext.core.nouns import Dialogue, HumanJudgement, ScoredDialogue
from parlai_ext.ranking.agreement import agreement_data, correlate_items
from parlai_ext.scoring.base import Scorer

SCHEMA = 1
SEED = 0

Key = tuple[str, str]  # system, dialogue
Values = dict[Key, float | None]


@dataclass
class Scores:
    """
    The mean score of each system in each dialogue, by variant and dimension.

    `None` is a dialogue without a score; `reasons` has the first reason for one.
    `n_cut` of `n_contexts` were too long for the judge.
    """

    dimensions: tuple[str, ...]
    variants: tuple[str, ...]
    values: dict[tuple[str, str], Values] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    n_contexts: int = 0
    n_cut: int = 0

    def of(self, variant: str, dimension: str) -> Values:
        """
        Return system and dialogue -> value.
        """
        return self.values.get((variant, dimension), {})

    def keys(self) -> list[Key]:
        """
        Return every system in every dialogue that was judged.
        """
        return list(dict.fromkeys(key for own in self.values.values() for key in own))


def variant_scores(
    pairs: Iterable[tuple[Dialogue, ScoredDialogue]], scorer: Scorer
) -> Scores:
    """
    Return the dialogue means of every variant of a scorer, or of the scorer itself.

    :param pairs: dialogues with their scores.
    """
    found = Scores(scorer.dimensions, scorer.variants or (scorer.name,))
    for dialogue, scored in pairs:
        found.n_contexts += len(scored.evidence)
        found.n_cut += len(scored.truncated)
        systems = dict.fromkeys(score.system for score in scored.scores)
        for variant in found.variants:
            again = scored
            if scorer.variants:
                again = scorer.rescored(dialogue, scored, variant)
            for score in again.scores:
                if score.reason is not None:
                    found.reasons.setdefault((variant, score.dimension), score.reason)
            for name in systems:
                means = dialogue_means(dialogue, again, name)
                for dimension in scorer.dimensions:
                    own = found.values.setdefault((variant, dimension), {})
                    own[name, dialogue.id] = means.get(dimension)
    return found


def agreement(
    scores: Scores,
    human: Sequence[HumanJudgement],
    *,
    source: str,
    bootstraps: int,
) -> dict[str, Any]:
    """
    Return a row for every level, dimension and variant, and notes on what fits nothing.

    Floors are no part of it. Judgements without a dialogue are of systems only.

    :param source: where the judgements come from, for mistakes in them.
    :raises UserError: when judgements are of other dimensions, systems or dialogues.
    """
    said = [one for one in human if not is_floor(one.system)]
    check(scores, said, source)
    keys = set(scores.keys())
    rows: list[dict[str, Any]] = []
    for level, dimension, people in asked(said, scores.dimensions, keys):
        for variant in scores.variants:
            own = scores.of(variant, dimension)
            values = by_system(own) if level == 'system' else own
            row: dict[str, Any] = {
                'level': level,
                'dimension': dimension,
                'variant': variant,
            }
            row |= correlated(values, people, bootstraps)
            if not row['n'] and (variant, dimension) in scores.reasons:
                row['reason'] = scores.reasons[variant, dimension]
            rows.append(row)
    return {'schema': SCHEMA, 'rows': rows, 'notes': notes(scores, human)}


def asked(
    human: Sequence[HumanJudgement], dimensions: Sequence[str], keys: set[Key]
) -> Iterator[tuple[str, str, Mapping[Any, float]]]:
    """
    Yield level, dimension and what people said, item by item.
    """
    levels: list[tuple[str, str, Mapping[Any, float]]] = []
    for dimension in dimensions:
        own = [one for one in human if one.dimension == dimension]
        if not own:
            continue
        if own[0].dialogue_id is None:
            systems = {name for name, _ in keys}
            said = means((o.system, o.value) for o in own if o.system in systems)
            levels.append(('system', dimension, said))
            continue
        each = ((pair_of(one), one.value) for one in own)
        people = means((key, value) for key, value in each if key in keys)
        levels.append(('dialogue', dimension, people))
        whole = means((system, value) for (system, _), value in people.items())
        levels.append(('system', dimension, whole))
    yield from sorted(levels, key=lambda one: one[0])  # stable: dialogue first


def correlated(
    values: Mapping[Any, float | None],
    people: Mapping[Any, float],
    bootstraps: int,
) -> dict[str, Any]:
    """
    Return the agreement over items that have both; `dropped` have no score.
    """
    items = [key for key in sorted(people) if values.get(key) is not None]
    correlations = correlate_items(
        [values[key] for key in items],  # type: ignore[misc]
        [people[key] for key in items],
        bootstraps=bootstraps,
        seed=SEED,
    )
    return agreement_data(correlations, dropped=len(people) - len(items))


def by_system(values: Values) -> dict[str, float | None]:
    """
    Return each system's mean over its dialogues with a score.
    """
    known = ((key[0], value) for key, value in values.items() if value is not None)
    return dict(means(known))


def means(pairs: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    """
    Return the mean of the values of each key.
    """
    found: dict[Any, list[float]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: fsum(own) / len(own) for key, own in found.items()}


def pair_of(one: HumanJudgement) -> Key:
    """
    Return system and dialogue of a judgement of a dialogue.
    """
    return one.system, one.dialogue_id or ''


def check(scores: Scores, human: Sequence[HumanJudgement], source: str) -> None:
    """
    Refuse judgements that fit nothing, one kind of mistake after another.
    """
    keys = scores.keys()
    systems = {name for name, _ in keys}
    check_dimensions(scores.dimensions, human, source)
    for dimension in dict.fromkeys(one.dimension for one in human):
        own = [one for one in human if one.dimension == dimension]
        if len({one.dialogue_id is None for one in own}) > 1:
            raise UserError(
                f'{source}: column dialogue_id: {dimension}: every row needs one, or '
                'none may have one'
            )
        if not systems & {one.system for one in own}:
            hint = nearest(own[0].system, sorted(systems))
            raise UserError(f'{source}: column system: no {own[0].system!r}; {hint}')
        if own[0].dialogue_id and not set(keys) & {pair_of(one) for one in own}:
            raise UserError(
                f'{source}: column dialogue_id: {dimension}: no such dialogue of that '
                f'system: {own[0].dialogue_id!r} of {own[0].system!r}'
            )


def check_dimensions(
    dimensions: Sequence[str], human: Sequence[HumanJudgement], source: str
) -> None:
    """
    Refuse judgements of what is not asked; nothing needs to be scored for that.
    """
    for one in human:
        if not is_floor(one.system) and one.dimension not in dimensions:
            hint = nearest(one.dimension, dimensions)
            raise UserError(f'{source}: column dimension: no {one.dimension!r}; {hint}')


def notes(scores: Scores, human: Sequence[HumanJudgement]) -> list[str]:
    """
    Return what a reader must be told of what was left out.
    """
    keys = set(scores.keys())
    systems = {name for name, _ in keys}
    strangers = [
        one
        for one in human
        if one.system not in systems or (one.dialogue_id and pair_of(one) not in keys)
    ]
    judged = {one.dimension for one in human}
    silent = [name for name in scores.dimensions if name not in judged]
    floors = sorted({one.system for one in human if is_floor(one.system)})
    found = []
    if scores.n_cut:
        part = f'{scores.n_cut} of {scores.n_contexts}'
        found.append(f'{part} contexts were too long for the judge, which read a part')
    if strangers:
        found.append(f'{len(strangers)} judgements are of no scored dialogue or system')
    if silent:
        found.append(f'nobody judged: {", ".join(silent)}')
    if floors:
        found.append(f'floors, no part of it: {", ".join(floors)}')
    return found
