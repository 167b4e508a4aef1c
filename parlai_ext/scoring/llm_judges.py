"""
LLM judges of a response, of a whole dialogue, and of two responses to one context; and
their prompts, read from YAML files: what is asked, and what answers mean.

    level: turn                       # or dialogue, pair
    scale: {lowest: 1, highest: 5}    # or labels: {'Yes': 1, 'No': 0}
    dimensions:
      Overall: is it a good response, all in all?
    prompt: |
      …{context}…{response}…{question}…

A ``{name}`` in the prompt is replaced by what the item has; other braces stay. With
``answer: json`` one prompt asks for all dimensions as a JSON object; otherwise each
dimension is asked for by itself, and the answer is one of the labels.

Filled prompts are rated by a local model through its likelihoods, or by a chat model
(an endpoint, or a local one that writes its answer) in its own words: a label, or a
JSON object with a number for each dimension. What cannot be read is missing, with the
reason; it is never a guess.

Rating by the expected value over the labels: Liu et al. (2023), "G-Eval", section 3.
Both orders of a pair: Zheng et al. (2023), "Judging LLM-as-a-Judge with MT-Bench and
Chatbot Arena", section 3.4. LLM-Eval: Lin and Chen (2023); the wording is ours.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from parlai_ext.core import (
    JsonObject,
    content_id,
    first_object,
    frozen,
    mean,
    nearest,
    option,
    quoted_reply,
)
from parlai_ext.core.records import RealNumber, Record, WholeNumber, WrongType
from parlai_ext.models.questions import ChatQuestions
from parlai_ext.scoring.base import (
    OTHER,
    Items,
    ItemScore,
    Scorer,
    ScoringItem,
    in_groups,
    lettered_turns,
    read_shipped_file,
    swapped_item,
)
from parlai_ext.scoring.likelihood import context_turns_option, difference, judge_option

if TYPE_CHECKING:  # which imports parlai, and so torch
    from parlai_ext.systems.chat.messages import ChatReply

PLACEHOLDER = re.compile(r'\{([a-z_]+)\}')
# what each level's prompt shows, and must show
SHOWN = {
    'turn': ('context', 'response'),
    'dialogue': ('dialogue',),
    'pair': ('context', 'first', 'second'),
}
MAY_BE_SHOWN = ('facts', 'persona', 'references')
MOST_LABELS = 101  # of a scale, each of which is a question to a local model


class RatingScale(Record):
    """
    The lowest and the highest number of a scale.
    """

    lowest: WholeNumber
    highest: WholeNumber

    @model_validator(mode='after')
    def _check(self) -> Self:
        if not 0 < self.highest - self.lowest < MOST_LABELS:
            raise ValueError(f'2 to {MOST_LABELS} numbers are expected')
        return self


class RatingPrompt(Record):
    """
    A prompt: its text, its dimensions with the question about each, and its scale or
    labels.

    :param prompt: with ``{names}`` of what is shown.
    :param description, source: what it is for, and the paper behind it.
    :param answer: one of the labels, asked for each dimension, or an object with a
        number for each dimension.
    :param labels: each answer and its score.
    """

    level: Literal['turn', 'dialogue', 'pair']
    prompt: str
    dimensions: Annotated[dict[str, str], Field(min_length=1)]
    description: str = ''
    source: str = ''
    answer: Literal['label', 'json'] = 'label'
    scale: RatingScale | None = None
    labels: dict[str, RealNumber] = {}

    @field_validator('labels')
    @classmethod
    def _check_labels(cls, labels: dict[str, float]) -> dict[str, float]:
        if not all(map(str.strip, labels)):
            raise ValueError('a word and its score are expected')
        if len(set(labels.values())) < 2:
            raise ValueError('two labels with different scores are expected')
        return labels

    @model_validator(mode='after')
    def _check(self) -> Self:
        if (self.scale is None) == (not self.labels):
            raise ValueError('either scale or labels is expected')
        problem = ''
        if self.labels and self.answer == 'json':
            problem = 'an answer in JSON has a scale, no labels'
        elif self.level == 'pair' and (self.lowest, self.highest) != (0, 1):
            problem = 'of a pair the first is better at 1, the second at 0'
        if problem:
            raise WrongType(problem, ('labels',))
        # what an item of its level has may be shown, and some of it must be
        asked = ('question',) if self.answer == 'label' else ()
        needed = (*SHOWN[self.level], *asked)
        known = (*needed, *MAY_BE_SHOWN, 'lowest', 'highest', 'questions', 'judged')
        names = set(PLACEHOLDER.findall(self.prompt))
        for name in sorted(names - set(known)):
            problem = f'{{{name}}}: a {self.level} has none; {nearest(name, known)}'
            raise WrongType(problem, ('prompt',))
        several = len(self.dimensions) > 1
        for name in needed:
            if name not in names and (name != 'question' or several):
                raise WrongType(f'{{{name}}} is missing', ('prompt',))
        return self

    @cached_property
    def scores(self) -> Mapping[str, float]:
        """
        The score of each answer: of a scale, of its whole numbers, and an answer in
        between, such as 3.5, is one as well; of an answer in JSON, of its ends.
        """
        if self.scale is None:
            return self.labels
        ends = self.scale.lowest, self.scale.highest
        numbers = ends if self.answer == 'json' else range(ends[0], ends[1] + 1)
        return {str(number): float(number) for number in numbers}

    @property
    def lowest(self) -> float:
        """
        The lowest score.
        """
        return min(self.scores.values())

    @property
    def highest(self) -> float:
        """
        The highest score.
        """
        return max(self.scores.values())

    def filled(self, texts: Mapping[str, str]) -> str:
        """
        Return the prompt with each ``{name}`` replaced; a text in which a name stands
        in braces stays as it is.
        """
        return PLACEHOLDER.sub(lambda match: texts[match[1]], self.prompt).strip()


def prompt_option(default: str) -> Any:
    """
    Return the option that names a prompt.
    """
    return option(
        default,
        help='what is asked, and what answers mean: a shipped prompt, or a file',
        metavar='NAME|FILE',
    )


NUMBER = r'-?\d+(?:\.\d+)?'


@frozen
class AnswerRating:
    """
    The score that a model's answer stands for, or why there is none.

    :param manner: ``expected`` (the mean of the labels' scores under the model's
        probabilities) or ``parsed`` (what the reply says).
    :param probabilities: of each label, not scaled to 1: their sum is how likely it was
        that the model answered with a label at all.
    :param cut: how many tokens of the prompt the model did not see.
    """

    value: float | None
    reason: str | None = None
    manner: str | None = None
    probabilities: Mapping[str, float] | None = None
    cut: int = 0

    @property
    def evidence(self) -> JsonObject:
        """
        What is stored of a rating: how it was made, and the labels' probabilities.
        """
        evidence: dict[str, Any] = {'manner': self.manner}
        if self.probabilities is not None:
            evidence['probabilities'] = dict(self.probabilities)
        return evidence


def label_rating(reply: str, prompt: RatingPrompt) -> AnswerRating:
    """
    Return the rating of a reply that should be a label.

    The reply must name exactly one label, in any case of letters and with other words
    around it; on a scale, one number within it, of which "/5" or "out of 5" is no part.
    """
    if prompt.scale is None:
        values = named_scores(reply, prompt.scores)
    else:
        highest = re.escape(f'{prompt.highest:g}')
        top = rf'(?:/|\bout\s+of\b)\s*{highest}(?!\.?\d)'  # "/5", "out of 5"
        text = re.sub(top, ' ', reply, flags=re.IGNORECASE)
        numbers = map(float, re.findall(rf'(?<![\w.]){NUMBER}\b', text))
        values = {n for n in numbers if prompt.lowest <= n <= prompt.highest}
    if len(values) == 1:
        return AnswerRating(values.pop(), manner='parsed')
    problem = 'several labels' if values else 'no label'
    return AnswerRating(None, f'the reply names {problem}: {quoted_reply(reply)}')


def named_scores(reply: str, scores: Mapping[str, float]) -> set[float]:
    """
    Return the scores of the labels that a reply names; that of the label that it is.

    :param scores: by label.
    """
    said = _plain(reply)
    exact = [score for label, score in scores.items() if _plain(label) == said]
    # the longest first, so that "not good" is no "good"
    longest = sorted(scores, key=lambda label: -len(label))
    pattern = '|'.join(rf'(?<!\w){re.escape(label)}(?!\w)' for label in longest)
    # one letter may be a word: A in "A good answer" is none of the labels A and B
    single = any(len(label) == 1 for label in longest)
    matches = re.findall(pattern, reply, 0 if single else re.IGNORECASE)
    by_label = {label.casefold(): score for label, score in scores.items()}
    return set(exact[:1]) or {by_label[match.casefold()] for match in matches}


def _plain(text: str) -> str:
    """
    Return a text without case, space and the marks around it.
    """
    return text.strip(' \t\r\n.,;:!?"\'()[]{}<>*_`').casefold()


def json_ratings(reply: str, prompt: RatingPrompt) -> dict[str, AnswerRating]:
    """
    Return the rating of each dimension from a reply that should be a JSON object. Words
    around the object are passed over; names of dimensions may be in any case.
    """
    data = first_object(reply)
    if data is None:
        reason = f'the reply holds no JSON object: {quoted_reply(reply)}'
        return dict.fromkeys(prompt.dimensions, AnswerRating(None, reason))
    given = {key.casefold(): value for key, value in data.items()}
    return {
        name: _json_rating(given.get(name.casefold()), prompt)
        for name in prompt.dimensions
    }


def _json_rating(value: Any, prompt: RatingPrompt) -> AnswerRating:
    """
    Return the rating that a value of a JSON object is: a number, also as a text.
    """
    if value is None:
        return AnswerRating(None, 'the JSON object does not have it')
    if isinstance(value, str) and re.fullmatch(NUMBER, value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return AnswerRating(None, f'no number: {quoted_reply(str(value))}')
    # comparing works with whole numbers of any length, and fails for NaN
    if not prompt.lowest <= value <= prompt.highest:
        ends = f'{prompt.lowest:g} to {prompt.highest:g}'
        return AnswerRating(None, f'{quoted_reply(str(value))} is not from {ends}')
    return AnswerRating(float(value), manner='parsed')


def expected_rating(
    probabilities: Mapping[str, float], prompt: RatingPrompt
) -> AnswerRating:
    """
    Return the mean of the labels' scores, weighted with their probabilities.
    """
    total = math.fsum(probabilities.values())
    if not total > 0:
        return AnswerRating(None, 'the judge gives no label a probability')
    products = (p * prompt.scores[label] for label, p in probabilities.items())
    value = math.fsum(products) / total
    return AnswerRating(value, None, 'expected', dict(probabilities))


def label_probabilities(
    alternatives: Sequence[Sequence[Sequence[Any]]], prompt: RatingPrompt
) -> dict[str, float] | None:
    """
    Return the probability of each label at the first token of a reply that is a label;
    `None` where no token is one.

    Tokens that differ in space, case and marks are one label. A label that is not among
    the alternatives counts 0. Where one label begins another, as 1 and 10, a token may
    be the beginning of the longer one, so that there are no probabilities, either.

    :param alternatives: as `systems.chat.messages.ChatReply` has them.
    """
    plain = {_plain(label): label for label in prompt.scores}
    if any(a != b and b.startswith(a) for a in plain for b in plain):
        return None
    for place in alternatives:
        if _plain(place[0][0]) not in plain:
            continue
        probabilities = dict.fromkeys(prompt.scores, 0.0)
        for token, logprob in place:
            label = plain.get(_plain(token))
            if label is not None:
                probabilities[label] += math.exp(min(0.0, logprob))
        return probabilities
    return None


def reply_ratings(
    reply: 'ChatReply', prompt: RatingPrompt, rating: str
) -> Sequence[AnswerRating]:
    """
    Return the ratings that a reply stands for.

    :param rating: ``auto``: by the probabilities of the labels where the endpoint tells
        them, else by what the reply says; ``expected`` or ``parsed``: so only.
    """
    if reply.text is None:
        missing = AnswerRating(None, reply.reason or 'the model does not reply')
        return [missing] * (len(prompt.dimensions) if prompt.answer == 'json' else 1)
    if prompt.answer == 'json':
        return list(json_ratings(reply.text, prompt).values())
    if rating != 'parsed':
        told = reply.alternatives
        known = None if told is None else label_probabilities(told, prompt)
        if known is not None:
            return [expected_rating(known, prompt)]
        if rating == 'expected':
            reason = 'the endpoint tells no log-probabilities of the labels'
            return [AnswerRating(None, reason)]
    return [label_rating(reply.text, prompt)]


# --- the judges -----------------------------------------------------------------------

NOTHING = '(nothing)'
WHOLE = 'the conversation'


@frozen
class PromptOptions:
    """
    The model, and what it is asked.
    """

    judge_model_file: str = judge_option(
        what='a chat model, also http://HOST/v1,remote_model=NAME'
    )
    prompt: str = prompt_option('response')


@frozen
class RatedPromptOptions(PromptOptions):
    """
    The model, what it is asked, and how its answer becomes a number.
    """

    rating: str = option(
        'auto',
        choices=('auto', 'expected', 'parsed'),
        help='expected: the mean of the scores under the probabilities of the labels; '
        'parsed: what the reply says; auto: expected where probabilities are told',
    )


class PromptedScorer(Scorer):
    """
    Fills a prompt for each item (and dimension), has it rated, and returns the ratings.

    Subclasses say what of an item the prompt shows (`shown_texts`). The options of a
    subclass have ``judge_model_file``, ``prompt`` and ``context_turns``.
    """

    prompted = True
    chat: ChatQuestions | None = None

    def prepare(self) -> None:
        """
        Read the prompt.

        :raises UserError: with file, line and key.
        """
        doc = read_shipped_file('prompts', self.options.prompt, 'prompt')
        self.prompt = prompt = doc.record(RatingPrompt)
        if prompt.level != self.level:
            problem = f'{prompt.level}; this scorer judges a {self.level}'
            raise doc.error('level', problem)
        self.dimensions = tuple(prompt.dimensions)
        hashed = content_id(
            'prompt',
            prompt.level,
            prompt.prompt,
            list(prompt.dimensions.items()),
            prompt.answer,
            list(prompt.scores.items()),
            prompt.lowest,
            prompt.highest,
            prompt.scale is not None,
        )
        self.signed = {'prompt': hashed}

    @property
    def rating(self) -> str:
        """
        How an answer becomes a number; one in JSON, or of a scorer without this option,
        is parsed.
        """
        json = self.prompt.answer == 'json'
        return 'parsed' if json else getattr(self.options, 'rating', 'parsed')

    def named_models(self) -> list[tuple[str, str]]:
        """
        Return the model: one of likelihoods where it is local and rates by them.
        """
        from parlai_ext.models.handle import judge_system

        name = self.options.judge_model_file
        is_remote = judge_system(name).opt.get('model') == 'ext:remote'
        reads_reply = self.rating == 'parsed' or is_remote
        return [('chat' if reads_reply else 'likelihood', name)]

    def load_models(self) -> None:
        """
        Load the model; one that rates by likelihoods needs a chat template.
        """
        [(kind, name)] = self.named_models()
        self.judge = self.models.model(kind, name)
        if kind == 'likelihood':
            self.chat = ChatQuestions.from_judge(self.judge)

    def rate(self, texts: Sequence[str]) -> list[Sequence[AnswerRating]]:
        """
        Return the ratings of filled prompts, in each dimension that one asks for: of a
        local model from how likely each label is as its answer, else from a chat
        model's reply.
        """
        prompt, rating = self.prompt, self.rating
        if self.chat is None:
            asks = rating != 'parsed' and prompt.answer == 'label'
            replies = self.judge.rating_replies(list(texts), asks)
            return [reply_ratings(reply, prompt, rating) for reply in replies]
        labels = list(prompt.scores)
        questions = [self.chat.reply_question(text, labels) for text in texts]
        ratings: list[Sequence[AnswerRating]] = []
        for answer in self.judge.answer(questions):
            chances = [math.exp(math.fsum(row)) for row in answer.continuations]
            expected = expected_rating(dict(zip(labels, chances, strict=True)), prompt)
            ratings.append([replace(expected, cut=answer.num_truncated)])
        return ratings

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the texts that stand in the prompt for the names of its level.
        """
        raise NotImplementedError

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each item; all prompts go to the model together.
        """
        lacks = list(map(self._lacks, items))
        asked = [
            [] if lack else self._prompts(item)
            for item, lack in zip(items, lacks, strict=True)
        ]
        scores = []
        for rated, lack in zip(in_groups(self.rate, asked), lacks, strict=True):
            # one of each dimension, or none at all
            ratings = dict(zip(self.dimensions, chain(*rated), strict=False))
            scores.append(
                ItemScore(
                    {name: rating.value for name, rating in ratings.items()},
                    dict.fromkeys(self.dimensions, lack)
                    | {name: rating.reason for name, rating in ratings.items()},
                    {name: rating.evidence for name, rating in ratings.items()} or None,
                    max((rating.cut for rating in ratings.values()), default=0),
                )
            )
        return scores

    def _lacks(self, item: ScoringItem) -> str | None:
        """
        Return why an item cannot be shown; `None` if it can.
        """
        shown = PLACEHOLDER.findall(self.prompt.prompt)
        name = item.lacking([name for name in MAY_BE_SHOWN if name in shown])
        return name and f'the prompt shows {name}, which the item does not have'

    def _prompts(self, item: ScoringItem) -> list[str]:
        """
        Return the filled prompts of an item: one that asks for all dimensions, or one
        for each.
        """
        prompt = self.prompt
        fixed = {
            'lowest': f'{prompt.lowest:g}',
            'highest': f'{prompt.highest:g}',
            'questions': '\n'.join(f'- {k}: {v}' for k, v in prompt.dimensions.items()),
            'facts': item.facts or NOTHING,
            'persona': '\n'.join(item.persona) or NOTHING,
            'references': '\n'.join(item.references) or NOTHING,
            'judged': WHOLE,
            **self.shown_texts(item),
        }
        if prompt.answer == 'json':
            return [prompt.filled(fixed)]
        asked = prompt.dimensions.values()
        return [prompt.filled({**fixed, 'question': question}) for question in asked]


CONTEXT_TURNS = 6

NO_RESPONSE = '(no response)'


@frozen
class LlmJudgeOptions(RatedPromptOptions):
    """
    The model, what it is asked about a response, and how its answer becomes a number.
    """

    context_turns: int = context_turns_option(CONTEXT_TURNS)


class LlmJudge(PromptedScorer):
    """
    A chat model's rating of each response, in the dimensions of the prompt.
    """

    name = 'llm_judge'
    options_class: Any = LlmJudgeOptions

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the last turns of the context and the response; the one who is judged is
        B.
        """
        turns = lettered_turns(item.context[-self.options.context_turns :])
        return {
            'context': '\n'.join(turns) or NOTHING,
            'response': f'B: {item.response or NO_RESPONSE}',
            'judged': 'B',
        }


