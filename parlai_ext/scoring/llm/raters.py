"""
Who answers a prompt: a local model through its likelihoods, or a chat model (an
endpoint, or a local one that writes its answer) through its reply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


# of each dimension that one prompt asks for, and the tokens that the model did not see
PromptRatings = tuple[Sequence[AnswerRating], int]


def ratings_by_likelihood(
    judge: LanguageModel, chat: ChatQuestions, prompt: Prompt, texts: Sequence[str]
) -> list[PromptRatings]:
    """
    Return the rating of each filled prompt, from how likely each label is as the answer
    of a local language model, in one call of it.
    """
    labels = list(prompt.labels)
    questions = [chat.question([ChatTurn(False, text)], True, labels) for text in texts]
    ratings: list[PromptRatings] = []
    for answer in judge.answer(questions):
        probabilities = [math.exp(math.fsum(row)) for row in answer.continuations]
        known = dict(zip(labels, probabilities, strict=True))
        ratings.append(([expected_rating(known, prompt)], answer.num_truncated))
    return ratings


def ratings_by_reply(
    chat: ChatModel, prompt: Prompt, rating: str, texts: Sequence[str]
) -> list[PromptRatings]:
    """
    Return the ratings of each filled prompt, from a chat model's reply.

    :param rating: ``auto``: by the probabilities of the labels where the endpoint tells
        them, else by what the reply says; ``expected`` or ``parsed``: so only.
    """
    asks = rating != 'parsed' and prompt.answer == 'label'
    replies = chat.rating_replies(list(texts), asks)
    return [(reply_ratings(reply, prompt, rating), 0) for reply in replies]


def reply_ratings(
    reply: ChatReply, prompt: Prompt, rating: str
) -> Sequence[AnswerRating]:
    """
    Return the ratings that a reply stands for.
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
            return [AnswerRating(None, UNTOLD)]
    return [label_rating(reply.text, prompt)]
