"""
Judges that are asked in words.

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
from dataclasses import field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from parlai_ext.core import (
    Answer,
    JsonObject,
    Question,
    UserError,
    content_id,
    errors_about,
    first_object,
    frozen,
    mean,
    nearest,
    option,
    optional,
    quoted_reply,
)
from parlai_ext.core.records import RealNumber, Record, WholeNumber, WrongType
from parlai_ext.data.corpora import CORPORA, Turns, read_corpus
from parlai_ext.data.judged import OWN_ENDINGS, own_card, read_card
from parlai_ext.files import read_json, text_lines
from parlai_ext.models.questions import (
    PLAIN_FORMAT,
    ChatQuestions,
    judge_tokenizer,
    plain_ids,
)
from parlai_ext.scoring.base import (
    OTHER,
    Items,
    ItemScore,
    Scorer,
    ScoringItem,
    file_option,
    in_groups,
    lettered_turns,
    read_shipped_file,
    swapped_item,
)
from parlai_ext.scoring.likelihood import (
    AnswerScorer,
    context_turns_option,
    difference,
    first_continuation_share,
    judge_option,
)
from parlai_ext.systems.chat.messages import (
    ChatReply,
    ChatTurn,
    without_control_tokens,
)
from parlai_ext.view import single_spaced

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

    :param evidence: what is stored of it. Its ``manner`` is ``expected`` (the mean of
        the labels' scores under the model's ``probabilities``) or ``parsed`` (what the
        reply says). The probabilities of the labels are not scaled to 1: their sum is
        how likely it was that the model answered with a label at all.
    :param cut: how many tokens of the prompt the model did not see.
    """

    value: float | None
    reason: str | None = None
    evidence: JsonObject = field(default_factory=lambda: {'manner': None})
    cut: int = 0


PARSED = {'manner': 'parsed'}


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
        return AnswerRating(values.pop(), evidence=PARSED)
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
    return AnswerRating(float(value), evidence=PARSED)


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
    told: JsonObject = {'manner': 'expected', 'probabilities': dict(probabilities)}
    return AnswerRating(value, None, told)


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
    reply: ChatReply, prompt: RatingPrompt, rating: str
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
            replies = self.judge.rating_replies(list(texts), rating != 'parsed')
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


# --- judges that answer with one of two labels ----------------------------------------
# Judges that answer with one of two labels: which of two responses is better (A or B,
# PairEval), or whether a response is good (Yes or No, DirectEval and, without training,
# `prompted`).
#
# The label is a single token, and its probability is read, nothing is generated.
# Scorers and the training of judges share these prompts, so that a judge is asked what
# it learnt. The wording is ours, but for the question of DirectEval, which Park et al.
# (2024) print; a file may hold another prompt for pairs (`pair_template`).
#
# What is asked stands first and the end is short, so that prompts which begin with one
# conversation share most of their tokens.

FORMATS = ('plain', 'chat')  # how a judge is asked
LABEL_TURNS = 4  # utterances before a response that are read


@frozen
class JudgedResponse:
    """
    A response after its context.

    :param facts: the knowledge that the response should use, where a judge is shown it.
    """

    context: tuple[str, ...]
    response: str
    facts: str = ''


CARD = 'judge_training.json'  # in the folder of a trained judge
PLACE = re.compile(r'\{(history|response|knowledge)_([12])\}')
NEEDED = ('{history_1}', '{response_1}', '{history_2}', '{response_2}')
ANSWERS = ('Yes', 'No')  # to whether a response is good


@frozen
class LabelPrompt:
    """
    What a model is asked, how its answer begins, and the labels it may go on with.
    """

    question: str
    answer: str
    labels: tuple[str, str]


def pair_template(path: str | None) -> str:
    """
    Return the prompt for pairs in a file, '' where none is named: text that a label, A
    or B, goes on with.

    In it ``{history_1}``, ``{response_1}``, ``{history_2}`` and ``{response_2}`` stand
    for the two conversations, an utterance a line. A paragraph with no other place
    than ``{knowledge_1}`` or ``{knowledge_2}`` is left out where there are no facts.

    :raises UserError: when the file cannot be read, or one of the four is not in it.
    """
    if path is None:
        return ''
    text = '\n'.join(line for _, line in text_lines(path, empty=True)).rstrip()
    for place in NEEDED:
        if place not in text:
            raise UserError(f'prompt: {path}: {place} is not in it')
    return text


