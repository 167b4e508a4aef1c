"""
DirectEval: the probability that a trained judge calls a response good.

The judge reads the dialogue and the response and is asked "Is the above response a good
response to the given conversation?"; the score is P("Yes"). Source: Park et al. (2024),
"PairEval", section 4.1.2. ``parlai train_judge --method directeval`` makes such a
judge; `prompted` asks an untrained chat model, in its own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.candidates import CONTEXT_TURNS, Candidate
from parlai_ext.scoring.label_prompts import (
    direct_prompt,
    first_label_probability,
    judge_format_option,
    label_tokens,
)
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    context_turns_option,
    judge_option,
)


@dataclass(frozen=True)
class DirectEvalOptions:
    """
    The judge, how it is asked, and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(what='a judge of parlai train_judge')
    judge_format: str = judge_format_option()
    context_turns: int = context_turns_option(CONTEXT_TURNS, low=1)


class DirectEval(Scorer):
    """
    The probability that a judge answers "Yes", of "Yes" and "No".

    One score a response, from 0 to 1; higher is better.
    """

    name = 'directeval'
    prompted = True
    dimensions = ('Overall',)
    options_class = DirectEvalOptions
    options: DirectEvalOptions

    def load_models(self) -> None:
        """
        Load the judge, and refuse one that was trained for something else.
        """
        super().load_models()
        judge = self.models.likelihood(self.options.judge_model_file)
        self.tokens = label_tokens(judge, self.options.judge_format, self.name)

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        judge = self.models.likelihood(self.options.judge_model_file)
        prompts = [
            direct_prompt(
                Candidate(
                    item.context[-self.options.context_turns :], item.response or ''
                )
            )
            for item in items
        ]
        return [
            ItemScore(
                {'Overall': first_label_probability(answer)},
                {'Overall': NO_PROBABILITY},
                cut=answer.num_truncated,
            )
            for answer in judge.answer([self.tokens.question(p) for p in prompts])
        ]
