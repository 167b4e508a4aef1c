"""
How likely is a response after its context, to a language model? Likelihood, and what
ParlAI reports of the labels of a generator: perplexity and token accuracy.

Likelihood is the mean log-probability of the response's tokens, its end token included,
so that a response that breaks off in the middle loses. It is a perplexity turned round:
exp(-score). Likely is not the same as good: bland and repeated responses are likely.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parlai_ext.core import (
    Answer,
    LanguageModel,
    Question,
    computed_once,
    frozen,
    option,
)
from parlai_ext.models.questions import decoder_tokenizer
from parlai_ext.scoring.base import (
    EncoderScorer,
    Items,
    ItemScore,
    ScoringItem,
    model_option,
)

LARGEST_EXPONENT = 700.0  # whose exponential is still a number
NO_PROBABILITY = 'the judge gives the response no finite probability'


def judge_option(
    default: str = 'smollm2-135m-q4', what: str = 'the model inside the scorer'
) -> Any:
    """
    Return the option that names the language model inside a scorer.

    :param what: which models would do, for the help text.
    """
    return model_option(
        default,
        'likelihood',
        f'{what}: a catalogue name, a model file, zoo:…, or hf:REPOSITORY[@REVISION]',
        flag='--judge-model-file',
    )


def context_turns_option(default: int = 0) -> Any:
    """
    Return the option that says how many utterances before a response are read.
    """
    meaning = 'utterances before the response that the judge reads; 0: all'
    return option(default, low=0, help=meaning)


class JudgeScorer(EncoderScorer):
    """
    A scorer with the option ``judge_model_file``, a language model.
    """

    @property
    def judge(self) -> LanguageModel:
        """
        The language model inside the scorer.
        """
        return self.models.likelihood(self.options.judge_model_file)


class AnswerScorer(JudgeScorer):
    """
    One score a response, from the judge's answer to one question about it.

    Subclasses define `value`, and `question` if it is not how likely the response is.

    :cvar asked: what the judge is asked with each question.
    """

    dimensions = ('Overall',)
    no_score = NO_PROBABILITY
    asked: Mapping[str, bool] = {}

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question about one response: how likely it is after its context.
        """
        return response_question(item, self.options.context_turns)

    def value(self, answer: Answer) -> float | None:
        """
        Return the score that an answer means; `None` if it means none.
        """
        raise NotImplementedError

    def evidence(self, answer: Answer) -> Any:
        """
        Return what is stored of an answer.
        """

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response; all questions go to the judge together.
        """
        questions = [self.question(item) for item in items]
        [name] = self.dimensions
        return [
            ItemScore(
                {name: self.value(answer)},
                evidence=self.evidence(answer),
                cut=answer.num_truncated,
            )
            for answer in self.judge.answer(questions, **self.asked)
        ]


def finite_sum(logprobs: Sequence[float]) -> float | None:
    """
    Return the sum of log-probabilities; `None` without any, or where one is not finite.
    """
    known = bool(logprobs) and all(map(math.isfinite, logprobs))
    return math.fsum(logprobs) if known else None


def mean_logprob(answer: Answer) -> float | None:
    """
    Return the mean over the tokens of an answer's only continuation; `None` when it has
    no finite probability.
    """
    logprobs = answer.continuations[0]
    total = finite_sum(logprobs)
    return None if total is None else total / len(logprobs)


def token_count(answer: Answer) -> dict[str, int]:
    """
    Return the evidence of an answer about a response: how many tokens it has.
    """
    return {'tokens': len(answer.continuations[0])}


@frozen
class ResponseOptions:
    """
    The judge, and how much of the context it reads.
    """

    judge_model_file: str = judge_option()
    context_turns: int = context_turns_option()


@frozen
class LikelihoodOptions(ResponseOptions):
    """
    The judge, how much of the context it reads, and what the probability is compared
    with.
    """

    less: str = option(
        'nothing',
        help='what is subtracted: nothing, or the mean log-probability of the same '
        'response after no context, which leaves what the context adds',
        choices=('nothing', 'no_context'),
    )


class Likelihood(AnswerScorer):
    """
    Mean log-probability (natural) of a response's tokens after its context.

    One score a response, at most 0 where nothing is subtracted; higher is better. With
    ``less: no_context`` it is the pointwise mutual information of response and context
    per token (Li et al. 2016), which a bland response does not gain from.
    """

    name = 'likelihood'
    unit = 'log-probability (nats) of a token'
    dimensions = ('Likelihood',)
    options_class = LikelihoodOptions
    options: LikelihoodOptions

    value = staticmethod(mean_logprob)
    evidence = staticmethod(token_count)

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the mean of each response, less that of it alone where asked for.
        """
        scores = super().score(items)
        if self.options.less == 'nothing':
            return scores
        [name] = self.dimensions
        alone = map(mean_logprob, answers_without_context(self.judge, items))
        return [
            replace(score, values={name: difference(score.values[name], less)})
            for score, less in zip(scores, alone, strict=True)
        ]


