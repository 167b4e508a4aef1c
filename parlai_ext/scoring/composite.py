"""
A judge of several terms: how likely a response is, how near it is to the context, and
how much it says; what it repeats does not count, and words that its partner has just
said make it neither longer nor, where there are many, nearer.

    Overall = (1 - repeated) * sum of weight * scaled(term)  -  repeated * 2

Each term is scaled by a fixed centre and spread and cut to -2 … 2, so that no term can
run away; the weights sum to 1, and so Overall is from -2 to 2. Centres, spreads and
weights are in a file, ``zoo_configs/composite/``; `benchmarks/fit_composite.py` wrote
the shipped one, and docs/composite.md says on which judged sets. `Crs` weighs terms for
each quality.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from parlai_ext.core import content_id, frozen, option
from parlai_ext.core.records import RealNumber, Record
from parlai_ext.ranking.baselines import LAST_HEARD, words_of
from parlai_ext.scoring.base import (
    Items,
    ItemScore,
    ScoringItem,
    encoder_option,
    read_shipped_file,
)
from parlai_ext.scoring.english import SECOND_PERSON, content_words
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    JudgeScorer,
    context_turns_option,
    judge_option,
    mean_logprob,
    response_answers,
)
from parlai_ext.scoring.relevance import context_cosines
from parlai_ext.scoring.trivial import (
    OVERALL,
    Distinct,
    Length,
    heard_before,
    share_in,
)

LOWEST, HIGHEST = -2.0, 2.0  # of a scaled term, and so of the score
LONGEST = 20  # words; more are no better
MOST_COPIED = 0.4  # share of a response's words that are no stop words
TERMS = ('likelihood', 'relevance', 'length')


class FittedNumbers(Record):
    """
    A file of numbers that were fitted.

    :param fitted_on: the judged sets on which they were.
    """

    description: str = ''
    fitted_on: tuple[str, ...] = ()


class Scale(Record):
    """
    How a term is scaled: the value that counts 0, and what is added to it for 1 more.
    """

    centre: RealNumber
    spread: Annotated[RealNumber, Field(gt=0)]


class Term(Scale):
    """
    How a term is scaled, and how much it counts.
    """

    weight: Annotated[RealNumber, Field(ge=0)]

    def scaled(self, value: float) -> float:
        """
        Return the distance from the centre in spreads, cut to -2 … 2.
        """
        return min(HIGHEST, max(LOWEST, (value - self.centre) / self.spread))


class CompositeWeights(FittedNumbers):
    """
    A file of weights: its terms, whose weights sum to 1.
    """

    terms: dict[Literal['likelihood', 'relevance', 'length'], Term]

    @field_validator('terms')
    @classmethod
    def _check_weights(cls, terms: dict[str, Term]) -> dict[str, Term]:
        if abs(sum(term.weight for term in terms.values()) - 1) > 1e-6:
            raise ValueError('the weights must sum to 1')
        return terms


@frozen
class TermModels:
    """
    The models that the terms need.
    """

    judge_model_file: str = judge_option()
    encoder: str = encoder_option()
    context_turns: int = context_turns_option()


@frozen
class CompositeOptions(TermModels):
    """
    The two models, and the file of weights.
    """

    weights: str = option(
        'fitted',
        help='centre, spread and weight of each term: a shipped name, or a file',
        metavar='NAME|FILE',
    )


class Composite(JudgeScorer):
    """
    One score a response, from -2 to 2; higher is better.

    Length is that of the words that stand in none of the partner's last two turns,
    whatever their person. Relevance goes from that of the response to that of these
    words, as more of its words that are no stop words are the partner's. A response
    that repeats an earlier utterance word for word, or has no word, scores -2. The
    evidence is the value of each term and the repeated share.
    """

    name = 'composite'
    version = 2
    dimensions = ('Overall',)
    evidence_labels = (*TERMS, 'repeated')
    no_score = NO_PROBABILITY
    instead = 'or another scorer: --scorer fed --judge-model-file zoo:mini/judge/model'
    options_class = CompositeOptions
    options: CompositeOptions

    def prepare(self) -> None:
        """
        Read the weights.
        """
        doc = read_shipped_file('composite', self.options.weights, 'weights')
        weights = doc.record(CompositeWeights)
        self.terms: dict[str, Term] = dict(weights.terms.items())
        numbers = [[name, *vars(term).values()] for name, term in self.terms.items()]
        self.signed = {'weights': content_id('composite weights', numbers)}
        self.fitted_on = weights.fitted_on

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response.
        """
        answers = response_answers(self.judge, items, self.options.context_turns)
        new = [new_words(item) for item in items]
        own = [
            replace(i, response=' '.join(w)) for i, w in zip(items, new, strict=True)
        ]
        cosines = (
            context_cosines(self.encoder, some, 'nearest') for some in (items, own)
        )
        scores = []
        for item, words, answer, of_all, of_new in zip(
            items, new, answers, *cosines, strict=True
        ):
            values = {
                'likelihood': mean_logprob(answer),
                'relevance': relevance(of_all, of_new or 0.0, item, words),
                'length': float(min(len(words), LONGEST)),
            }
            earlier = map(words_of, item.context)
            repeated = repeated_words_share(words_of(item.text), earlier)
            overall = None
            if values['likelihood'] is not None:
                overall = overall_score(self.terms, values, repeated)
            score = ItemScore(
                {'Overall': overall},
                evidence=(*values.values(), repeated),  # as `evidence_labels`
                cut=answer.num_truncated,
            )
            scores.append(score)
        return scores


