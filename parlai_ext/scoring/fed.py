"""
FED (Mehri and Eskenazi 2020): how likely are praise and complaints as next utterance?

    FED(c, r) = sum over p in P of D(c + r, p)  -  sum over n in N of D(c + r, n)

D is the mean log-probability of the follow-up, its end token included. By default
only the complaints N count, as in bipartite-play; higher is better in every case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.errors import UserError
from parlai_ext.records import Dialogue, Likelihood, Question, Score, ScoredDialogue
from parlai_ext.scoring.followups import FollowUps, Sides, load_followups
from parlai_ext.signature import signature_line
from parlai_ext.strict_yaml import nearest

JUDGE = 'zoo:blender/blender_9B/model'
FOLLOWUPS = 'default'
CHOICES = {
    'polarity': ('negative', 'positive', 'both'),
    'token_reduction': ('mean', 'sum'),
    'followup_reduction': ('sum', 'mean'),
}
KEYS = ('name', 'judge_model_file', 'followups', *CHOICES)


@dataclass(frozen=True)
class FedOptions:
    """
    Which follow-ups count, and how tokens and follow-ups are put together.
    """

    polarity: str = 'negative'
    token_reduction: str = 'mean'
    followup_reduction: str = 'sum'

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise UserError(f'fed: {name} {value!r}; {nearest(str(value), known)}')


@dataclass(frozen=True)
class Verdict:
    """
    What FED says of one utterance: values and reasons by dimension, D by follow-up.
    """

    values: Mapping[str, float | None]
    reasons: Mapping[str, str | None]
    evidence: tuple[float | None, ...]


def reduced(numbers: Sequence[float], reduction: str) -> float:
    """
    Return sum or mean; that of nothing is 0.
    """
    total = math.fsum(numbers)
    return total / len(numbers) if reduction == 'mean' and numbers else total


def followup_score(logprobs: Sequence[float], token_reduction: str) -> float | None:
    """
    Return D of one follow-up; `None` when it has no finite probability.
    """
    if not logprobs or not all(map(math.isfinite, logprobs)):
        return None
    return reduced(logprobs, token_reduction)


def counted(sides: Sides, polarity: str) -> Sides:
    """
    Return the follow-ups that count under this polarity.
    """
    return Sides(
        () if polarity == 'negative' else sides.positive,
        () if polarity == 'positive' else sides.negative,
    )


def dimension_value(
    sides: Sides, scores: Mapping[str, float | None], options: FedOptions
) -> tuple[float | None, str | None]:
    """
    Return Equation 1 for one dimension, or `None` and why.

    With polarity ``both``, a side without follow-ups adds nothing, as in the paper.

    :param scores: D by follow-up.
    """
    used = counted(sides, options.polarity)
    if not used.positive and not used.negative:
        return None, f'no {options.polarity} follow-ups'
    for text in (*used.positive, *used.negative):
        if scores[text] is None:
            return None, f'the judge gives {text!r} no finite probability'
    positive, negative = (
        reduced([scores[t] for t in texts], options.followup_reduction)  # type: ignore[misc]
        for texts in (used.positive, used.negative)
    )
    return positive - negative, None


class Fed:
    """
    The `Scorer` over a `Likelihood`. Each different follow-up is asked once a context.

    A context is every utterance up to and including the judged one.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        followups: FollowUps,
        options: FedOptions | None = None,
    ):
        self.likelihood = likelihood
        self.followups = followups
        self.options = options or FedOptions()
        self.dimensions = tuple(followups.dimensions)
        used = [
            counted(sides, self.options.polarity)
            for sides in followups.dimensions.values()
        ]
        texts = (text for sides in used for text in (*sides.positive, *sides.negative))
        self.evidence_labels = tuple(dict.fromkeys(texts))
        self.signature = (
            signature_line(
                {'scorer': 'fed', 'followups': followups.hash, **vars(self.options)}
            )
            + f'|judge:({likelihood.signature})'
        )

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        judge: Callable[[str], Likelihood],
        datapath: str | None = None,
    ) -> Fed:
        """
        Return the scorer that a protocol's ``scorer:`` section asks for.

        :param judge: loads a model file; called last, since it is slow.
        """
        given = {key: value for key, value in config.items() if value is not None}
        for key in given:
            if key not in KEYS:
                raise UserError(f'scorer: unknown key {key!r}; {nearest(key, KEYS)}')
        options = FedOptions(**{key: given[key] for key in CHOICES if key in given})
        followups = load_followups(given.get('followups', FOLLOWUPS), datapath)
        return cls(judge(given.get('judge_model_file', JUDGE)), followups, options)

    def judge(self, contexts: Sequence[tuple[str, ...]]) -> list[Verdict]:
        """
        Judge the last utterance of each context, in one question to the model.
        """
        questions = [Question(context, self.evidence_labels) for context in contexts]
        return [
            self._verdict(answer.continuations)
            for answer in self.likelihood.answer(questions)
        ]

    def score(
        self, dialogues: Sequence[Dialogue], indices: Sequence[Sequence[int]]
    ) -> list[ScoredDialogue]:
        """
        Judge, in ``dialogues[i]``, the utterances ``indices[i]``.
        """
        pairs = list(zip(dialogues, indices, strict=True))
        texts = [tuple(u.text for u in dialogue.utterances) for dialogue in dialogues]
        contexts = [
            said[: index + 1]
            for said, own in zip(texts, indices, strict=True)
            for index in own
        ]
        verdicts = iter(self.judge(contexts))
        return [
            scored_dialogue(dialogue, {i: next(verdicts) for i in own})
            for dialogue, own in pairs
        ]

    def _verdict(self, logprobs: Sequence[Sequence[float]]) -> Verdict:
        reduction = self.options.token_reduction
        evidence = tuple(followup_score(row, reduction) for row in logprobs)
        scores = dict(zip(self.evidence_labels, evidence, strict=True))
        found = {
            name: dimension_value(sides, scores, self.options)
            for name, sides in self.followups.dimensions.items()
        }
        values = {name: value for name, (value, _) in found.items()}
        reasons = {name: reason for name, (_, reason) in found.items()}
        return Verdict(values, reasons, evidence)


def scored_dialogue(
    dialogue: Dialogue, verdicts: Mapping[int, Verdict]
) -> ScoredDialogue:
    """
    Return verdicts on utterances, by place, as the scores of their dialogue.
    """
    scores = tuple(
        Score(
            dialogue.id,
            index,
            dialogue.utterances[index].speaker,
            dimension,
            value,
            verdict.reasons[dimension],
        )
        for index, verdict in verdicts.items()
        for dimension, value in verdict.values.items()
    )
    evidence = {index: verdict.evidence for index, verdict in verdicts.items()}
    return ScoredDialogue(dialogue.id, scores, evidence)
