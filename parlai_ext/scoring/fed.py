"""
FED (Mehri and Eskenazi 2020): how likely are praise and complaints as next utterance?

    FED(c, r) = sum over p in P of D(c + r, p)  -  sum over n in N of D(c + r, n)

D is the mean log-probability of the follow-up, its end token included. By default
only the complaints N count, as in bipartite-play; higher is better in every case.
`fed_options` says what else there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import (
    Answer,
    Dialogue,
    Likelihood,
    Question,
    Score,
    ScoredDialogue,
)
from parlai_ext.core.signature import signature_line
from parlai_ext.scoring.fed_options import CHOICES, FOLLOWUPS, FedOptions
from parlai_ext.scoring.fed_original import OriginalStrings, tells_context
from parlai_ext.scoring.followups import FollowUps, Sides, load_followups

JUDGE = 'zoo:blender/blender_9B/model'
JUDGES = {'bipartite': JUDGE, 'original': 'hf:microsoft/DialoGPT-large'}
NO_CONTEXT = (
    'fed: scope whole counts the context, to which an encoder-decoder gives no '
    'probability; scope followup, or a decoder-only judge, would do'
)
KEYS = ('name', 'judge_model_file', 'followups', *CHOICES)


@dataclass(frozen=True)
class Verdict:
    """
    What FED says of one utterance: values and reasons by dimension, D by follow-up.

    `num_truncated` counts the tokens of its context that the judge did not see.
    """

    values: Mapping[str, float | None]
    reasons: Mapping[str, str | None]
    evidence: tuple[float | None, ...]
    num_truncated: int = 0


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


def verdict_of(
    followups: FollowUps,
    options: FedOptions,
    scores: Mapping[str, float | None],
    num_truncated: int = 0,
) -> Verdict:
    """
    Return what the D of each follow-up amount to; no model is needed.
    """
    found = {
        name: dimension_value(sides, scores, options)
        for name, sides in followups.dimensions.items()
    }
    return Verdict(
        {name: value for name, (value, _) in found.items()},
        {name: reason for name, (_, reason) in found.items()},
        tuple(scores[text] for text in evidence_labels(followups, options)),
        num_truncated,
    )


def evidence_labels(followups: FollowUps, options: FedOptions) -> tuple[str, ...]:
    """
    Return the different follow-ups that count, in order.
    """
    used = [counted(s, options.polarity) for s in followups.dimensions.values()]
    texts = (text for sides in used for text in (*sides.positive, *sides.negative))
    return tuple(dict.fromkeys(texts))


def fed_signature(followups: FollowUps, options: FedOptions, judge: str) -> str:
    """
    Return the one line that fixes every number.
    """
    fields = {'scorer': 'fed', 'followups': followups.hash, **options.fields()}
    return f'{signature_line(fields)}|judge:({judge})'


def followups_of(config: Mapping[str, Any], datapath: str | None = None) -> FollowUps:
    """
    Return the follow-ups of a protocol's ``scorer:`` section; no judge is needed.
    """
    variant = FedOptions.of({'variant': config.get('variant') or 'bipartite'}).variant
    return load_followups(config.get('followups') or FOLLOWUPS[variant], datapath)


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
        self.evidence_labels = evidence_labels(followups, self.options)
        self.signature = fed_signature(followups, self.options, likelihood.signature)
        original = self.options.variant == 'original'
        self.strings = OriginalStrings.of(likelihood) if original else None
        if self.options.scope == 'whole' and not tells_context(likelihood):
            raise UserError(NO_CONTEXT)

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
        :raises UserError: names the key that is wrong.
        """
        given = {key: value for key, value in config.items() if value is not None}
        for key in given:
            if key not in KEYS:
                raise UserError(f'scorer: unknown key {key!r}; {nearest(key, KEYS)}')
        options = FedOptions.of({key: given[key] for key in CHOICES if key in given})
        followups = followups_of(config, datapath)
        model = given.get('judge_model_file')
        if model is None and options.scope == 'whole' and options.variant != 'original':
            raise UserError(
                'scorer: judge_model_file: scope whole needs a decoder-only model; '
                f'{JUDGES["original"]} would do'
            )
        return cls(judge(cls.judge_file(given)), followups, options)

    @staticmethod
    def judge_file(config: Mapping[str, Any]) -> str:
        """
        Return the model that a ``scorer:`` section asks, or that the paper asked.
        """
        variant = config.get('variant') or FedOptions.variant
        return str(config.get('judge_model_file') or JUDGES.get(variant, JUDGE))

    def judge(self, contexts: Sequence[tuple[str, ...]]) -> list[Verdict]:
        """
        Judge the last utterance of each context, in one question to the model.
        """
        questions = [self._question(context) for context in contexts]
        whole = self.options.scope == 'whole'
        answers = self.likelihood.answer(questions, with_context=whole)
        return [self._verdict(answer) for answer in answers]

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
        whole = self.followups.dialogue_level
        return [
            scored_dialogue(dialogue, {i: next(verdicts) for i in own}, whole)
            for dialogue, own in pairs
        ]

    def _question(self, context: tuple[str, ...]) -> Question:
        if self.strings is not None:
            return self.strings.question(context, self.evidence_labels)
        return Question(context, self.evidence_labels)

    def _verdict(self, answer: Answer) -> Verdict:
        before: tuple[float, ...] = ()
        if self.options.scope == 'whole':
            before = context_logprobs(answer)
        reduction = self.options.token_reduction
        rows = [(*before, *row) if row else () for row in answer.continuations]
        found = [followup_score(row, reduction) for row in rows]
        scores = dict(zip(self.evidence_labels, found, strict=True))
        return verdict_of(self.followups, self.options, scores, answer.num_truncated)


def context_logprobs(answer: Answer) -> tuple[float, ...]:
    """
    Return the log-probabilities of a context's tokens but the first, which has none.

    :raises UserError: when the judge gave none, as encoder-decoders do.
    """
    if answer.context is None:
        raise UserError(NO_CONTEXT)
    return answer.context


def scored_dialogue(
    dialogue: Dialogue,
    verdicts: Mapping[int, Verdict],
    dialogue_level: frozenset[str] = frozenset(),
) -> ScoredDialogue:
    """
    Return verdicts on utterances, by place, as the scores of their dialogue.

    :param dialogue_level: dimensions asked once a speaker, of its last judged
        utterance, before which the whole dialogue lies.
    """
    last = {index % 2: index for index in sorted(verdicts)}  # by side, as in self-play
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
        if dimension not in dialogue_level or index == last[index % 2]
    )
    evidence = {index: verdict.evidence for index, verdict in verdicts.items()}
    cut = {i: v.num_truncated for i, v in verdicts.items() if v.num_truncated}
    return ScoredDialogue(dialogue.id, scores, evidence, cut)
