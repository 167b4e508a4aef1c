"""
DirectEval: the probability that a trained judge calls a response good.

The judge reads the dialogue and the response and is asked "Is the above response a good
response to the given conversation?"; the score is P("Yes"). Source: Park et al. (2024),
"PairEval", section 4.1.2. ``parlai train_judge --method directeval`` makes such a
judge; `prompted` asks an untrained chat model, in its own words.
"""

from __future__ import annotations

from collections.abc import Sequence

from parlai_ext.scoring.base import ItemScore, ScoringItem
from parlai_ext.scoring.label_prompts import direct_prompt
from parlai_ext.scoring.label_scorer import LabelOptions, LabelScorer
from parlai_ext.scoring.likelihood import NO_PROBABILITY, first_continuation_share


class DirectEval(LabelScorer):
    """
    The probability that a judge answers "Yes", of "Yes" and "No".

    One score a response, from 0 to 1; higher is better.
    """

    name = 'directeval'
    options_class = LabelOptions

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        prompts = map(direct_prompt, self.candidates(items))
        answers = self.judge.answer([self.tokens.question(one) for one in prompts])
        return [
            ItemScore(
                {'Overall': first_continuation_share(answer)},
                {'Overall': NO_PROBABILITY},
                cut=answer.num_truncated,
            )
            for answer in answers
        ]