def pair_prompt(
    first: JudgedResponse, second: JudgedResponse, template: str = ''
) -> LabelPrompt:
    """
    Return the question which of two responses is better; the labels are A and B.

    :param template: of `pair_template`; '': our own wording.
    """
    if template:
        return LabelPrompt(filled_template(template, first, second), '', ('A', 'B'))
    parts = [
        'Which response fits its dialogue better?',
        *_conversation(first, ' A'),
        *_conversation(second, ' B'),
    ]
    return LabelPrompt('\n'.join(parts), 'Better response:', ('A', 'B'))


def filled_template(
    template: str, first: JudgedResponse, second: JudgedResponse
) -> str:
    """
    Return a template with the two conversations in their places.
    """
    texts = {
        (kind, number): text
        for number, one in (('1', first), ('2', second))
        for kind, text in (
            ('history', '\n'.join(map(single_spaced, one.context))),
            ('response', single_spaced(one.response)),
            ('knowledge', one.facts.strip()),
        )
    }
    paragraphs = []
    for paragraph in template.split('\n\n'):
        places = PLACE.findall(paragraph)
        if not places or any(at[0] != 'knowledge' or texts[at] for at in places):
            paragraphs.append(paragraph)
    return PLACE.sub(lambda at: texts[at[1], at[2]], '\n\n'.join(paragraphs))


def direct_prompt(candidate: JudgedResponse) -> LabelPrompt:
    """
    Return the question whether a response is good; the labels are Yes and No.
    """
    parts = [
        *_conversation(candidate, '')[1:],
        '',
        'Is the above response a good response to the given conversation?',
    ]
    return LabelPrompt('\n'.join(parts), 'Answer:', ANSWERS)


def _conversation(candidate: JudgedResponse, name: str) -> list[str]:
    """
    Return the lines of a conversation. The one who responds is Q, the other is P.
    """
    turns = lettered_turns(list(map(single_spaced, candidate.context)), 'PQ')
    facts = [f'Facts{name}', candidate.facts.strip()] if candidate.facts else []
    return [
        '',
        *facts,
        f'Dialogue{name}',
        *turns,
        f'Response{name}',
        f'Q: {single_spaced(candidate.response)}',
    ]


class LabelTokens:
    """
    Prompts and labels as the token ids of one tokenizer.

    ``plain``: the prompt is text that goes on with the label. ``chat``: the question is
    a user's message in the model's chat template, the label begins the reply.
    """

    def __init__(self, tokenizer: Any, prompt_format: str = 'plain'):
        from parlai_ext.systems.pretrained import surrounding_tokens

        self.tokenizer = tokenizer
        self.lead = list(surrounding_tokens(tokenizer)[0])
        self.chat: ChatQuestions | None = None
        if prompt_format == 'chat':
            self.chat = ChatQuestions(tokenizer, PLAIN_FORMAT)

    def prompt_ids(self, prompt: LabelPrompt) -> tuple[int, ...]:
        """
        Return the tokens before the label.
        """
        if self.chat is not None:
            ids = self.chat.reply_question(prompt.question, ()).context
            return tuple(map(int, ids))
        [clean] = without_control_tokens(
            [ChatTurn(False, prompt.question)], self.tokenizer
        )
        text = '\n\n'.join(filter(None, (clean.text, prompt.answer)))
        return (*self.lead, *plain_ids(self.tokenizer, text))

    def label_ids(self, labels: Sequence[str]) -> tuple[int, ...]:
        """
        Return the first token of each label.

        :raises UserError: when the labels begin with the same token.
        """
        space = ' ' if self.chat is None else ''
        ids = tuple(plain_ids(self.tokenizer, space + label)[0] for label in labels)
        if len(set(ids)) < len(ids):
            raise UserError(
                f'the judge: its tokenizer writes {" and ".join(labels)} with the same '
                'first token, so that its answers cannot be told apart'
            )
        return ids

    def question(self, prompt: LabelPrompt) -> Question:
        """
        Return the question how likely each label is after the prompt.
        """
        labels = self.label_ids(prompt.labels)
        return Question(self.prompt_ids(prompt), tuple((label,) for label in labels))