@frozen
class LlmEvalOptions(PromptOptions):
    """
    The model, and what it is asked about a response.
    """

    prompt: str = prompt_option('llm_eval')
    context_turns: int = context_turns_option(CONTEXT_TURNS)


class LlmEval(LlmJudge):
    """
    LLM-Eval (Lin and Chen 2023): one prompt, and one JSON object with four numbers.

    The model writes its answer, which is read; a dimension that is not in it has no
    score. ``prompt: llm_eval_100`` asks for 0 to 100 instead of 0 to 5.
    """

    name = 'llm_eval'
    options_class = LlmEvalOptions


@frozen
class LlmDialogueOptions(RatedPromptOptions):
    """
    The model, what it is asked about a dialogue, and how its answer becomes a number.
    """

    prompt: str = prompt_option('dialogue')


class LlmDialogue(PromptedScorer):
    """
    A chat model's rating of a whole dialogue: of one speaker's part, where it is known
    who said what, else of the conversation.
    """

    name = 'llm_dialogue'
    level = 'dialogue'
    options_class = LlmDialogueOptions
    options: LlmDialogueOptions

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the dialogue, with A or B before each turn, and who is judged.

        Turns alternate where it is not known which of two speakers said what.
        """
        turns, speakers = item.utterances, item.speakers
        names = list(dict.fromkeys(speakers))
        letters = ['AB'[place % 2] for place in range(len(turns))]
        judged = WHOLE
        if len(names) == 2 and len(speakers) == len(turns):
            letters = ['AB'[names.index(name)] for name in speakers]
            if item.speaker in names:
                judged = f'speaker {"AB"[names.index(item.speaker)]}'
        lines = [f'{name}: {text}' for name, text in zip(letters, turns, strict=True)]
        return {'dialogue': '\n'.join(lines) or NOTHING, 'judged': judged}


@frozen
class LlmPairOptions(LlmJudgeOptions):
    """
    The model, what it is asked about two responses, and in which orders.
    """

    prompt: str = prompt_option('pair')
    orders: str = option(
        'both',
        choices=('both', 'given'),
        help='both: each pair is asked in both orders, and the mean counts; given: '
        'once, the response first',
    )


class LlmPair(LlmJudge):
    """
    How much a chat model prefers a response to another one to the same context, from 0
    to 1; 0.5 is a tie. The evidence has the preference in each order.
    """

    name = 'llm_pair'
    level = 'pair'
    options_class = LlmPairOptions

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the context and both responses, the judged one first.
        """
        return super().shown_texts(item) | {
            'first': item.response or NO_RESPONSE,
            'second': str(item.extras[OTHER]) or NO_RESPONSE,
        }

    def in_given_order(self) -> 'LlmPair':
        """
        Return a scorer with the same model that asks once, the response first.
        """
        if self.options.orders == 'given':
            return self
        return LlmPair(replace(self.options, orders='given'), self.models.source)

    def _lacks(self, item: ScoringItem) -> str | None:
        if OTHER not in item.extras:
            return 'there is no other response to compare with'
        return super()._lacks(item)

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the preference for each response; without one of two orders there is
        none.
        """
        given = super().score(items)
        if self.options.orders == 'given':
            return given
        swapped = super().score([swapped_item(item) for item in items])
        scores = []
        for first, other in zip(given, swapped, strict=True):
            both = {}
            for name in self.dimensions:
                second = difference(1, other.values.get(name))
                both[name] = {'first': first.values.get(name), 'second': second}
            scores.append(
                ItemScore(
                    {name: mean(list(two.values())) for name, two in both.items()},
                    {n: first.reasons.get(n) or other.reasons.get(n) for n in both},
                    both,
                    max(first.cut, other.cut),
                )
            )
        return scores
