"""
LLM judges of a response, of a whole dialogue, and of two responses to one context.

Rating by the expected value over the labels: Liu et al. (2023), "G-Eval", section 3.
Both orders of a pair: Zheng et al. (2023), "Judging LLM-as-a-Judge with MT-Bench and
Chatbot Arena", section 3.4. LLM-Eval: Lin and Chen (2023); the wording is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parlai_ext.core.options import option
from parlai_ext.data.judged.qualities import mean
from parlai_ext.models.questions import ChatQuestions
from parlai_ext.scoring.base import OTHER, ItemScore, Scorer, ScoringItem, swapped_item
from parlai_ext.scoring.items import lettered_turns
from parlai_ext.scoring.likelihood import context_turns_option, judge_option
from parlai_ext.scoring.llm.prompts import (
    AnswerRating,
    expected_rating,
    prompt_option,
    read_prompt,
    reply_ratings,
)
from parlai_ext.scoring.shipped_file import read_shipped_file

# of each dimension that one prompt asks for, and the tokens that the model did not see
PromptRatings = tuple[Sequence[AnswerRating], int]

NOTHING = '(nothing)'
WHOLE = 'the conversation'


def llm_option() -> Any:
    """
    Return the option that names the model which is prompted.
    """
    return judge_option(what='a chat model, also http://HOST/v1,remote_model=NAME')


def rating_option() -> Any:
    """
    Return the option that says how an answer becomes a number.
    """
    return option(
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
    options: Any
    chat: ChatQuestions | None = None

    def prepare(self) -> None:
        """
        Read the prompt.

        :raises UserError: with file, line and key.
        """
        doc = read_shipped_file('prompts', self.options.prompt, 'prompt')
        self.prompt = read_prompt(doc)
        if self.prompt.level != self.level:
            problem = f'{self.prompt.level}; this scorer judges a {self.level}'
            raise doc.error(('level',), problem)
        self.dimensions = tuple(self.prompt.dimensions)
        self.signed = {'prompt': self.prompt.hash}

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
        from parlai_ext.models.judge_names import judge_system

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

    def rate(self, texts: Sequence[str]) -> list[PromptRatings]:
        """
        Return the ratings of filled prompts: of a local model from how likely each
        label is as its answer, else from a chat model's reply.
        """
        prompt, rating = self.prompt, self.rating
        if self.chat is None:
            asks = rating != 'parsed' and prompt.answer == 'label'
            replies = self.judge.rating_replies(list(texts), asks)
            return [(reply_ratings(reply, prompt, rating), 0) for reply in replies]
        labels = list(prompt.labels)
        questions = [self.chat.reply_question(text, labels) for text in texts]
        ratings: list[PromptRatings] = []
        for answer in self.judge.answer(questions):
            chances = [math.exp(math.fsum(row)) for row in answer.continuations]
            known = dict(zip(labels, chances, strict=True))
            ratings.append(([expected_rating(known, prompt)], answer.num_truncated))
        return ratings

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the texts that stand in the prompt for the names of its level.
        """
        raise NotImplementedError

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the scores of each item; all prompts go to the model together.
        """
        lacks = [self._lacks(item) for item in items]
        asked = [
            [] if lack else list(self._asked(item))
            for item, lack in zip(items, lacks, strict=True)
        ]
        texts = [text for some in asked for _, text in some]
        rated = iter(self.rate(texts) if texts else ())
        scores = []
        for some, lack in zip(asked, lacks, strict=True):
            answers = [(dimensions, next(rated)) for dimensions, _ in some]
            ratings = {
                name: rating
                for dimensions, answer in answers
                for name, rating in zip(dimensions, answer[0], strict=True)
            }
            scores.append(
                ItemScore(
                    {name: rating.value for name, rating in ratings.items()},
                    dict.fromkeys(self.dimensions, lack)
                    | {name: rating.reason for name, rating in ratings.items()},
                    {name: rating.evidence for name, rating in ratings.items()} or None,
                    max((cut for _, (_, cut) in answers), default=0),
                )
            )
        return scores

    def _lacks(self, item: ScoringItem) -> str | None:
        """
        Return why an item cannot be shown; `None` if it can.
        """
        name = item.lacking(self.prompt.needs)
        return name and f'the prompt shows {name}, which the item does not have'

    def _asked(self, item: ScoringItem) -> Iterator[tuple[tuple[str, ...], str]]:
        """
        Yield the filled prompts of an item with the dimensions that each asks for: one,
        or one for each dimension.
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
            yield self.dimensions, prompt.filled(fixed)
            return
        for name, question in prompt.dimensions.items():
            yield (name,), prompt.filled({**fixed, 'question': question})


