"""
How well a scorer agrees with people on dialogues: Spearman and Pearson, with intervals.

At level ``dialogue`` a point is a system in a dialogue: its mean score there, and the
mean of the human judgements of it there. At level ``system`` a point is a system: both
means once more, over its dialogues that people judged. A scorer with variants (FED
without complaints) has one row for each of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from statistics import fmean
from typing import Any

from parlai_ext.core import (
    Dialogue,
    HumanJudgement,
    ScoredDialogue,
    UserError,
    dialogue_means,
    frozen,
    grouped,
    is_floor,
    known_values,
    require_known,
)
from parlai_ext.ranking.agreement import correlate_items, shared_reason
from parlai_ext.ranking.intervals import Estimate, Sampling
from parlai_ext.scoring.base import ItemScore, Scorer
from parlai_ext.view import (
    Column,
    IntervalColumn,
    Table,
    count_of,
    cut_line,
    number_column,
)
from parlai_ext.view.page import terminal_lines

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
    means: dict[tuple[str, str], Means] = field(
        default_factory=lambda: defaultdict(dict)
    )
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    n_contexts: int = 0
    n_cut: int = 0

    @property
    def keys(self) -> set[SystemInDialogue]:
        """
        The systems with their dialogues, scored or not, and by themselves ('').
        """
        keys = {key for means in self.means.values() for key in means}
        return keys | {(name, '') for name, _ in keys}


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
            own = scored
            if scorer.variants:
                own = rescored(scorer, dialogue, scored, variant)
            for score in own.scores:
                if score.reason is not None:
                    scores.reasons.setdefault((variant, score.dimension), score.reason)
            for name in dict.fromkeys(score.system for score in scored.scores):
                means = dialogue_means(dialogue, own, name)
                for dimension in scores.dimensions:
                    column = scores.means[variant, dimension]
                    column[name, dialogue.id] = means.get(dimension)
    return scores


def rescored(
    scorer: Scorer, dialogue: Dialogue, scored: ScoredDialogue, variant: str
) -> ScoredDialogue:
    """
    Return the scores of one of a scorer's variants, from the stored evidence; so the
    scorer judges turns. The scores without a place, of systems of which nothing is
    judged, are kept as they are.
    """
    scores = [
        scorer.score_of_evidence(ItemScore({}, evidence=evidence), variant)
        for evidence in scored.evidence.values()
    ]
    again = scorer.scored_dialogue(dialogue, list(scored.evidence), scores)
    unjudged = tuple(s for s in scored.scores if s.utterance_index is None)
    return replace(again, scores=again.scores + unjudged)


@frozen
class VariantAgreement:
    """
    How well the scores of a variant agree with people in a dimension, at a level: over
    `n` points; `dropped` ones have no score. `reason` says why a number is `None`.
    """

    level: str
    dimension: str
    variant: str
    spearman: Estimate
    pearson: Estimate
    n: int
    dropped: int
    reason: str | None = None


@frozen
class AgreementWithPeople:
    """
    A row for every level, dimension and variant, and notes on what is left out.
    """

    rows: Sequence[VariantAgreement]
    notes: Sequence[str]


def agreement(
    scores: MeanScores,
    human: Sequence[HumanJudgement],
    *,
    source: str,
    bootstraps: int,
) -> AgreementWithPeople:
    """
    Return how well mean scores agree with what people said.

    Floors are left out. Judgements without a dialogue are of systems only.

    :param source: where the judgements come from, for messages.
    :raises UserError: when judgements are of other dimensions, systems or dialogues.
    """
    ranked = [judgement for judgement in human if not is_floor(judgement.system)]
    check_judgements(scores, ranked, source)
    found = _level_rows(scores, ranked, Sampling(bootstraps, SEED))
    rows = sorted(found, key=attrgetter('level'))  # stable: dialogue first
    return AgreementWithPeople(rows, list(agreement_notes(scores, human)))


def _level_rows(
    scores: MeanScores, ranked: Sequence[HumanJudgement], sampling: Sampling
) -> Iterator[VariantAgreement]:
    """
    Yield a row for every dimension, variant and level.
    """
    keys = scores.keys
    by_dimension = grouped(
        (one.dimension, (key_of(one), one.value))
        for one in ranked
        if key_of(one) in keys
    )
    for dimension in scores.dimensions:
        if dimension not in by_dimension:
            continue
        # by system and dialogue, which is '' where systems were judged
        people = mean_by_key(by_dimension[dimension])
        for variant in scores.variants:
            values = scores.means[variant, dimension]
            for level, left, right, n_judged in _levels(values, people):
                points = sorted(left.keys() & right.keys())
                correlations = correlate_items(
                    [left[key] for key in points],
                    [right[key] for key in points],
                    sampling,
                )
                reason = shared_reason(correlations)
                if not points:
                    reason = scores.reasons.get((variant, dimension), reason)
                yield VariantAgreement(
                    level=level,
                    dimension=dimension,
                    variant=variant,
                    spearman=correlations['spearman'].estimate,
                    pearson=correlations['pearson'].estimate,
                    n=len(points),
                    dropped=n_judged - len(points),  # without a score there is no point
                    reason=reason,
                )


def _levels(
    values: Means, people: Mapping[SystemInDialogue, float]
) -> Iterator[tuple[str, dict[Any, float], Mapping[Any, float], int]]:
    """
    Yield each level with the scores, people's values and how many points were judged. A
    system's means are over the same dialogues on both sides, if dialogues were judged.
    """
    known = known_values(values)
    n_systems = len({name for name, _ in people})
    if any(dialogue for _, dialogue in people):
        yield 'dialogue', known, people, len(people)
        known, people = (
            {key: side[key] for key in known if key in people}
            for side in (known, people)
        )
    left, right = (
        mean_by_key((name, value) for (name, _), value in side.items())
        for side in (known, people)
    )
    yield 'system', left, right, n_systems


def mean_by_key(pairs: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    """
    Return the mean of the values of each key.
    """
    return {key: fmean(own) for key, own in grouped(pairs).items()}


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
    keys = scores.keys
    systems = sorted({name for name, _ in keys})
    check_dimensions(scores.dimensions, human, source)
    for dimension, own in grouped((one.dimension, one) for one in human).items():
        first = own[0]
        if len({judgement.dialogue_id is None for judgement in own}) > 1:
            raise UserError(
                f'{source}: column dialogue_id: {dimension}: every row needs one, or '
                'none may have one'
            )
        if not any(judgement.system in systems for judgement in own):
            problem = f'{source}: column system: no {first.system!r}'
            require_known(first.system, systems, problem)
        if not keys & set(map(key_of, own)):
            raise UserError(
                f'{source}: column dialogue_id: {dimension}: no such dialogue of that '
                f'system: {first.dialogue_id!r} of {first.system!r}'
            )


def check_dimensions(
    dimensions: Sequence[str], human: Sequence[HumanJudgement], source: str
) -> None:
    """
    Refuse judgements in no dimension of the scorer. Nothing need be scored for that.
    """
    for judgement in human:
        if not is_floor(judgement.system):
            name = judgement.dimension
            require_known(name, dimensions, f'{source}: column dimension: no {name!r}')


def agreement_notes(
    scores: MeanScores, human: Sequence[HumanJudgement]
) -> Iterator[str]:
    """
    Yield sentences about what was cut or left out.
    """
    keys = scores.keys
    unknown = [judgement for judgement in human if key_of(judgement) not in keys]
    judged = {judgement.dimension for judgement in human}
    unjudged = [name for name in scores.dimensions if name not in judged]
    floors = sorted(
        {judgement.system for judgement in human if is_floor(judgement.system)}
    )
    if scores.n_cut:
        yield cut_line(f'{scores.n_cut} of {count_of(scores.n_contexts, "utterance")}')
    if unknown:
        first = ' '.join(key_of(unknown[0])).strip()
        many = count_of(len(unknown), 'judgement')
        yield f'of no scored dialogue or system: {many}, first {first}'
    if unjudged:
        yield f'nobody judged: {", ".join(unjudged)}'
    if floors:
        yield f'floors, no part of it: {", ".join(floors)}'


# ------------------------------------------------------------------------ as a table

COLUMNS = (
    Column('level'),
    Column('dimension', ''),
    Column('variant', ''),
    number_column('n', 'n'),
    number_column('dropped', 'no score'),
    IntervalColumn('spearman', 'Spearman', digits=3),
    IntervalColumn('pearson', 'Pearson', digits=3),
    Column('reason', of=lambda row: row.reason or ''),
)


def agreement_table(rows: Sequence[VariantAgreement]) -> Table:
    """
    Return the table of the rows of an agreement.
    """
    return Table(COLUMNS, rows)


def agreement_lines(agreement: AgreementWithPeople) -> list[str]:
    """
    Return the tables for a terminal: one for each level.
    """
    return terminal_lines(
        'agreement_with_people', agreement=agreement, agreement_table=agreement_table
    )
