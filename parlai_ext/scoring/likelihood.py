"""
How likely is a response after its context, to a language model?

The score is the mean log-probability of the response's tokens, its end token included,
so that a response that breaks off in the middle loses. It is a perplexity turned round:
exp(-score). Likely is not the same as good: bland and repeated responses are likely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.nouns import Answer, Question
from parlai_ext.core.nouns import Likelihood as LanguageModel
from parlai_ext.core.options import option
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem

JUDGE = 'smollm2-135m-q4'
LARGEST_EXPONENT = 700.0  # whose exponential is still a number
NO_PROBABILITY = 'the judge gives the response no finite probability'


def judge_option(
    default: str = JUDGE, what: str = 'the model inside the scorer'
) -> Any:
    """
    Return the option that names the language model inside a scorer.

    :param what: which models would do, for the help text.
    """
    return option(
        default,
        help=f'{what}: a catalogue name, a model file, zoo:…, or '
        'hf:REPOSITORY[@REVISION]',
        flag='--judge-model-file',
        metavar='MODEL',
        model='likelihood',
        path=True,
    )


def context_turns_option(default: int = 0, low: int = 0) -> Any:
    """
    Return the option that says how many utterances before a response are read.
    """
    meaning = '; 0: all' if low == 0 else ''
    return option(
        default,
        low=low,
        help=f'utterances before the response that the judge reads{meaning}',
    )


@dataclass(frozen=True)
class LikelihoodOptions:
    """
    The judge, how much of the context it reads, and what the probability is compared
    with.
    """

    judge_model_file: str = judge_option()
    context_turns: int = context_turns_option()
    less: str = option(
        'nothing',
        help='what is subtracted: nothing, or the mean log-probability of the same '
        'response after no context, which leaves what the context adds',
        choices=('nothing', 'no_context'),
    )


class Likelihood(Scorer):
    """
    Mean log-probability (natural) of a response's tokens after its context.

    One score a response, at most 0 where nothing is subtracted; higher is better. With
    ``less: no_context`` it is the pointwise mutual information of response and context
    per token (Li et al. 2016), which a bland response does not gain from.
    """

    name = 'likelihood'
    dimensions = ('Likelihood',)
    options_class = LikelihoodOptions
    options: LikelihoodOptions

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        judge = self.models.likelihood(self.options.judge_model_file)
        after = response_answers(judge, items, self.options.context_turns)
        if self.options.less == 'nothing':
            means = [mean_logprob(answer) for answer in after]
        else:
            alone = answers_without_context(judge, items)
            means = [
                difference(mean_logprob(one), mean_logprob(other))
                for one, other in zip(after, alone, strict=True)
            ]
        return [
            ItemScore(
                {'Likelihood': mean},
                {'Likelihood': None if mean is not None else NO_PROBABILITY},
                evidence={'tokens': len(answer.continuations[0])},
                cut=answer.num_truncated,
            )
            for mean, answer in zip(means, after, strict=True)
        ]


def response_answers(
    judge: LanguageModel, items: Sequence[ScoringItem], context_turns: int = 0
) -> list[Answer]:
    """
    Return the log-probabilities of each item's response after its context.

    :param context_turns: how many utterances of the context are read; 0: all.
    """
    return judge.answer(response_questions(items, context_turns))


def response_questions(
    items: Sequence[ScoringItem], context_turns: int = 0
) -> list[Question]:
    """
    Return the question about each item's response after its context.

    :param context_turns: how many utterances of the context are read; 0: all.
    """
    return [
        Question(item.context[-context_turns:], (item.response or '',))
        for item in items
    ]


def answers_without_context(
    judge: LanguageModel, items: Sequence[ScoringItem]
) -> list[Answer]:
    """
    Return the log-probabilities of each item's response as the first of a dialogue.
    """
    texts = list(dict.fromkeys(item.response or '' for item in items))
    answers = judge.answer([Question((), (text,)) for text in texts])
    known = dict(zip(texts, answers, strict=True))
    return [known[item.response or ''] for item in items]


def mean_logprob(answer: Answer) -> float | None:
    """
    Return the mean over the tokens of an answer's only continuation; `None` when it has
    no finite probability.
    """
    logprobs = answer.continuations[0]
    if not logprobs or not all(map(math.isfinite, logprobs)):
        return None
    return math.fsum(logprobs) / len(logprobs)


def first_continuation_share(answer: Answer) -> float | None:
    """
    Return the probability of the first of an answer's two continuations among the two;
    `None` where neither has one.
    """
    first, second = map(math.fsum, answer.continuations)
    odds = second - first  # not a number where both are minus infinity
    return None if math.isnan(odds) else 1 / (1 + math.exp(min(LARGEST_EXPONENT, odds)))


def difference(first: float | None, second: float | None) -> float | None:
    """
    Return the difference of two numbers, `None` where one is missing.
    """
    return None if first is None or second is None else first - second
