"""
What each turn of a game adds to the seven dimensions, or why it does not count.

Larger is better everywhere: perplexities and penalties are negated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from parlai_ext.core.nouns import Dialogue, Likelihood, Question
from parlai_ext.scoring.chatmatch.repetition import Echoes
from parlai_ext.scoring.chatmatch.rules import ChatMatchOptions
from parlai_ext.scoring.chatmatch.words import distinct

UNSEEN = 'no language model was asked'
UNNAMED = 'no entity recogniser was asked'
UNKNOWN = 'there is no dictionary of concepts'
INFINITE = 'the language model gives the turn no finite perplexity'


@dataclass(frozen=True)
class Material:
    """
    What a game needs beside its turns; `None` where nobody was asked.

    :param concepts: word to concept, in the order in which they were found.
    :param names: the entities of each turn.
    :param perplexities: of each turn; `None` for a turn without one.
    """

    concepts: Mapping[str, str] | None = field(default_factory=dict)
    names: Sequence[Sequence[str]] | None = None
    perplexities: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Value:
    """
    A number, or `None` and why there is none.
    """

    value: float | None
    reason: str | None = None


def turn_values(
    dialogue: Dialogue,
    rules: ChatMatchOptions,
    material: Material,
    echoes: Echoes,
    recalls: Sequence[int | None],
) -> list[dict[str, Value]]:
    """
    Return, for each turn, its value by dimension.
    """
    texts = [utterance.text for utterance in dialogue.utterances]
    has_concepts = material.concepts is not None
    unit = rules.distinct_unit
    columns = {
        'fluency': fluency(texts, material.perplexities, rules),
        'knowledge': knowledge(material.names, len(texts), rules),
        'proactivity': [Value(float('?' in text)) for text in texts],
        'specificity': [Value(sum(distinct(text, unit)) / 2) for text in texts],
        'diversity': penalties(echoes.repeats, texts, rules),
        'consistency': [Value(0.0 - (j is not None)) for j in echoes.contradicts],
        'relevance': [
            Value(float(j is not None)) if has_concepts else Value(None, UNKNOWN)
            for j in recalls
        ],
    }
    for dimension, excuse in why_not_counted(dialogue, echoes, rules).items():
        columns[dimension] = [
            value if reason is None else Value(None, reason)
            for value, reason in zip(columns[dimension], excuse, strict=True)
        ]
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def why_not_counted(
    dialogue: Dialogue, echoes: Echoes, rules: ChatMatchOptions
) -> dict[str, list[str | None]]:
    """
    Return, by dimension, why each turn does not count for it, or `None`.
    """
    manner = rules.manner
    places = why_place_not_counted(dialogue, rules)
    repeated = [
        None if j is None or not manner.skips_repeated else 'not counted: repeated'
        for j in echoes.repeats
    ]
    both = [reason or other for reason, other in zip(places, repeated, strict=True)]
    everywhere = manner.whole_game
    return {
        'fluency': both,
        'knowledge': [None] * len(places) if everywhere else places,
        'proactivity': both,
        'specificity': repeated if everywhere else both,
        'diversity': places,
        'consistency': both,
        'relevance': both,
    }


def why_place_not_counted(
    dialogue: Dialogue, rules: ChatMatchOptions
) -> list[str | None]:
    """
    Return why a turn does not count because of where it stands: it is given, or the
    last of an even number.
    """
    n = len(dialogue.utterances)
    reasons: list[str | None] = [
        'not counted: given' if i == 0 or utterance.given else None
        for i, utterance in enumerate(dialogue.utterances)
    ]
    if rules.manner.drops_last and n and n % 2 == 0:
        reasons[-1] = 'not counted: the last of an even number of turns'
    return reasons


def fluency(
    texts: Sequence[str],
    perplexities: Sequence[float | None] | None,
    rules: ChatMatchOptions,
) -> list[Value]:
    """
    Return the negated perplexities.

    Turns before the first that is judged count as 0, as the script has it, and a text
    of one character or none as the cap, where there is one.
    """
    if perplexities is None:
        return [Value(None, UNSEEN)] * len(texts)
    cap = rules.perplexity_cap

    def of_turn(i: int) -> Value:
        if i < rules.first_judged:
            return Value(0.0)
        perplexity = cap if cap and len(texts[i]) <= 1 else perplexities[i]
        if perplexity is None or not math.isfinite(perplexity):
            return Value(None, INFINITE)
        return Value(-min(perplexity, cap or math.inf))

    return [of_turn(i) for i in range(len(texts))]


def penalties(
    repeats: Sequence[int | None], texts: Sequence[str], rules: ChatMatchOptions
) -> list[Value]:
    """
    Return -1 for every turn that repeats, or is empty where that counts as repeating.
    """
    empty = rules.manner.empty_repeats
    return [
        Value(0.0 - (j is not None or (empty and text == '')))
        for j, text in zip(repeats, texts, strict=True)
    ]


def knowledge(
    names: Sequence[Sequence[str]] | None, n: int, rules: ChatMatchOptions
) -> list[Value]:
    """
    Return how many entities each turn brings: all of them, or only new ones.
    """
    if names is None:
        return [Value(None, UNNAMED)] * n
    if not rules.manner.names_once:
        return [Value(float(len(turn_names))) for turn_names in names]
    counted: set[str] = set()
    values = []
    for turn_names in names:
        new = set(turn_names) - counted
        values.append(Value(float(len(new))))
        counted |= new
    return values


def perplexities(
    likelihood: Likelihood, texts: Sequence[str], unit: str
) -> list[float | None]:
    """
    Return the perplexity of each text, without context, its end token included.

    Per token, or per character (the end token counts as one more), where models with
    different vocabularies compare. `None` for an empty text, or where it is not finite.
    Equal texts are asked once, and all at once, the shortest first: they share batches.
    """
    asked = sorted({text for text in texts if text.strip()}, key=lambda t: (len(t), t))
    answers = likelihood.answer([Question((), (text,)) for text in asked])
    by_text = {
        text: perplexity(answer.continuations[0], text, unit)
        for text, answer in zip(asked, answers, strict=True)
    }
    return [by_text.get(text) for text in texts]


def perplexity(logprobs: Sequence[float], text: str, unit: str) -> float | None:
    """
    Return the perplexity of one text; `None` where there is no finite one.
    """
    n = len(text) + 1 if unit == 'character' else len(logprobs)
    if not logprobs or not all(map(math.isfinite, logprobs)):
        return None
    try:
        return math.exp(-math.fsum(logprobs) / n)
    except OverflowError:
        return None