def overall_score(
    terms: Mapping[str, Term], values: Mapping[str, float | None], repeated: float
) -> float:
    """
    Return the score from the values of the terms; one without a value counts 0, the
    scaled value of its centre.
    """
    total = 0.0
    for name, term in terms.items():
        value = values[name]
        if value is not None:
            total += term.weight * term.scaled(value)
    return (1 - repeated) * total + repeated * LOWEST


def new_words(item: ScoringItem) -> list[str]:
    """
    Return the words of a response that stand in none of the two turns which its speaker
    heard last; "my" stands where "your" does.
    """
    known = {
        _second_person(word)
        for turn in heard_before(item, len(item.context))[-LAST_HEARD:]
        for word in words_of(turn)
    }
    return [word for word in words_of(item.text) if _second_person(word) not in known]


def relevance(
    of_all: float | None, of_new: float, item: ScoringItem, new: Sequence[str]
) -> float | None:
    """
    Return the relevance of a response from its cosine with the context and that of its
    new words: from `MOST_COPIED` of its words that are no stop words upward, what is
    copied counts nothing. `None` where it has no cosine with the context.

    :param new: the words of the response that its partner has not just said.
    """
    if of_all is None:
        return None
    words, own = content_words(words_of(item.text)), content_words(new)
    copied = min(1.0, (1 - len(own) / len(words)) / MOST_COPIED) if words else 0.0
    return of_all - copied * max(0.0, of_all - (of_new if new else 0.0))


def _second_person(word: str) -> str:
    word = word.replace('’', "'")
    return SECOND_PERSON.get(word, word)


def repeated_words_share(
    words: Sequence[str], earlier: Iterable[Sequence[str]]
) -> float:
    """
    Return how much of a response was said before, from 0 to 1.

    Of its pairs of neighbouring words, it is the share that are not the only ones of
    their kind, or the largest share that one earlier utterance has, whichever is more.
    Of the latter a share up to one half, which people's responses have too, counts as
    0. A response of one or two words counts as repeated when it is an earlier
    utterance; so does one without a word.
    """
    if len(words) <= 2:
        return float(not words or list(words) in map(list, earlier))
    pairs = list(pairwise(words))
    times = Counter(pairs)
    inside = sum(times[pair] > 1 for pair in pairs) / len(pairs)
    shares = (share_in(pairs, pairwise(other)) for other in earlier)
    return max(inside, 2 * max(shares, default=0.0) - 1)


# --- Correlation Re-Scaling -----------------------------------------------------------

LEAST = 1 / 3  # the largest weight of a set is this or more


class Correlations(Record):
    """
    How far each sub-metric agrees with people on one set: how likely responses are, how
    near to the last turn, how many and how different their words are.
    """

    likelihood: RealNumber
    relevance: RealNumber
    length: RealNumber
    distinct: RealNumber


METRICS = tuple(Correlations.model_fields)


