"""
Perplexity and token accuracy of a response, by a language model: what ParlAI reports of
the labels of a generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.nouns import Question
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    context_turns_option,
    judge_option,
    mean_logprob,
    response_answers,
)

NO_TOKEN = 'the response has no token'
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


class TokenAccuracy(Scorer):
    """
    The share of a response's tokens, its end token included, that are the likeliest
    ones after the context and the tokens before them: from 0 to 1.

    Bland responses are made of such tokens; so are those that the judge itself would
    give.
    """

    name = 'token_accuracy'
    dimensions = ('Overall',)
    options_class = PerplexityOptions
    options: PerplexityOptions

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the share of each response, in one question to the judge.
        """
        judge = self.models.likelihood(self.options.judge_model_file)
        questions = [
            Question(
                item.context[-self.options.context_turns :], (item.response or '',)
            )
            for item in items
        ]
        scores = []
        for answer in judge.answer(questions, greedy=True):
            hits = answer.continuations[0]
            share = math.fsum(hits) / len(hits) if hits else None
            scores.append(
                ItemScore(
                    {'Overall': share},
                    {'Overall': NO_TOKEN},
                    {'tokens': len(hits)},
                    answer.num_truncated,
                )
            )
        return scores
