"""
A prompted judge: a chat model is shown the dialogue and asked if the response is good.

The score is the probability of "Yes" where the answer is "Yes" or "No". Source: the
baseline DirectEval of Park et al. (2024), "PairEval", without their fine-tuning; the
wording of the question is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Question
from parlai_ext.core.options import option
from parlai_ext.models.chat_questions import ChatQuestions
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    context_turns_option,
    first_continuation_share,
    judge_option,
)
from parlai_ext.systems.chat.messages import ChatTurn

ANSWERS = ('Yes', 'No')
QUESTION = (
    'Is the response a good response to the dialogue, one that makes sense and is '
    'specific to it? Answer Yes or No.'
)


@dataclass(frozen=True)
class PromptedOptions:
    """
    The judge, what it is asked, and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(what='a decoder-only chat model')
    question: str = option(
        QUESTION, help='what is asked about the response; the answer is Yes or No'
    )
    context_turns: int = context_turns_option(6, low=1)


class Prompted(Scorer):
    """
    The probability that a chat model answers "Yes", of "Yes" and "No".

    One score a response, from 0 to 1; higher is better.
    """

    name = 'prompted'
    prompted = True
    dimensions = ('Overall',)
    options_class = PromptedOptions
    options: PromptedOptions

    def prepare(self) -> None:
        """
        Refuse an empty question.
        """
        if not self.options.question.strip():
            raise UserError('scorer: question: empty; a question is expected')

    def load_models(self) -> None:
        """
        Load the judge, which needs a chat template.
        """
        super().load_models()
        judge = self.models.likelihood(self.options.judge_model_file)
        self.chat = ChatQuestions.from_judge(judge)

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        judge = self.models.likelihood(self.options.judge_model_file)
        return [
            ItemScore(
                {'Overall': first_continuation_share(answer)},
                {'Overall': NO_PROBABILITY},
                cut=answer.num_truncated,
            )
            for answer in judge.answer([self._question(item) for item in items])
        ]

    def _question(self, item: ScoringItem) -> Question:
        turns = item.context[-self.options.context_turns :]
        # the one who is judged is B, the other A
        lines = [
            f'{"AB"[(len(turns) - place) % 2 == 0]}: {text}'
            for place, text in enumerate(turns)
        ]
        prompt = '\n'.join(
            [
                'Dialogue:',
                *lines,
                '',
                f'Response:\nB: {item.response or ""}',
                '',
                self.options.question,
            ]
        )
        return self.chat.question([ChatTurn(False, prompt)], True, ANSWERS)
