"""
How well a scorer agrees with people on dialogues: Spearman and Pearson, with intervals.

At level ``dialogue`` a point is a system in a dialogue: its mean score there, and the
mean of the human judgements of it there. At level ``system`` a point is a system: both
means once more, over its dialogues. A scorer with variants (FED without complaints) has
one row for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

SystemInDialogue = tuple[str, str]  # names of the system and of the dialogue
Means = dict[SystemInDialogue, float | None]


@dataclass
class MeanScores:
    """
    The mean score of each system in each dialogue, by variant and dimension.

    `None` is a dialogue without a score; `reasons` has the first reason for one.
    `n_cut` of `n_contexts` contexts were too long for the scorer's model.
    """

    dimensions: tuple[str, ...]
    variants: tuple[str, ...]
    means: dict[tuple[str, str], Means] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    n_contexts: int = 0
    n_cut: int = 0

    def dialogue_means(self, variant: str, dimension: str) -> Means:
        """
        Return the means by system and dialogue.
        """
        return self.means.get((variant, dimension), {})

    def system_means(self, variant: str, dimension: str) -> dict[str, float | None]:
        """
        Return each system's mean over its dialogues with a score.
        """
        means = self.dialogue_means(variant, dimension).items()
        scored_means = (
            (name, value) for (name, _), value in means if value is not None
        )
        return dict(mean_by_key(scored_means))

    def keys(self) -> list[SystemInDialogue]:
        """
        Return every system in every dialogue that was judged.
        """
        return list(
            dict.fromkeys(key for means in self.means.values() for key in means)
        )


@dataclass(frozen=True)
class HumanMeans:
    """
    Mean human judgements in one dimension, by system and dialogue or by system.
    """

    level: str
    dimension: str
    means: Mapping[Any, float]


def mean_scores(
    pairs: Iterable[tuple[Dialogue, ScoredDialogue]], scorer: Scorer
) -> MeanScores:
    """
    Return the dialogue means of every variant of a scorer, or of the scorer itself.

    :param pairs: dialogues with their scores.
    """
    scores = MeanScores(scorer.dimensions, tuple(scorer.variants) or (scorer.name,))
    for dialogue, scored in pairs:
        judged = {(score.system, score.utterance_index) for score in scored.scores}
        scores.n_contexts += len(scored.evidence) or len(judged)
        scores.n_cut += len(scored.truncated)
        for variant in scores.variants:
            variant_scores = scored
            if scorer.variants:
                variant_scores = scorer.rescored(dialogue, scored, variant)
            _add_means(scores, variant, dialogue, scored, variant_scores)
    return scores


def _add_means(
    scores: MeanScores,
    variant: str,
    dialogue: Dialogue,
    scored: ScoredDialogue,
    variant_scores: ScoredDialogue,
) -> None:
    """
    Add the mean scores of one dialogue's systems under one variant of the scorer.
    """
    for score in variant_scores.scores:
        if score.reason is not None:
            scores.reasons.setdefault((variant, score.dimension), score.reason)
    for name in dict.fromkeys(score.system for score in scored.scores):
        means = dialogue_means(dialogue, variant_scores, name)
        for dimension in scores.dimensions:
            column = scores.means.setdefault((variant, dimension), {})
            column[name, dialogue.id] = means.get(dimension)


def agreement(
    scores: MeanScores,
    human: Sequence[HumanJudgement],
    *,
    source: str,
    bootstraps: int,
) -> dict[str, Any]:
    """
    Return a row for every level, dimension and variant, and notes on what is left out.

    Floors are left out. Judgements without a dialogue are of systems only.

    :param source: where the judgements come from, for messages.
    :raises UserError: when judgements are of other dimensions, systems or dialogues.
    """
    ranked = [judgement for judgement in human if not is_floor(judgement.system)]
    check_judgements(scores, ranked, source)
    rows = [
        {
            'level': people.level,
            'dimension': people.dimension,
            'variant': variant,
            **_correlations(scores, variant, people, bootstraps),
        }
        for people in human_means(ranked, scores)
        for variant in scores.variants
    ]
    return {'schema': SCHEMA, 'rows': rows, 'notes': notes(scores, human)}


def human_means(
    human: Sequence[HumanJudgement], scores: MeanScores
) -> list[HumanMeans]:
    """
    Return the mean human judgements of every dimension, by dialogue where judgements
    name dialogues, and by system.
    """
    keys = set(scores.keys())
    systems = {name for name, _ in keys}
    columns: list[HumanMeans] = []
    for dimension in scores.dimensions:
        judgements = [
            judgement for judgement in human if judgement.dimension == dimension
        ]
        if judgements and judgements[0].dialogue_id is None:
            system_values = (
                (o.system, o.value) for o in judgements if o.system in systems
            )
            columns.append(HumanMeans('system', dimension, mean_by_key(system_values)))
        elif judgements:
            each = ((key_of(judgement), judgement.value) for judgement in judgements)
            means = mean_by_key((key, value) for key, value in each if key in keys)
            columns.append(HumanMeans('dialogue', dimension, means))
            by_system = mean_by_key((name, v) for (name, _), v in means.items())
            columns.append(HumanMeans('system', dimension, by_system))
    return sorted(columns, key=lambda column: column.level)  # stable: dialogue first


def _correlations(
    scores: MeanScores, variant: str, people: HumanMeans, bootstraps: int
) -> dict[str, Any]:
    """
    Return the correlations over the dialogues or systems that have a score and a human
    value; `dropped` counts those without a score.
    """
    values: Mapping[Any, float | None] = (
        scores.system_means(variant, people.dimension)
        if people.level == 'system'
        else scores.dialogue_means(variant, people.dimension)
    )
    scored_values = {key: value for key, value in values.items() if value is not None}
    points = [key for key in sorted(people.means) if key in scored_values]
    correlations = correlate_items(
        [scored_values[key] for key in points],
        [people.means[key] for key in points],
        bootstraps=bootstraps,
        seed=SEED,
    )
    row = agreement_data(correlations, dropped=len(people.means) - len(points))
    if not points and (variant, people.dimension) in scores.reasons:
        row['reason'] = scores.reasons[variant, people.dimension]
    return row


def mean_by_key(pairs: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    """
    Return the mean of the values of each key.
    """
    values: dict[Any, list[float]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: fsum(numbers) / len(numbers) for key, numbers in values.items()}


def key_of(judgement: HumanJudgement) -> SystemInDialogue:
    """
    Return system and dialogue of a judgement of a dialogue.
    """
    return judgement.system, judgement.dialogue_id or ''


def check_judgements(
    scores: MeanScores, human: Sequence[HumanJudgement], source: str
) -> None:
    """
    Refuse judgements of which none fits a dimension, a system or a dialogue.
    """
    keys = scores.keys()
    systems = {name for name, _ in keys}
    check_dimensions(scores.dimensions, human, source)
    for dimension in dict.fromkeys(judgement.dimension for judgement in human):
        judgements = [
            judgement for judgement in human if judgement.dimension == dimension
        ]
        if len({judgement.dialogue_id is None for judgement in judgements}) > 1:
            raise UserError(
                f'{source}: column dialogue_id: {dimension}: every row needs one, or '
                'none may have one'
            )
        if not systems & {judgement.system for judgement in judgements}:
            hint = nearest(judgements[0].system, sorted(systems))
            raise UserError(
                f'{source}: column system: no {judgements[0].system!r}; {hint}'
            )
        if judgements[0].dialogue_id and not set(keys) & {
            key_of(judgement) for judgement in judgements
        }:
            raise UserError(
                f'{source}: column dialogue_id: {dimension}: no such dialogue of that '
                f'system: {judgements[0].dialogue_id!r} of {judgements[0].system!r}'
            )


def check_dimensions(
    dimensions: Sequence[str], human: Sequence[HumanJudgement], source: str
) -> None:
    """
    Refuse judgements in no dimension of the scorer. Nothing need be scored for that.
    """
    for judgement in human:
        if not is_floor(judgement.system) and judgement.dimension not in dimensions:
            hint = nearest(judgement.dimension, dimensions)
            raise UserError(
                f'{source}: column dimension: no {judgement.dimension!r}; {hint}'
            )


def notes(scores: MeanScores, human: Sequence[HumanJudgement]) -> list[str]:
    """
    Return sentences about what was cut or left out.
    """
    keys = set(scores.keys())
    systems = {name for name, _ in keys}
    unknown = [
        judgement
        for judgement in human
        if judgement.system not in systems
        or (judgement.dialogue_id and key_of(judgement) not in keys)
    ]
    judged = {judgement.dimension for judgement in human}
    unjudged = [name for name in scores.dimensions if name not in judged]
    floors = sorted(
        {judgement.system for judgement in human if is_floor(judgement.system)}
    )
    lines = []
    if scores.n_cut:
        part = f'{scores.n_cut} of {scores.n_contexts}'
        lines.append(f'{part} contexts were too long for the judge, which read a part')
    if unknown:
        lines.append(f'{len(unknown)} judgements are of no scored dialogue or system')
    if unjudged:
        lines.append(f'nobody judged: {", ".join(unjudged)}')
    if floors:
        lines.append(f'floors, no part of it: {", ".join(floors)}')
    return lines