class Metrics(Record):
    """
    How each sub-metric is scaled.
    """

    likelihood: Scale
    relevance: Scale
    length: Scale
    distinct: Scale


class CrsCorrelations(FittedNumbers):
    """
    A file of correlations: of each quality, those on one judged set or more.
    """

    metrics: Metrics
    correlations: Annotated[
        dict[str, Annotated[dict[str, Correlations], Field(min_length=1)]],
        Field(min_length=1),
    ]

    @field_validator('correlations')
    @classmethod
    def _check_qualities(cls, correlations: dict[str, Any]) -> dict[str, Any]:
        if OVERALL in correlations:
            raise ValueError(f'qualities are expected, not {OVERALL}')
        return correlations

    def terms(self) -> dict[str, dict[str, Term]]:
        """
        Return how each sub-metric is scaled and weighed, for each quality: by the mean
        of its weights on the sets of this quality.
        """
        terms = {}
        for quality, sets in self.correlations.items():
            on_sets = [rescaled_weights(vars(values)) for values in sets.values()]
            terms[quality] = {
                name: Term(**vars(scale), weight=fmean(one[name] for one in on_sets))
                for name, scale in vars(self.metrics).items()
            }
        return terms


@frozen
class CrsOptions(TermModels):
    """
    The models of the sub-metrics, and the file of correlations.
    """

    correlations: str = option(
        'crs',
        help='how far the sub-metrics agree with people: a shipped name, or a file',
        metavar='NAME|FILE',
    )


class Crs(JudgeScorer):
    """
    A score for each quality of the file, and their mean, from -2 to 2; higher is
    better. The evidence is the value of each sub-metric.

    Correlation Re-Scaling: sub-metrics weighed, for each quality, by how far they agree
    with people on judged sets. Source: MME-CRS (Zhang et al. 2022, arXiv:2206.09403),
    team 5 of DSTC10 Track 5. Its seven sub-metrics need models that were not released;
    the weighing is for any. Which power, and how scores of different scales are added,
    is our reading (docs/crs.md).
    """

    name = 'crs'
    dimensions: tuple[str, ...] = (OVERALL,)
    evidence_labels = METRICS
    no_score = NO_PROBABILITY
    options_class = CrsOptions
    options: CrsOptions

    def prepare(self) -> None:
        """
        Read the correlations, and weigh the sub-metrics by them.
        """
        doc = read_shipped_file('composite', self.options.correlations, 'correlations')
        given = doc.record(CrsCorrelations)
        self.terms, self.fitted_on = given.terms(), given.fitted_on
        self.dimensions = (OVERALL, *self.terms)
        numbers = [
            [quality, metric, *vars(term).values()]
            for quality, terms in self.terms.items()
            for metric, term in terms.items()
        ]
        self.signed = {'correlations': content_id('crs', numbers)}

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        answers = response_answers(self.judge, items, self.options.context_turns)
        cosines = context_cosines(self.encoder, items, 'last_turn')
        trivial = Length(), Distinct()
        scores = []
        for item, answer, cosine in zip(items, answers, cosines, strict=True):
            counts = [scorer.item_score(item) for scorer in trivial]
            evidence = (mean_logprob(answer), cosine, *counts)
            known = dict(zip(METRICS, evidence, strict=True))
            values = {}
            if known['likelihood'] is not None:
                values = {
                    quality: overall_score(terms, known, 0.0)
                    for quality, terms in self.terms.items()
                }
                values[OVERALL] = fmean(values.values())
            cut = answer.num_truncated
            scores.append(ItemScore(values, evidence=evidence, cut=cut))
        return scores


def rescaled_weights(correlations: Mapping[str, float]) -> dict[str, float]:
    """
    Return the weights of sub-metrics on one set, which sum to 1: their correlations,
    none below 0, to the lowest whole power at which the largest weight is `LEAST`.
    """
    weights = {name: max(0.0, value) for name, value in correlations.items()}
    powered, power = weights, 1
    while 0 < max(powered.values()) < LEAST * sum(powered.values()) and power < 100:
        power += 1
        powered = {name: value**power for name, value in weights.items()}
    total = sum(powered.values())
    return {name: value / total if total else 0.0 for name, value in powered.items()}
