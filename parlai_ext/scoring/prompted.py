"""
A prompted judge: a chat model is shown the dialogue and asked if the response is good.

The score is the probability of "Yes" where the answer is "Yes" or "No". Source: the
baseline DirectEval of Park et al. (2024), "PairEval", without their fine-tuning; the
wording of the question is ours.
"""

from dataclasses import dataclass

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Question
from parlai_ext.core.options import option
from parlai_ext.models.questions import ChatQuestions
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.items import lettered_turns
from parlai_ext.scoring.likelihood import (
    AnswerScorer,
    context_turns_option,
    first_continuation_share,
    judge_option,
)

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


class Prompted(AnswerScorer):
    """
    The probability that a chat model answers "Yes", of "Yes" and "No".

    One score a response, from 0 to 1; higher is better.
    """

    name = 'prompted'
    prompted = True
    options_class = PromptedOptions
    options: PromptedOptions
    value = staticmethod(first_continuation_share)

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
        self.chat = ChatQuestions.from_judge(self.judge)

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question about one response; the one who is judged is B, the other A.
        """
        turns = lettered_turns(item.context[-self.options.context_turns :])
        response = f'Response:\nB: {item.text}'
        prompt = '\n'.join(
            ['Dialogue:', *turns, '', response, '', self.options.question]
        )
        return self.chat.reply_question(prompt, ANSWERS)
