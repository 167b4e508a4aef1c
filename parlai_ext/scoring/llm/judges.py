"""
LLM judges of a response, of a whole dialogue, and of two responses to one context.

Rating by the expected value over the labels: Liu et al. (2023), "G-Eval", section 3.
Both orders of a pair: Zheng et al. (2023), "Judging LLM-as-a-Judge with MT-Bench and
Chatbot Arena", section 3.4. LLM-Eval: Lin and Chen (2023); the wording is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from parlai_ext.core.options import option
from parlai_ext.scoring.base import OTHER, ItemScore, ScoringItem, swapped_item
from parlai_ext.scoring.likelihood import context_turns_option
from parlai_ext.scoring.llm.prompt_file import prompt_option
from parlai_ext.scoring.llm.prompted_scorer import (
    WHOLE,
    PromptedScorer,
    context_lines,
    llm_option,
    rating_option,
    shown_turns,
)

CONTEXT_TURNS = 6
NO_OTHER = 'there is no other response to compare with'
NO_RESPONSE = '(no response)'


@dataclass(frozen=True)
class LlmJudgeOptions:
    """
    The model, what it is asked about a response, and how its answer becomes a number.
    """

    judge_model_file: str = llm_option()
    prompt: str = prompt_option('response')
    rating: str = rating_option()
    context_turns: int = context_turns_option(CONTEXT_TURNS)


class LlmJudge(PromptedScorer):
    """
    A chat model's rating of each response, in the dimensions of the prompt.
    """

    name = 'llm_judge'
    options_class: ClassVar[Any] = LlmJudgeOptions
    options: LlmJudgeOptions

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return context and response; the one who is judged is B.
        """
        return {
            'context': context_lines(item, self.options.context_turns),
            'response': f'B: {item.response or NO_RESPONSE}',
            'judged': 'B',
        }


@dataclass(frozen=True)
class LlmEvalOptions:
    """
    The model, and what it is asked about a response.
    """

    judge_model_file: str = llm_option()
    prompt: str = prompt_option('llm_eval')
    context_turns: int = context_turns_option(CONTEXT_TURNS)


class LlmEval(LlmJudge):
    """
    LLM-Eval (Lin and Chen 2023): one prompt, and one JSON object with four numbers.

    The model writes its answer, which is read; a dimension that is not in it has no
    score. ``prompt: llm_eval_100`` asks for 0 to 100 instead of 0 to 5.
    """

    name = 'llm_eval'
    options_class = LlmEvalOptions

    @property
    def rating(self) -> str:
        """
        The answer is read.
        """
        return 'parsed'


@dataclass(frozen=True)
class LlmDialogueOptions:
    """
    The model, what it is asked about a dialogue, and how its answer becomes a number.
    """

    judge_model_file: str = llm_option()
    prompt: str = prompt_option('dialogue')
    rating: str = rating_option()


class LlmDialogue(PromptedScorer):
    """
    A chat model's rating of a whole dialogue: of one speaker's part, where it is known
    who said what, else of the conversation.
    """

    name = 'llm_dialogue'
    level = 'dialogue'
    options_class = LlmDialogueOptions
    options: LlmDialogueOptions

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the dialogue, and who is judged.
        """
        speakers = item.extras.get('speakers')
        lines, letter = shown_turns(item.utterances, speakers, item.speaker)
        judged = WHOLE if letter is None else f'speaker {letter}'
        return {'dialogue': lines, 'judged': judged}


@dataclass(frozen=True)
class LlmPairOptions(LlmJudgeOptions):
    """
    The model, what it is asked about two responses, and in which orders.
    """

    prompt: str = prompt_option('pair')
    orders: str = option(
        'both',
        choices=('both', 'given'),
        help='both: each pair is asked in both orders, and the mean counts; given: '
        'once, the response first',
    )


class LlmPair(PromptedScorer):
    """
    How much a chat model prefers a response to another one to the same context, from 0
    to 1; 0.5 is a tie. The evidence has the preference in each order.
    """

    name = 'llm_pair'
    level = 'pair'
    options_class = LlmPairOptions
    options: LlmPairOptions

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the context and both responses, the judged one first.
        """
        return {
            'context': context_lines(item, self.options.context_turns),
            'first': item.response or NO_RESPONSE,
            'second': str(item.extras[OTHER]) or NO_RESPONSE,
            'judged': 'B',
        }

    def in_given_order(self) -> LlmPair:
        """
        Return a scorer with the same model that asks once, the response first.
        """
        if self.options.orders == 'given':
            return self
        options = replace(self.options, orders='given')
        return LlmPair(options, self.models.source, self.datapath)

    def _lacks(self, item: ScoringItem) -> str | None:
        return NO_OTHER if OTHER not in item.extras else super()._lacks(item)

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the preference for each response; without one of two orders there is
        none.
        """
        given = super().score(items)
        if self.options.orders == 'given':
            return given
        swapped = super().score([swapped_item(item) for item in items])
        return [
            self._mean(one, other) for one, other in zip(given, swapped, strict=True)
        ]

    def _mean(self, given: ItemScore, swapped: ItemScore) -> ItemScore:
        values: dict[str, float | None] = {}
        evidence: dict[str, Any] = {}
        for name in self.dimensions:
            ours, theirs = given.values.get(name), swapped.values.get(name)
            second = None if theirs is None else 1 - theirs
            both = [value for value in (ours, second) if value is not None]
            values[name] = math.fsum(both) / 2 if len(both) == 2 else None
            evidence[name] = {'first': ours, 'second': second}
        reasons = {
            name: given.reasons.get(name) or swapped.reasons.get(name)
            for name in self.dimensions
        }
        return ItemScore(values, reasons, evidence, max(given.cut, swapped.cut))