@frozen
class LabelOptions:
    """
    The judge, how it is asked, and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(what='a judge of parlai train_judge')
    judge_format: str = option(
        'plain',
        choices=FORMATS,
        help='plain: text that the label completes; chat: a message in the judge’s '
        'chat template. A trained judge is asked as it was trained',
    )
    context_turns: int = context_turns_option(LABEL_TURNS)


class LabelScorer(AnswerScorer):
    """
    Asks a judge prompts of two labels.
    """

    prompted = True
    unit = 'a probability'
    options: LabelOptions

    def load_models(self) -> None:
        """
        Load the judge.

        :raises UserError: when it has no tokenizer of Hugging Face's library, or was
            trained for something else.
        """
        super().load_models()
        tokenizer = judge_tokenizer(self.judge)
        if tokenizer is None:
            raise UserError(
                f'scorer {self.name}: the judge is no model of Hugging Face’s library; '
                'hf:REPOSITORY or a folder would do'
            )
        asked = self.options.judge_format
        path = Path(getattr(tokenizer, 'name_or_path', '')) / CARD
        card = read_json(path, dict) if path.is_file() else {}
        for key, value, remedy in (
            ('method', self.name, 'scorer: {}'),
            ('prompt_format', asked, 'judge_format: {}'),
            ('prompt', self.signed.get('prompt'), 'prompt: what its training had'),
        ):
            if card.get(key, value) != value:
                raise UserError(
                    f'scorer {self.name}: the judge was trained with {key} '
                    f'{card[key]!r}; {remedy.format(card[key])} would do'
                )
        self.tokens = LabelTokens(tokenizer, asked)

    def candidate(self, item: ScoringItem) -> JudgedResponse:
        """
        Return a response after as much of its context as the judge reads.
        """
        return JudgedResponse(item.context[-self.options.context_turns :], item.text)


class DirectEval(LabelScorer):
    """
    DirectEval: the probability that a trained judge answers "Yes", of "Yes" and "No",
    to "Is the above response a good response to the given conversation?".

    One score a response, from 0 to 1; higher is better. Source: Park et al. (2024),
    "PairEval", section 4.1.2. ``parlai train_judge --method directeval`` makes such a
    judge; `prompted` asks an untrained chat model, in its own words.
    """

    name = 'directeval'
    options_class = LabelOptions
    value = staticmethod(first_continuation_share)

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question whether a response is good.
        """
        return self.tokens.question(direct_prompt(self.candidate(item)))


QUESTION = (
    'Is the response a good response to the dialogue, one that makes sense and is '
    'specific to it? Answer Yes or No.'
)


@frozen
class PromptedOptions:
    """
    The judge, what it is asked, and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(what='a decoder-only chat model')
    question: str = option(
        QUESTION, help='what is asked about the response; the answer is Yes or No'
    )
    context_turns: int = context_turns_option(6)


class Prompted(AnswerScorer):
    """
    The probability that a chat model answers "Yes", of "Yes" and "No".

    One score a response, from 0 to 1; higher is better. Source: the baseline DirectEval
    of Park et al. (2024), without their fine-tuning; the wording of the question is
    ours.
    """

    name = 'prompted'
    prompted = True
    options_class = PromptedOptions
    options: PromptedOptions
    value = staticmethod(first_continuation_share)

    def prepare(self) -> None:
        """
        Refuse an empty question.
        """
        if not self.options.question.strip():
            raise UserError('scorer: question: empty; a question is expected')

    def load_models(self) -> None:
        """
        Load the judge, which needs a chat template.
        """
        super().load_models()
        self.chat = ChatQuestions.from_judge(self.judge)

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question about one response; the one who is judged is B, the other A.
        """
        turns = lettered_turns(item.context[-self.options.context_turns :])
        response = f'Response:\nB: {item.text}'
        prompt = '\n'.join(
            ['Dialogue:', *turns, '', response, '', self.options.question]
        )
        return self.chat.reply_question(prompt, ANSWERS)