def shown_turns(
    turns: Sequence[str], speakers: Sequence[str] | None, judged: str | None
) -> tuple[str, str | None]:
    """
    Return turns with A or B before each, and the letter of the judged speaker.

    :param speakers: of the turns, where they are known and two; otherwise turns
        alternate.
    :param judged: the speaker who is judged, where that is known.
    """
    names = list(dict.fromkeys(speakers or ()))
    letters = ['AB'[place % 2] for place in range(len(turns))]
    letter = None
    if speakers is not None and len(names) == 2 and len(speakers) == len(turns):
        letters = ['AB'[names.index(name)] for name in speakers]
        letter = 'AB'[names.index(judged)] if judged in names else None
    lines = [f'{name}: {text}' for name, text in zip(letters, turns, strict=True)]
    return '\n'.join(lines) or NOTHING, letter


CONTEXT_TURNS = 6
NO_OTHER = 'there is no other response to compare with'
NO_RESPONSE = '(no response)'


@dataclass(frozen=True)
class LlmJudgeOptions:
    """
    The model, what it is asked about a response, and how its answer becomes a number.
    """

    judge_model_file: str = llm_option()
    prompt: str = prompt_option('response')
    rating: str = rating_option()
    context_turns: int = context_turns_option(CONTEXT_TURNS)


class LlmJudge(PromptedScorer):
    """
    A chat model's rating of each response, in the dimensions of the prompt.
    """

    name = 'llm_judge'
    options_class: Any = LlmJudgeOptions

    def context_lines(self, item: ScoringItem) -> str:
        """
        Return the last turns of the context with letters.
        """
        turns = lettered_turns(item.context[-self.options.context_turns :])
        return '\n'.join(turns) or NOTHING

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return context and response; the one who is judged is B.
        """
        return {
            'context': self.context_lines(item),
            'response': f'B: {item.response or NO_RESPONSE}',
            'judged': 'B',
        }


@dataclass(frozen=True)
class LlmEvalOptions:
    """
    The model, and what it is asked about a response.
    """

    judge_model_file: str = llm_option()
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


@dataclass(frozen=True)
class LlmDialogueOptions:
    """
    The model, what it is asked about a dialogue, and how its answer becomes a number.
    """

    judge_model_file: str = llm_option()
    prompt: str = prompt_option('dialogue')
    rating: str = rating_option()


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
        Return the dialogue, and who is judged.
        """
        speakers = item.extras.get('speakers')
        lines, letter = shown_turns(item.utterances, speakers, item.speaker)
        judged = WHOLE if letter is None else f'speaker {letter}'
        return {'dialogue': lines, 'judged': judged}


@dataclass(frozen=True)
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
        return {
            'context': self.context_lines(item),
            'first': item.response or NO_RESPONSE,
            'second': str(item.extras[OTHER]) or NO_RESPONSE,
            'judged': 'B',
        }

    def in_given_order(self) -> LlmPair:
        """
        Return a scorer with the same model that asks once, the response first.
        """
        if self.options.orders == 'given':
            return self
        options = replace(self.options, orders='given')
        return LlmPair(options, self.models.source)

    def _lacks(self, item: ScoringItem) -> str | None:
        return NO_OTHER if OTHER not in item.extras else super()._lacks(item)

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
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
            both: dict[str, dict[str, float | None]] = {}
            for name in self.dimensions:
                theirs = other.values.get(name)
                second = None if theirs is None else 1 - theirs
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
