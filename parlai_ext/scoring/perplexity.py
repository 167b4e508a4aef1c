"""
Perplexity and token accuracy of a response, by a language model: what ParlAI reports of
the labels of a generator.
"""

import math

from parlai_ext.core.nouns import Answer
from parlai_ext.scoring.likelihood import (
    LARGEST_EXPONENT,
    AnswerScorer,
    ResponseOptions,
    mean_logprob,
)


class Perplexity(AnswerScorer):
    """
    Minus the perplexity of a response's tokens after its context, the end token
    included: at most -1, higher is better.

    Response by response it orders as `likelihood` does, of which it is minus the
    exponential of the score with its sign turned; means over responses differ.
    """

    name = 'perplexity'
    options_class = ResponseOptions
    no_value = 'the judge gives the response no probability, or too large a perplexity'

    def value(self, answer: Answer) -> float | None:
        """
        Return minus the perplexity.
        """
        mean = mean_logprob(answer)
        if mean is None or -mean >= LARGEST_EXPONENT:
            return None
        return -math.exp(-mean)


class TokenAccuracy(AnswerScorer):
    """
    The share of a response's tokens, its end token included, that are the likeliest
    ones after the context and the tokens before them: from 0 to 1.

    Bland responses are made of such tokens; so are those that the judge itself would
    give.
    """

    name = 'token_accuracy'
    options_class = ResponseOptions
    no_value = 'the response has no token'
    asked = {'greedy': True}

    def value(self, answer: Answer) -> float | None:
        """
        Return the share of hits.
        """
        hits = answer.continuations[0]
        return math.fsum(hits) / len(hits) if hits else None

    def evidence(self, answer: Answer) -> dict[str, int]:
        """
        Return how many tokens the response has.
        """
        return {'tokens': len(answer.continuations[0])}