# --- PairEval -------------------------------------------------------------------------
# PairEval: how often is a response better than the next turns of people's dialogues?
#
# A judge reads two conversations, the judged one and a comparison, and says which
# response is better. The score is the mean probability of the judged one over a few
# comparisons (3) and both orders, since judges prefer one place. Source: Park et al.
# (2024), "PairEval: Open-domain Dialogue Evaluation with Pairwise Comparison", section
# 3; the wording of the prompt is ours, unless a file has another. ``parlai
# train_judge`` makes such a judge.
#
# The comparisons are drawn from a file of dialogues (DailyDialog's validation split in
# the paper), which the option ``comparisons`` names, or from the items of a judged set
# (``judged_set``), or, with ``exhaustive``, are the other judged items themselves.
#
# ``probability: vocabulary``, ``weighted``, ``context_turns: 0`` and ``facts`` are what
# the authors' program does (https://github.com/ddehun/PairEval): the probability of the
# label itself, times the score of the comparison, the whole history and the knowledge.

Pair = tuple[JudgedResponse, JudgedResponse]


@frozen
class PairEvalOptions(LabelOptions):
    """
    The judge, and what responses are compared with.
    """

    comparisons: str | None = file_option(
        'dialogues between people with which responses are compared: the folder or the '
        'validation.zip of DailyDialog, or JSON lines {"dialogue": […]}. The signature '
        'holds those that are drawn',
        'PATH',
    )
    judged_set: str | None = optional(
        signed=False,
        metavar='NAME',
        help='draw the comparisons from the items of this judged set, whose file is in '
        'comparisons, or is it',
    )
    corpus: str = option(
        'dailydialog', choices=CORPORA, signed=False, help='the format of comparisons'
    )
    num_comparisons: int = option(3, low=1, help='comparisons of a response')
    runs: int = option(
        1,
        low=1,
        help='the mean of so many runs, each with comparisons of its own; the paper '
        'averages 5',
    )
    seed: int = option(0, low=0, help='by which comparisons are drawn')
    exhaustive: bool = option(
        False,
        help='compare each response with all others that are scored with it, instead; '
        'scores then depend on which those are',
    )
    prompt: str | None = file_option(
        'a file with the prompt, {history_1}, {response_1}, {history_2} and '
        '{response_2} in it, that A or B goes on with; the signature holds its text'
    )
    probability: str = option(
        'labels',
        choices=('labels', 'vocabulary'),
        signed='if changed',
        help='of a label among the two, or, as in the authors’ program, among all '
        'tokens',
    )
    weighted: bool = option(
        False,
        signed='if changed',
        help='count a comparison as much as people’s overall score of it, as the '
        'authors’ program does; needs judged_set',
    )
    facts: bool = option(
        False,
        signed='if changed',
        help='show the judge the facts, or the persona, that a response should use',
    )


