"""
DirectEval: the probability that a trained judge calls a response good.

The judge reads the dialogue and the response and is asked "Is the above response a good
response to the given conversation?"; the score is P("Yes"). Source: Park et al. (2024),
"PairEval", section 4.1.2. ``parlai train_judge --method directeval`` makes such a
judge; `prompted` asks an untrained chat model, in its own words.
"""

from parlai_ext.core.nouns import Question
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.label_judges import LabelOptions, LabelScorer, direct_prompt
from parlai_ext.scoring.likelihood import AnswerScorer, first_continuation_share


class DirectEval(LabelScorer, AnswerScorer):
    """
    The probability that a judge answers "Yes", of "Yes" and "No".

    One score a response, from 0 to 1; higher is better.
    """

    name = 'directeval'
    options_class = LabelOptions
    value = staticmethod(first_continuation_share)

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question whether a response is good.
        """
        return self.tokens.question(direct_prompt(self.candidate(item)))
