"""
Judges of several terms whose weights were fitted: composite, CRS and the learned judge.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as tensor_bytes

from parlai_ext import zoo_configs
from parlai_ext.core import (
    DATA_ERRORS,
    UserError,
    bytes_hash,
    chunks,
    content_id,
    frozen,
    mean,
    nearest,
    option,
)
from parlai_ext.core.records import RealNumber, Record
from parlai_ext.files import Document, read_file
from parlai_ext.ranking.baselines import LAST_HEARD, words_of
from parlai_ext.scoring.base import (
    Items,
    ItemScore,
    ScoringItem,
    encoder_option,
    read_shipped_file,
    unit_rows,
)
from parlai_ext.scoring.judged_corpora import (
    CORPORA,
    NEAREST_CORPUS,
    NEARNESS,
    THRESHOLD,
    JudgedCorpora,
    vector_in_dialogue,
)
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    JudgeScorer,
    answers_without_context,
    context_turns_option,
    judge_option,
    mean_logprob,
    response_answers,
    response_question,
)
from parlai_ext.scoring.references import BertScore
from parlai_ext.scoring.relevance import context_cosines
from parlai_ext.scoring.trivial import (
    OVERALL,
    SECOND_PERSON,
    Distinct,
    Length,
    content_words,
    heard_before,
    share_in,
)

# --- composite ------------------------------------------------------------------------
# A judge of several terms: how likely a response is, how near it is to the context, and
# how much it says; what it repeats does not count, and words that its partner has just
# said make it neither longer nor, where there are many, nearer.
#
#     Overall = (1 - repeated) * sum of weight * scaled(term)  -  repeated * 2
#
# Each term is scaled by a fixed centre and spread and cut to -2 … 2, so that no term
# can run away; the weights sum to 1, and so Overall is from -2 to 2. Centres, spreads
# and weights are in a file, ``zoo_configs/composite/``; `benchmarks/fit_composite.py`
# wrote the shipped one, and docs/composite.md says on which judged sets. `Crs` weighs
# terms for each quality.

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
            score = ItemScore(
                {'Overall': overall_score(self.terms, values, repeated)},
                evidence=(*values.values(), repeated),  # as `evidence_labels`
                cut=answer.num_truncated,
            )
            scores.append(score)
        return scores


def overall_score(
    terms: Mapping[str, Term], values: Mapping[str, float | None], repeated: float
) -> float | None:
    """
    Return the score from the values of the terms; `None` without a likelihood. Another
    term without a value counts 0, the scaled value of its centre.
    """
    if values['likelihood'] is None:
        return None
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
            values = {
                quality: overall_score(terms, known, 0.0)
                for quality, terms in self.terms.items()
            }
            values[OVERALL] = mean(list(values.values()))
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


# --- the learned judge ----------------------------------------------------------------
# The learned judge: a weighted sum of what two models and plain counts say of a
# response, with weights that were learned from people's judgements and from spoilt
# replies.
#
#     Overall = bias + sum over inputs of weight * clipped((input - mean) / scale)
#
# The inputs are numbers that can be read, hidden states of a language model, products
# of sentence embeddings, and what an adapter of the encoder makes of the response after
# its context (`stacked_inputs`). The weights of a judge are in a folder with a card,
# ``judge.yaml``, numbers, ``weights.safetensors``, and perhaps ``adapter.safetensors``.
# docs/learned.md says what the shipped judge was learned from and what it is worth on
# data that it was not.

if TYPE_CHECKING:  # the module loads torch
    from parlai_ext.models.encoders import ResponseReader

LAST_TURNS = 4  # of a context, which the language model reads
COMPARED_TURNS = 3  # of these, with which a response is compared
LAYER = 20  # whose hidden states are used, of the 30 of smollm2-135m
FIRST_PERSON = frozenset(['i', "i'm", "i've", "i'd", "i'll", 'my', 'me'])
SECOND_PERSON_WORDS = frozenset(['you', "you're", "you've", 'your'])
SENTENCE_END = re.compile(r'[.!?]["\')]*\s*$')


@frozen
class Reading:
    """
    What the models say of a response.

    :param logprobs: of the response's tokens after the context, the end token included.
    :param alone: the same without a context.
    :param states: the mean of the hidden states at the response's tokens.
    :param response, turns: embeddings of unit length, of the response and of the last
        turns before it, oldest first.
    :param adapted: what the adapter says, where the judge has one.
    :param cut: how many tokens of the response and of its context no model read.
    """

    logprobs: Sequence[float]
    alone: Sequence[float]
    states: np.ndarray
    response: np.ndarray
    turns: np.ndarray
    adapted: float | None = None
    cut: int = 0


def read_responses(
    judge: Any, encoder: Any, items: Items, adapter: bytes | None = None
) -> list[Reading]:
    """
    Return what the models say of each response.

    :param judge: a causal language model (`answer_with_states`).
    :param adapter: the file of one that was learned with this encoder.
    """
    questions = [response_question(item, LAST_TURNS) for item in items]
    if not hasattr(judge, 'answer_with_states'):
        raise UserError(
            'scorer learned: judge_model_file: a causal language model is needed '
            '(--scorer fed takes others)'
        )
    answers, states = judge.answer_with_states(questions, LAYER)
    alone = answers_without_context(judge, items)
    vectors = unit_vectors(encoder, items)
    adapted: list[float | None] = [None] * len(items)
    if adapter:
        pairs = [(item.context, item.text) for item in items]
        adapted = adapter_reader(adapter).numbers(encoder, pairs).tolist()
    unread = dict(zip(vectors, encoder.cut_tokens([*vectors]), strict=True))
    readings = []
    columns = zip(items, answers, alone, states, adapted, strict=True)
    for item, answer, single, state, number in columns:
        response, *turns = compared_texts(item)
        reading = Reading(
            answer.continuations[0],
            single.continuations[0],
            state,
            vectors[response],
            np.array([vectors[turn] for turn in turns]),
            number,
            answer.num_truncated + sum(unread[text] for text in (response, *turns)),
        )
        readings.append(reading)
    return readings


def unit_vectors(encoder: Any, items: Items) -> dict[str, np.ndarray]:
    """
    Return the embeddings of the responses and of the turns that they are compared with.
    """
    texts = list(dict.fromkeys(text for i in items for text in compared_texts(i)))
    return dict(zip(texts, unit_rows(encoder.encode(texts), 1e-9), strict=True))


def compared_texts(item: ScoringItem) -> tuple[str, ...]:
    """
    Return a response, and the turns that it is compared with.
    """
    return (item.text, *item.context[-COMPARED_TURNS:])


def stacked_inputs(items: Items, readings: Sequence[Reading]) -> dict[str, np.ndarray]:
    """
    Return the inputs of the judge, ``[responses, inputs]`` of each kind: `NUMBERS`, the
    hidden state, the products of the embeddings of the response with the last turn and
    with the mean of the last turns, and the number of the adapter, where there is one.
    """
    rows = []
    for item, reading in zip(items, readings, strict=True):
        turns = reading.turns
        if not len(turns):  # nothing was said before
            turns = np.zeros_like([reading.response])
        products = [reading.response * turns[-1], reading.response * turns.mean(0)]
        blocks = {
            'numbers': np.array(list(numbers(item, reading).values()), np.float32),
            'states': reading.states.astype(np.float32),
            'products': np.concatenate(products).astype(np.float32),
        }
        if reading.adapted is not None:
            blocks[ADAPTED] = np.array([reading.adapted], np.float32)
        rows.append(blocks)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def numbers(item: ScoringItem, reading: Reading) -> dict[str, float]:
    """
    Return the numbers by name: of the language model, of the words, of what was said
    before, of the form, and cosines of sentence embeddings.
    """
    after, alone = np.maximum(reading.logprobs, -30), np.maximum(reading.alone, -30)
    cosines = reading.turns @ reading.response if len(reading.turns) else np.zeros(1)
    values = {
        'likelihood': after.mean(),
        'likelihood_alone': alone.mean(),
        'gain': after.mean() - alone.mean(),
        'least_likely': after.min(),
        'first_token': after[0],
        'end_token': after[-1],
        'spread': after.std(),
        'first_token_alone': alone[0],
        'total_gain': (after.sum() - alone.sum()) / 10,
        **_word_numbers(item),
        **_form_numbers(item),
        'near_last': cosines[-1],
        'near_own': cosines[-2] if len(cosines) > 1 else 0.0,
        'nearest': cosines.max(),
        'near_mean': cosines.mean(),
        'near_last_squared': max(0.0, cosines[-1]) ** 2,
    }
    return {name: float(value) for name, value in values.items()}


def _word_numbers(item: ScoringItem) -> dict[str, float]:
    """
    Return what the words are, and how many of them were said before.
    """
    words = words_of(item.text)
    turns = [words_of(turn) for turn in item.context[-LAST_TURNS:]]
    before = {word for turn in turns for word in turn}
    last, own, earlier = (turns[-k] if len(turns) >= k else [] for k in (1, 2, 3))
    content, last_content = content_words(words), content_words(last)
    pairs = list(pairwise(words))
    copied = repeated_words_share(words, turns)
    in_last = share_in(pairs, pairwise(last))
    num = max(1, len(words))
    return {
        'words': np.log1p(len(words)),
        'words_to_20': min(len(words), LONGEST) / 10,
        'three_words': len(words) <= 3,
        'content_words': np.log1p(len(content)),
        'new_words': np.log1p(sum(word not in before for word in content)),
        'content_share': len(content) / num,
        'distinct_words': len(set(words)) / num,
        'repeated_inside': 1 - len(set(pairs)) / len(pairs) if pairs else 0,
        'word_length': sum(map(len, words)) / num,
        'first_person': share_in(words, FIRST_PERSON),
        'second_person': share_in(words, SECOND_PERSON_WORDS),
        'in_last': share_in(words, last),
        'content_in_last': share_in(content, last_content),
        'pairs_in_last': in_last,
        'pairs_in_own': share_in(pairs, pairwise(own)),
        'pairs_in_earlier': share_in(pairs, pairwise(earlier)),
        'in_own': share_in(words, own),
        'content_in_earlier': share_in(content, [*own, *earlier]),
        'last_content_said': share_in(last_content, words),
        'last_said': share_in(last, words),
        'pairs_in_last_squared': in_last**2,
        'copied': copied,
        'copied_squared': copied**2,
        'said_in_order': share_in(list(pairwise(last)), pairs),
    }


def _form_numbers(item: ScoringItem) -> dict[str, float]:
    text = item.text.strip()
    before = item.context[-1] if item.context else ''
    words = words_of(text)
    asks, asked = '?' in text, '?' in before
    says_yes = bool(words) and words[0] in ('yes', 'yeah', 'no', 'nope', 'sure', 'not')
    return {
        'questions': text.count('?') / 2,
        'ends_with_question': text.endswith('?'),
        'no_end': not SENTENCE_END.search(text),
        'exclamation': '!' in text,
        'small_letters': text == text.lower(),
        'answers_question': asked and not asks,
        'question_to_question': asked and asks,
        'yes_or_no': asked and says_yes,
        'question_before': asked,
        'words_before': np.log1p(len(words_of(before))),
        'turns_before': min(LAST_TURNS, len(item.context)),
    }


NOTHING_READ = Reading((0.0,), (0.0,), np.zeros(1), np.zeros(1), np.zeros((0, 1)))
NUMBERS = tuple(numbers(ScoringItem((), ''), NOTHING_READ))  # their names, in order


CARD, WEIGHTS, ADAPTER = 'judge.yaml', 'weights.safetensors', 'adapter.safetensors'
BLOCKS = ('numbers', 'states', 'products')  # of each judge
ADAPTED = 'adapted'  # of one with an adapter
PARTS = ('mean', 'scale', 'weight')
MOST = 4.0  # spreads from the mean, to which an input is cut
AT_ONCE = 128  # responses whose hidden states are in memory together


class LearnedCard(FittedNumbers):
    """
    The keys of a judge's card.

    :param models: kind of model -> the name of the model that the inputs are from.
    :param inputs: the names of the `NUMBERS`.
    :param sha256, adapter_sha256: of the files beside it.
    :param learned_from, command: where it was learned, and how.
    """

    inputs: tuple[str, ...] = ()
    sha256: str | None = None
    adapter_sha256: str | None = None
    models: dict[str, str] = {}
    learned_from: str = ''
    command: str = ''


@frozen
class BlockWeights:
    """
    How the inputs of one kind are scaled, and how much each counts.
    """

    mean: np.ndarray
    scale: np.ndarray
    weight: np.ndarray

    def scaled(self, inputs: np.ndarray) -> np.ndarray:
        """
        Return these inputs as distances from the mean, in spreads, and cut.

        :param inputs: ``[responses, inputs]``.
        """
        return np.clip((inputs - self.mean) / self.scale, -MOST, MOST)


@cache
def adapter_reader(data: bytes) -> 'ResponseReader':
    """
    Return what reads responses by the file of an adapter; it loads torch.
    """
    from parlai_ext.models.encoders import ResponseReader

    return ResponseReader(data)


@frozen
class JudgeWeights:
    """
    The weights of a learned judge.

    :param content: the hash of the numbers, which the signature has.
    :param models: kind of model -> the name of the model that the inputs are from.
    :param fitted_on: the judged sets that they were learned from.
    :param corpora: those on which the judge was tried, where that is known.
    :param adapter: the file of the encoder's adapter, where the judge has one.
    """

    blocks: Mapping[str, BlockWeights]
    bias: float
    content: str
    models: Mapping[str, str]
    fitted_on: tuple[str, ...] = ()
    corpora: JudgedCorpora | None = None
    adapter: bytes | None = None

    def parts(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """
        Return ``[responses, blocks]``, what each kind of input adds to the score.
        """
        parts = [
            block.scaled(inputs[name]) @ block.weight
            for name, block in self.blocks.items()
        ]
        return np.stack(parts, axis=1)


@frozen
class LearnedOptions:
    """
    The two models, and the file of weights.
    """

    judge_model_file: str = judge_option()
    encoder: str = encoder_option('mpnet')
    weights: str = option(
        'shipped',
        help='the weights: the shipped ones, or the folder of a judge that '
        '`parlai fit_judge` wrote',
        metavar='NAME|FOLDER',
    )


class Learned(JudgeScorer):
    """
    One score a response; higher is better. Over the judged sets that the weights were
    learned from, the mean is 0 and the standard deviation 1.

    The evidence is what the numbers, the hidden states, the products and the adapter
    add to it, and how near the response is to the corpora on which it was tried.
    """

    name = 'learned'
    unit = (
        'standard deviations over the judged sets that it learned from, whose mean is 0'
    )
    dimensions = ('Overall',)
    evidence_labels: tuple[str, ...] = BLOCKS
    instead = 'or another scorer: --scorer fed --judge-model-file zoo:mini/judge/model'
    options_class = LearnedOptions
    options: LearnedOptions
    corpora: JudgedCorpora | None = None

    def prepare(self) -> None:
        """
        Read the weights.

        :raises UserError: for an encoder that the adapter was not learned with.
        """
        self.weights = read_weights(self.options.weights)
        self.fitted_on = self.weights.fitted_on
        self.signed = {'weights': self.weights.content[:16]}
        learned_with = self.weights.models.get('embedder')
        if self.weights.adapter is not None:
            self.signed['adapter'] = bytes_hash(self.weights.adapter)[:16]
            if self.options.encoder != learned_with:
                raise UserError(
                    f'scorer learned: encoder: {self.options.encoder!r}; the adapter '
                    f'of these weights was learned with {learned_with}'
                )
        # another encoder's vectors cannot be compared with the points of a corpus
        if self.options.encoder == learned_with:
            self.corpora = self.weights.corpora
        self.evidence_labels = tuple(self.weights.blocks)
        if self.corpora is not None:
            self.evidence_labels += (NEARNESS, NEAREST_CORPUS)
            names, threshold = list(self.corpora.names), self.corpora.threshold
            self.evidence_record = {'corpora': {'names': names, THRESHOLD: threshold}}

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response.
        """
        scores = []
        for some in chunks(items, AT_ONCE):
            readings = read_responses(
                self.judge, self.encoder, some, self.weights.adapter
            )
            parts = self.weights.parts(stacked_inputs(some, readings))
            for row, reading in zip(parts, readings, strict=True):
                overall = self.weights.bias + float(row.sum())
                evidence = self.evidence(row, reading)
                scores.append(
                    ItemScore({'Overall': overall}, {}, evidence, reading.cut)
                )
        return scores

    def evidence(self, parts: np.ndarray, reading: Reading) -> list[float]:
        """
        Return the numbers of `evidence_labels`.
        """
        values = parts.tolist()
        if self.corpora is not None:
            vector = vector_in_dialogue(reading.response, reading.turns)
            values += self.corpora.nearest(vector)
        return [round(value, 4) for value in values]