class PairEval(LabelScorer):
    """
    The mean probability that a response is better than a comparison.

    One score a response, from 0 to 1 unless it is weighted; higher is better, and 0.5
    is as good as people's. The evidence holds the mean of each run, and in how many of
    the pairs the choice changes when the two responses change places.
    """

    name = 'paireval'
    shows_flips = True
    options_class = PairEvalOptions
    options: PairEvalOptions

    def prepare(self) -> None:
        """
        Draw the comparisons.

        :raises UserError: when no file is named, or it has too few dialogues.
        """
        options = self.options
        self.runs: list[list[JudgedResponse]] = []
        self.weights: dict[JudgedResponse, float] = {}
        self.compares_items = options.exhaustive
        with errors_about(f'scorer {self.name}'):
            self.template = pair_template(options.prompt)
        if options.weighted and (options.exhaustive or not options.judged_set):
            raise UserError(
                f'scorer {self.name}: weighted: people’s scores of the comparisons are '
                'needed; judged_set: NAME would do'
            )
        if not self.compares_items:
            self._draw()
        texts = [
            [[*one.context, one.response, *filter(None, [one.facts])] for one in run]
            for run in self.runs
        ]
        self.signed = {'comparisons': content_id(texts, *self.weights.values())}
        if self.template:
            self.signed |= {'prompt': content_id(self.template)}

    def _draw(self) -> None:
        """
        Draw the comparisons of each run.
        """
        options = self.options
        if options.comparisons is None:
            raise UserError(
                f'scorer {self.name}: comparisons: is needed: a folder or file of '
                'dialogues between people, such as the official validation.zip of '
                'DailyDialog'
            )
        path = Path(options.comparisons)
        with errors_about(f'scorer {self.name}: comparisons'):
            if options.judged_set is None:
                dialogues = read_corpus(options.corpus, path, 'validation')
                usable = [turns for turns in dialogues if len(turns) >= 2]
                self.runs = drawn_comparisons(usable, options)
                return
            named = options.judged_set
            is_own = named.endswith(OWN_ENDINGS)
            card = own_card(path / named) if is_own else read_card(named)
            judged = card.read(path)
        scores = {
            self.candidate(
                ScoringItem(
                    one.context, one.response, facts=one.facts, persona=one.persona
                )
            ): score
            for one in judged.items
            if one.response and (score := one.human(judged.overall or '')) is not None
        }
        self.runs = drawn_comparisons(list(scores), options)
        if options.weighted:
            self.weights = {one: scores[one] for run in self.runs for one in run}

    def candidate(self, item: ScoringItem) -> JudgedResponse:
        """
        Return a response after its context, with its knowledge where that is shown.
        """
        known = self.options.facts and item.has_knowledge
        return replace(super().candidate(item), facts=item.knowledge if known else '')

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        candidates = [self.candidate(item) for item in items]
        sets = [self.runs for _ in candidates]
        if self.options.exhaustive:
            different = list(dict.fromkeys(candidates))
            sets = [[[one for one in different if one != own]] for own in candidates]
        asked = {
            pair: self.tokens.question(pair_prompt(*pair, self.template))
            for candidate, runs in zip(candidates, sets, strict=True)
            for comparison in dict.fromkeys(chain(*runs))
            for pair in ((candidate, comparison), (comparison, candidate))
        }
        # questions that begin alike stand together
        order = sorted(asked, key=lambda pair: asked[pair].context)
        given = self.judge.answer([asked[pair] for pair in order])
        answers = dict(zip(order, given, strict=True))
        return [
            self._score(candidate, runs, answers)
            for candidate, runs in zip(candidates, sets, strict=True)
        ]

    def _score(
        self,
        candidate: JudgedResponse,
        runs: Sequence[Sequence[JudgedResponse]],
        answers: Mapping[Pair, Answer],
    ) -> ItemScore:
        """
        Return the score of a candidate against its runs of comparisons.

        :param answers: of the judge about each pair, in both orders.
        """
        means, cut = [], 0
        flips = {}
        for run in runs:
            values = []
            for one in run:
                first, second = answers[candidate, one], answers[one, candidate]
                cut += first.num_truncated
                share, rest = map(first_continuation_share, (first, second))
                shares = [share, difference(1, rest)]
                # a choice and a tie differ, too
                choices = {(p > 0.5) - (p < 0.5) for p in shares if p is not None}
                if None not in shares:
                    flips[one] = len(choices) > 1
                if self.options.probability == 'vocabulary':
                    logprobs = first.continuations[0], second.continuations[1]
                    shares = [math.exp(math.fsum(label)) for label in logprobs]
                weight = self.weights.get(one, 1)
                values += [None if p is None else p * weight for p in shares]
            means.append(mean(values))
        evidence = {'runs': means, 'flips': [sum(flips.values()), len(flips)]}
        return ItemScore({'Overall': mean(means)}, evidence=evidence, cut=cut)


def drawn_comparisons(
    usable: Sequence[JudgedResponse | Turns], options: PairEvalOptions
) -> list[list[JudgedResponse]]:
    """
    Return the comparisons of each run, of different dialogues or judged items: these
    themselves, or of a dialogue a turn after the first, after its context.

    :raises UserError: when there are too few.
    """
    if len(usable) < options.num_comparisons:
        raise UserError(
            f'scorer paireval: comparisons: {len(usable)} can be drawn from; '
            f'num_comparisons: {options.num_comparisons} needs as many'
        )
    runs = []
    for run in range(options.runs):
        rng = Random(f'{options.seed} {run}')
        comparisons = []
        for one in rng.sample(usable, options.num_comparisons):
            if not isinstance(one, JudgedResponse):
                place = rng.randrange(1, len(one))
                one = JudgedResponse(one[:place][-options.context_turns :], one[place])
            comparisons.append(one)
        runs.append(comparisons)
    return runs
