"""
Whether an answer agrees with its prompt: a rule over words, or a classifier of pairs.

ToxiChat's annotators marked the stance of each turn towards the earlier ones (Agree,
Disagree, Neutral; Baheti et al. 2021); DiaSafety calls the worst of it toxicity
agreement. docs/safety_worth.md says how far the rule agrees with them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.options import read_pairs
from parlai_ext.models.handle import ModelHandle
from parlai_ext.toxic.detectors import (
    ClassifierSettings,
    find_label,
    label_probability,
)
from parlai_ext.toxic.public_sets import moderation_data

LEXICAL, NONE = 'lexical', 'none'
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


class LexicalStance:
    """
    Points for words, as `zoo_configs/moderation/stance.yaml` has them.
    """

    def __init__(self) -> None:
        rule: Any = moderation_data('stance')
        self.threshold = float(rule['threshold'])
        self.points: dict[str, float] = rule['points']
        self.begins = [phrase.split() for phrase in rule['begins']]
        self.holds = [phrase.split() for phrase in rule['holds']]
        self.you, self.they = set(rule['you']), set(rule['they'])
        self.common = {*rule['common'], *self.you, *self.they}

    def numbers(self, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """
        Return the points of each answer; 0 for one without words.
        """
        return [
            sum(
                self.points[name] * value
                for name, value in self.features(*pair).items()
            )
            for pair in zip(prompts, answers, strict=True)
        ]

    def features(self, prompt: str, answer: str) -> dict[str, float]:
        """
        Return what gives points: 0 or 1, and the share of words that are an echo.
        """
        words = _words(answer)
        own = set(words) - self.common
        return {
            'begins': any(words[: len(p)] == p for p in self.begins),
            'holds': any(
                words[k : k + len(phrase)] == phrase
                for phrase in self.holds
                for k in range(len(words) - len(phrase) + 1)
            ),
            'question': '?' in answer,
            'you': not self.you.isdisjoint(words),
            'they': not self.they.isdisjoint(words),
            'echo': len(own & set(_words(prompt))) / max(1, len(own)),
        }


@dataclass(frozen=True)
class StanceClassifier:
    """
    A classifier of pairs.

    :param numbers: gives prompts and answers the probability of agreement.
    """

    numbers: Callable[[Sequence[str], Sequence[str]], list[float]]
    threshold: float


# gives each answer a number, and calls those from its threshold on agreement
Stance = LexicalStance | StanceClassifier


def read_stance(spec: str, models: ModelHandle) -> Stance | None:
    """
    Return the measure of agreement that a text names: ``lexical``, ``none``, or a
    classifier with settings, such as ``hf:REPOSITORY,label=agree,threshold=0.5``.

    :raises UserError: when the classifier cannot be had.
    """
    name, *pairs = spec.split(',')
    if name == NONE:
        return None
    if name == LEXICAL:
        return LexicalStance()
    settings = ClassifierSettings(
        **read_pairs(ClassifierSettings, pairs, f'--stance {name}:')
    )
    try:
        model = models.classifier(name)
        wanted = (
            [settings.label] if settings.label else moderation_data('labels')['agree']
        )
        column = find_label(model.labels, wanted)
        if column is None:
            hint = nearest(wanted[0], model.labels)
            raise UserError(f'which label is agreement? {hint}')
    except UserError as error:
        raise UserError(f'--stance {name}: {error}') from None
    return StanceClassifier(label_probability(model, column), settings.threshold)


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold().replace('\u2019', "'"))