def read_weights(name: str) -> JudgeWeights:
    """
    Return the weights of the shipped judge, or of a judge in the user's folder.

    :raises UserError: names the file and the key that is wrong.
    """
    shipped = zoo_configs.HOME / 'learned' / name
    folder = shipped if '/' not in name and shipped.is_dir() else Path(name)
    if not (folder / CARD).is_file():
        known = sorted(p.name for p in (zoo_configs.HOME / 'learned').glob('*'))
        raise UserError(
            f'scorer: weights: {name!r} has no {CARD}; {nearest(name, known)}, or the '
            'folder that `parlai fit_judge --out FOLDER` wrote'
        )
    doc = read_file(folder / CARD)
    card = doc.record(LearnedCard)
    if card.inputs != NUMBERS:
        raise doc.error(
            'inputs', 'this judge was learned from other inputs; fit it again'
        )
    _, tensors = _tensors(folder / WEIGHTS, doc, 'sha256')
    try:
        blocks = {
            block: BlockWeights(*(tensors[f'{block}.{part}'] for part in PARTS))
            for block in (*BLOCKS, *([ADAPTED] if card.adapter_sha256 else []))
        }
        bias = float(tensors['bias'][0])
    except DATA_ERRORS:
        raise UserError(
            f'{folder / WEIGHTS}: these are no weights of a learned judge'
        ) from None
    corpora = adapter = None
    if (folder / CORPORA).is_file():
        corpora = read_corpora(folder / CORPORA)
    if card.adapter_sha256:
        adapter, _ = _tensors(folder / ADAPTER, doc, 'adapter_sha256')
    content = str(card.sha256)
    return JudgeWeights(
        blocks, bias, content, card.models, card.fitted_on, corpora, adapter
    )


