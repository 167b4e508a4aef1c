"""
LLM judges of a response, of a whole dialogue, and of two responses to one context.

Rating by the expected value over the labels: Liu et al. (2023), "G-Eval", section 3.
Both orders of a pair: Zheng et al. (2023), "Judging LLM-as-a-Judge with MT-Bench and
Chatbot Arena", section 3.4. LLM-Eval: Lin and Chen (2023); the wording is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from parlai_ext.core.options import option
from parlai_ext.data.judged.qualities import mean
from parlai_ext.scoring.base import OTHER, ItemScore, ScoringItem, swapped_item
from parlai_ext.scoring.items import lettered_turns
from parlai_ext.scoring.llm.prompt_file import prompt_option
from parlai_ext.scoring.llm.prompted_scorer import (
    NOTHING,
    WHOLE,
    PromptedScorer,
    llm_option,
    rating_option,
    shown_turns,
)
from parlai_ext.scoring.model_options import context_turns_option

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

    def context_lines(self, item: ScoringItem) -> str:
        """
        Return the last turns of the context with letters.
        """
        turns = lettered_turns(item.context[-self.options.context_turns :])
        return '\n'.join(turns) or NOTHING

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return context and response; the one who is judged is B.
        """
        return {
            'context': self.context_lines(item),
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


class LlmPair(LlmJudge):
    """
    How much a chat model prefers a response to another one to the same context, from 0
    to 1; 0.5 is a tie. The evidence has the preference in each order.
    """

    name = 'llm_pair'
    level = 'pair'
    options_class = LlmPairOptions

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the context and both responses, the judged one first.
        """
        return {
            'context': self.context_lines(item),
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
        return LlmPair(options, self.models.source)

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
        scores = []
        for first, other in zip(given, swapped, strict=True):
            both: dict[str, dict[str, float | None]] = {}
            for name in self.dimensions:
                theirs = other.values.get(name)
                second = None if theirs is None else 1 - theirs
                both[name] = {'first': first.values.get(name), 'second': second}
            scores.append(
                ItemScore(
                    {name: mean(list(two.values())) for name, two in both.items()},
                    {n: first.reasons.get(n) or other.reasons.get(n) for n in both},
                    both,
                    max(first.cut, other.cut),
                )
            )
        return scores
