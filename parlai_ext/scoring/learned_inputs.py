"""
What the learned judge sees of a response: numbers that can be read, hidden states of a
language model, and products of sentence embeddings.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from parlai_ext.core.errors import UserError
from parlai_ext.ranking.baselines import words_of
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.composite import repeated_words_share
from parlai_ext.scoring.english import LEFT_OUT
from parlai_ext.scoring.likelihood import answers_without_context, response_question

LAST_TURNS = 4  # of a context, which the language model reads
COMPARED_TURNS = 3  # of these, with which a response is compared
LAYER = 20  # whose hidden states are used, of the 30 of smollm2-135m
LONGEST = 20  # words; more are no better
FIRST_PERSON = frozenset(['i', "i'm", "i've", "i'd", "i'll", 'my', 'me'])
SECOND_PERSON = frozenset(['you', "you're", "you've", 'your'])
QUESTION_END = re.compile(r'\?\s*$')
SENTENCE_END = re.compile(r'[.!?]["\')]*\s*$')


@dataclass(frozen=True)
class Reading:
    """
    What the models say of a response.

    :param logprobs: of the response's tokens after the context, the end token included.
    :param alone: the same without a context.
    :param states: the mean of the hidden states at the response's tokens.
    :param response, turns: embeddings of unit length, of the response and of the last
        turns before it, oldest first.
    """

    logprobs: Sequence[float]
    alone: Sequence[float]
    states: np.ndarray
    response: np.ndarray
    turns: np.ndarray


def read_responses(
    judge: Any, encoder: Any, items: Sequence[ScoringItem]
) -> tuple[list[Reading], list[int]]:
    """
    Return what the models say of each response, and how many tokens of its context the
    language model did not see.

    :param judge: a causal language model (`answer_with_states`).
    """
    questions = [response_question(item, LAST_TURNS) for item in items]
    if not hasattr(judge, 'answer_with_states'):
        raise UserError(
            'scorer learned: judge_model_file: a causal language model is needed '
            '(--scorer fed takes others)'
        )
    answers, states = judge.answer_with_states(questions, [LAYER], mean_state)
    alone = answers_without_context(judge, items)
    vectors = unit_vectors(encoder, items)
    readings = [
        Reading(
            answer.continuations[0],
            single.continuations[0],
            state,
            vectors[item.response or ''],
            np.stack([vectors[t] for t in item.context[-COMPARED_TURNS:]])
            if item.context
            else np.zeros((0, 1), np.float32),
        )
        for item, answer, single, state in zip(
            items, answers, alone, states, strict=True
        )
    ]
    return readings, [answer.num_truncated for answer in answers]


def mean_state(states: Any, _question: int) -> Any:
    """
    Return the mean of the hidden states at the tokens of a response, without the end
    token. The state at which a token is predicted is that of the token before it.
    """
    return (states[1:] if len(states) > 1 else states).mean(0)[0]


def unit_vectors(encoder: Any, items: Sequence[ScoringItem]) -> dict[str, np.ndarray]:
    """
    Return the embeddings of the responses and of the turns that they are compared with.
    """
    texts = list(
        dict.fromkeys(
            text
            for item in items
            for text in (item.response or '', *item.context[-COMPARED_TURNS:])
        )
    )
    vectors = encoder.encode(texts)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return dict(zip(texts, vectors / np.maximum(lengths, 1e-9), strict=True))


def input_blocks(item: ScoringItem, reading: Reading) -> Mapping[str, np.ndarray]:
    """
    Return the inputs of the judge: `NUMBERS`, the hidden state, and the products of the
    embeddings of the response with the last turn and with the mean of the last turns.
    """
    last, mean = np.zeros_like(reading.response), np.zeros_like(reading.response)
    if len(reading.turns):
        last, mean = reading.turns[-1], reading.turns.mean(0)
    products = [reading.response * last, reading.response * mean]
    return {
        'numbers': np.array(list(numbers(item, reading).values()), np.float32),
        'states': reading.states.astype(np.float32),
        'products': np.concatenate(products).astype(np.float32),
    }


def numbers(item: ScoringItem, reading: Reading) -> dict[str, float]:
    """
    Return the numbers by name: of the language model, of the words, of what was said
    before, of the form, and cosines of sentence embeddings.
    """
    values = {
        **_likelihood_numbers(reading),
        **_word_numbers(item),
        **_overlap_numbers(item),
        **_form_numbers(item),
        **_cosine_numbers(reading),
    }
    return {name: float(value) for name, value in values.items()}


def _likelihood_numbers(reading: Reading) -> dict[str, float]:
    after = np.maximum(np.array(reading.logprobs), -30)
    alone = np.maximum(np.array(reading.alone), -30)
    return {
        'likelihood': after.mean(),
        'likelihood_alone': alone.mean(),
        'gain': after.mean() - alone.mean(),
        'least_likely': after.min(),
        'first_token': after[0],
        'end_token': after[-1],
        'spread': after.std(),
        'first_token_alone': alone[0],
        'total_gain': (after.sum() - alone.sum()) / 10,
    }


def _word_numbers(item: ScoringItem) -> dict[str, float]:
    words = words_of(item.response or '')
    before = {word for turn in item.context[-LAST_TURNS:] for word in words_of(turn)}
    content = content_words(words)
    pairs = list(pairwise(words))
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
        'first_person': sum(word in FIRST_PERSON for word in words) / num,
        'second_person': sum(word in SECOND_PERSON for word in words) / num,
    }


def _overlap_numbers(item: ScoringItem) -> dict[str, float]:
    words = words_of(item.response or '')
    turns = [words_of(turn) for turn in item.context[-LAST_TURNS:]]
    last, own, earlier = (turns[-k] if len(turns) >= k else [] for k in (1, 2, 3))
    pairs = list(pairwise(words))
    content, last_content = content_words(words), content_words(last)
    copied = repeated_words_share(words, turns)
    in_last = share_in(pairs, pairwise(last))
    return {
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
    text = (item.response or '').strip()
    before = item.context[-1] if item.context else ''
    words = words_of(text)
    asks, asked = '?' in text, '?' in before
    says_yes = bool(words) and words[0] in ('yes', 'yeah', 'no', 'nope', 'sure', 'not')
    return {
        'questions': text.count('?') / 2,
        'ends_with_question': bool(QUESTION_END.search(text)),
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


def _cosine_numbers(reading: Reading) -> dict[str, float]:
    cosines = np.zeros(1)
    if len(reading.turns):
        cosines = reading.turns @ reading.response
    return {
        'near_last': cosines[-1],
        'near_own': cosines[-2] if len(cosines) > 1 else 0.0,
        'nearest': cosines.max(),
        'near_mean': cosines.mean(),
        'near_last_squared': max(0.0, cosines[-1]) ** 2,
    }


def content_words(words: Sequence[str]) -> list[str]:
    """
    Return the words that are no stop words.
    """
    return [word for word in words if word not in LEFT_OUT]


def share_in(found: Sequence[Any], known: Any) -> float:
    """
    Return the share of the elements that are among the known ones; 0 of none.
    """
    there = set(known)
    return sum(one in there for one in found) / len(found) if found else 0.0


NOTHING_READ = Reading((0.0,), (0.0,), np.zeros(1), np.zeros(1), np.zeros((0, 1)))
NUMBERS = tuple(numbers(ScoringItem((), ''), NOTHING_READ))  # their names, in order