def read_corpora(path: Path) -> JudgedCorpora:
    """
    Return the corpora on which a judge was tried.
    """
    try:
        _, points = _tensors(path)
        return JudgedCorpora.from_tensors(points)
    except DATA_ERRORS:
        raise UserError(f'{path}: these are no corpora of a learned judge') from None


def weight_bytes(weights: JudgeWeights) -> bytes:
    """
    Return the file of weights, in float32.
    """
    tensors = {'bias': np.array([weights.bias], np.float32)}
    for name, block in weights.blocks.items():
        for part in PARTS:
            tensors[f'{name}.{part}'] = np.asarray(getattr(block, part), np.float32)
    return tensor_bytes(tensors)


def _tensors(
    path: Path, card: Document | None = None, key: str = ''
) -> tuple[bytes, dict[str, np.ndarray]]:
    """
    Return what a file of weights holds, and its numbers.

    :param card: has the sha256 of the file, under a key.
    """
    try:
        data = path.read_bytes()
        tensors = load_tensors(data)
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f'{path}: it cannot be read: {error}') from None
    content = bytes_hash(data)
    if card is not None and card.data.get(key) != content:
        raise card.error(key, f'{path.name} beside it has another: {content}')
    return data, tensors


# --- with references ------------------------------------------------------------------

