"""
Perplexity and token accuracy of a response, by a language model: what ParlAI reports of
the labels of a generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.nouns import Answer
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.likelihood import (
    LARGEST_EXPONENT,
    NO_PROBABILITY,
    context_turns_option,
    judge_option,
    mean_logprob,
    response_answers,
    response_questions,
)

NO_TOKEN = 'the response has no token'
TOO_LARGE = 'the perplexity is too large a number'


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
        answers = response_answers(judge, items, self.options.context_turns)
        return [
            ItemScore(*_minus_perplexity(answer), cut=answer.num_truncated)
            for answer in answers
        ]


def _minus_perplexity(
    answer: Answer,
) -> tuple[dict[str, float | None], dict[str, str]]:
    """
    Return the value of a response and, where there is none, the reason.
    """
    mean = mean_logprob(answer)
    if mean is None:
        return {'Overall': None}, {'Overall': NO_PROBABILITY}
    if -mean >= LARGEST_EXPONENT:
        return {'Overall': None}, {'Overall': TOO_LARGE}
    return {'Overall': -math.exp(-mean)}, {}


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
        questions = response_questions(items, self.options.context_turns)
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