class Perplexity(AnswerScorer):
    """
    Minus the perplexity of a response's tokens after its context, the end token
    included: at most -1, higher is better.

    Response by response it orders as `likelihood` does, of which it is minus the
    exponential of the score with its sign turned; means over responses differ.
    """

    name = 'perplexity'
    options_class = ResponseOptions
    no_score = 'the judge gives the response no probability, or too large a perplexity'

    def value(self, answer: Answer) -> float | None:
        """
        Return minus the perplexity.
        """
        return minus_perplexity(mean_logprob(answer))


class TokenAccuracy(AnswerScorer):
    """
    The share of a response's tokens, its end token included, that are the likeliest
    ones after the context and the tokens before them: from 0 to 1.

    Bland responses are made of such tokens; so are those that the judge itself would
    give.
    """

    name = 'token_accuracy'
    options_class = ResponseOptions
    no_score = 'the response has no token'
    asked = {'greedy': True}
    value = staticmethod(mean_logprob)  # of hits, each 0 or 1
    evidence = staticmethod(token_count)


def response_question(item: ScoringItem, context_turns: int) -> Question:
    """
    Return the question how likely a response is after its context.

    :param context_turns: how many utterances of the context are read; 0: all.
    """
    return Question(item.context[-context_turns:], (item.text,))


def response_answers(
    judge: LanguageModel, items: Items, context_turns: int
) -> list[Answer]:
    """
    Return the log-probabilities of each item's response after its context.

    :param context_turns: as for `response_question`.
    """
    return judge.answer([response_question(item, context_turns) for item in items])


def answers_without_context(judge: LanguageModel, items: Items) -> list[Answer]:
    """
    Return the log-probabilities of each item's response as the first of a dialogue.
    """
    return computed_once(judge.answer, [Question((), (item.text,)) for item in items])


def first_continuation_share(answer: Answer) -> float | None:
    """
    Return the probability of the first of an answer's two continuations among the two;
    `None` where neither has one.
    """
    first, second = map(math.fsum, answer.continuations)
    odds = second - first  # not a number where both are minus infinity
    return None if math.isnan(odds) else 1 / (1 + math.exp(min(LARGEST_EXPONENT, odds)))


def minus_perplexity(logprob: float | None) -> float | None:
    """
    Return minus the perplexity that is behind a mean log-probability; `None` where that
    is missing, or the perplexity too large.
    """
    if logprob is None or -logprob >= LARGEST_EXPONENT:
        return None
    return -math.exp(-logprob)


def difference(first: float | None, second: float | None) -> float | None:
    """
    Return the difference of two numbers, `None` where one is missing.
    """
    return None if first is None or second is None else first - second


Ids = tuple[int, ...]


class Strings:
    """
    Strings before a decoder-only judge, in tokens of its own tokenizer, as programs
    around GPT-2 take them: one pass a text, the first token read and not counted.

    A mark that somebody typed is plain text; only `kept_ids` puts an end token.
    """

    def __init__(self, judge: LanguageModel):
        self.judge: Any = judge
        self.tokenizer = decoder_tokenizer(
            judge,
            'scorer: judge_model_file: the judge must be a decoder-only Hugging Face '
            'model, such as smollm2-135m-q4',
        )

    def kept_ids(self, *texts: str, end: bool) -> tuple[list[Ids], int]:
        """
        Return the tokens of texts that begin alike, and how many were cut at the
        beginning of each, so that the first fits into the judge's positions.

        :param end: put the end token behind each.
        """
        mark = [self.tokenizer.eos_token_id] if end else []
        strings = [
            (*self.tokenizer.encode(text, split_special_tokens=True), *mark)
            for text in texts
        ]
        limit = self.judge.positions
        cut = 0 if limit is None else max(0, len(strings[0]) - limit)
        return [ids[cut:] for ids in strings], cut

    def logprobs(self, strings: Sequence[Ids]) -> list[tuple[float, ...]]:
        """
        Return, for each string, the log-probability of each token but the first.
        """
        different = [ids for ids in dict.fromkeys(strings) if len(ids) > 1]
        answers = self.judge.answer(
            [Question((ids[0],), (ids[1:],)) for ids in different]
        )
        rows = [answer.continuations[0] for answer in answers]
        known = dict(zip(different, rows, strict=True))
        return [known.get(ids, ()) for ids in strings]