# BERTScore by `minilm` of responses other than the reference, over six judged sets
CENTRE, SPREAD = 0.30, 0.13


@frozen
class LearnedReferencesOptions(LearnedOptions):
    """
    The learned judge's options, and the encoder of BERTScore.
    """

    reference_encoder: str = encoder_option()


class LearnedReferences(Learned):
    """
    The learned judge where people's replies are known: half of the score is the
    judge's, half BERTScore with the nearest reference.

        Overall = (learned + clipped((BERTScore - CENTRE) / SPREAD)) / 2

    Higher is better. A response without one of them has no score. The shares were set
    beforehand and nothing here was fitted to people's judgements
    (docs/learned_references.md).
    """

    name = 'learned_references'
    version = 2  # of the judge's scores with those of BERTScore's version 2
    needs = ('references',)
    options_class = LearnedReferencesOptions
    options: LearnedReferencesOptions

    def prepare(self) -> None:
        """
        Read the weights; the evidence is the judge's, and behind it BERTScore.
        """
        super().prepare()
        self.evidence_labels = (*self.evidence_labels, 'bertscore')

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response.
        """
        near = BertScore({'encoder': self.options.reference_encoder}, self.models)
        scores = zip(super().score(items), near.score(items), strict=True)
        return [joined_score(judged, alike) for judged, alike in scores]


def joined_score(judged: ItemScore, alike: ItemScore) -> ItemScore:
    """
    Return the mean of a judge's score and of BERTScore in spreads from its mean.
    """
    first, second = judged.values['Overall'], alike.values['Overall']
    if first is None or second is None:
        return judged if first is None else alike
    spreads = max(-MOST, min(MOST, (second - CENTRE) / SPREAD))
    value = (first + spreads) / 2
    evidence = [*judged.evidence, round(second, 4)]
    return replace(judged, values={'Overall': value}, evidence=evidence)
