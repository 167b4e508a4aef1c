"""
Perplexity and token accuracy of a response, by a language model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    context_turns_option,
    judge_option,
    mean_logprob,
    response_answers,
)

TOO_LARGE = 'the perplexity is too large a number'
LARGEST = 700  # mean loss whose exponential is still a number


@dataclass(frozen=True)
class PerplexityOptions:
    """
    The judge, and how much of the context it reads.
    """

    judge_model_file: str = judge_option()
    context_turns: int = context_turns_option()


class Perplexity(Scorer):
    """
    Minus the perplexity of a response's tokens after its context, the end token
    included: at most -1, higher is better.

    Response by response it orders as `likelihood` does, of which it is minus the
    exponential of the score with its sign turned; means over responses differ.
    """

    name = 'perplexity'
    dimensions = ('Overall',)
    options_class = PerplexityOptions
    options: PerplexityOptions

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        judge = self.models.likelihood(self.options.judge_model_file)
        scores = []
        for answer in response_answers(judge, items, self.options.context_turns):
            mean = mean_logprob(answer)
            value, reason = None, NO_PROBABILITY
            if mean is not None:
                value = -math.exp(-mean) if -mean < LARGEST else None
                reason = TOO_LARGE
            scores.append(
                ItemScore(
                    {'Overall': value}, {'Overall': reason}, None, answer.num_truncated
                )
            )
        return scores
