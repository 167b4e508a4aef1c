"""
Who answers a prompt: a local model through its likelihoods, or a chat model (an
endpoint, or a local one that writes its answer) through its reply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parlai_ext.core.nouns import Likelihood as LanguageModel
from parlai_ext.models.chat_questions import ChatQuestions
from parlai_ext.scoring.base import ChatModel
from parlai_ext.scoring.llm.prompt_file import Prompt
from parlai_ext.scoring.llm.reply_parsing import (
    AnswerRating,
    expected_rating,
    json_ratings,
    label_probabilities,
    label_rating,
)
from parlai_ext.systems.chat.messages import ChatTurn

if TYPE_CHECKING:  # which imports parlai, and so torch
    from parlai_ext.systems.chat.conversation import ChatReply

UNTOLD = 'the endpoint tells no log-probabilities of the labels'


@dataclass(frozen=True)
class PromptRatings:
    """
    The rating of each dimension that one prompt asks for, and how many tokens of the
    prompt the model did not see.
    """

    ratings: tuple[AnswerRating, ...]
    cut: int = 0


class LikelihoodRater:
    """
    Asks a local language model how likely each label is as its answer.
    """

    def __init__(self, judge: LanguageModel, prompt: Prompt):
        self.judge = judge
        self.prompt = prompt
        self.chat = ChatQuestions.from_judge(judge)

    def rate(self, texts: Sequence[str]) -> list[PromptRatings]:
        """
        Return the rating of each filled prompt, in one call of the model.
        """
        labels = list(self.prompt.labels)
        questions = [
            self.chat.question([ChatTurn(False, text)], True, labels) for text in texts
        ]
        ratings = []
        for answer in self.judge.answer(questions):
            probabilities = [math.exp(math.fsum(row)) for row in answer.continuations]
            known = dict(zip(labels, probabilities, strict=True))
            rating = expected_rating(known, self.prompt)
            ratings.append(PromptRatings((rating,), answer.num_truncated))
        return ratings


class ReplyRater:
    """
    Asks a chat model for a reply, and reads it.

    :param rating: ``auto``: by the probabilities of the labels where the endpoint tells
        them, else by what the reply says; ``expected`` or ``parsed``: so only.
    """

    def __init__(self, chat: ChatModel, prompt: Prompt, rating: str):
        self.chat = chat
        self.prompt = prompt
        self.rating = rating

    def rate(self, texts: Sequence[str]) -> list[PromptRatings]:
        """
        Return the ratings of each filled prompt.
        """
        asks = self.rating != 'parsed' and self.prompt.answer == 'label'
        replies = self.chat.rating_replies(list(texts), asks)
        return [PromptRatings(self._ratings(reply)) for reply in replies]

    def _ratings(self, reply: ChatReply) -> tuple[AnswerRating, ...]:
        if reply.text is None:
            missing = AnswerRating(None, reply.reason or 'the model does not reply')
            json = self.prompt.answer == 'json'
            return (missing,) * (len(self.prompt.dimensions) if json else 1)
        if self.prompt.answer == 'json':
            return tuple(json_ratings(reply.text, self.prompt).values())
        if self.rating != 'parsed':
            told = reply.alternatives
            known = None if told is None else label_probabilities(told, self.prompt)
            if known is not None:
                return (expected_rating(known, self.prompt),)
            if self.rating == 'expected':
                return (AnswerRating(None, UNTOLD),)
        return (label_rating(reply.text, self.prompt),)
