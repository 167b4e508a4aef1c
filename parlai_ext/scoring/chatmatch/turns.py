"""
What each turn of a game adds to the seven dimensions, or why it does not count.

Larger is better everywhere: perplexities and penalties are negated.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from parlai_ext.core.nouns import Dialogue, Likelihood, Question
from parlai_ext.scoring.chatmatch.repetition import Echoes
from parlai_ext.scoring.chatmatch.rules import DIMENSIONS, ChatMatchOptions
from parlai_ext.scoring.chatmatch.words import distinct

UNSEEN = 'no language model was asked'
UNNAMED = 'no entity recogniser was asked'
UNKNOWN = 'there is no dictionary of concepts'
QUESTION = re.compile(r'\?[?!]*')  # the end of one question
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
    texts = dialogue.texts
    has_concepts = material.concepts is not None
    unit = rules.distinct_unit
    columns = {
        'fluency': fluency(texts, material.perplexities, rules),
        'knowledge': knowledge(material.names, len(texts), rules),
        'proactivity': [Value(float(questions(text, rules))) for text in texts],
        'specificity': [Value(sum(distinct(text, unit)) / 2) for text in texts],
        'diversity': [
            Value(0.0 - (j is not None or (rules.released and text == '')))
            for j, text in zip(echoes.repeats, texts, strict=True)
        ],
        'consistency': [Value(0.0 - (j is not None)) for j in echoes.contradicts],
        'relevance': [
            Value(float(j is not None)) if has_concepts else Value(None, UNKNOWN)
            for j in recalls
        ],
    }
    rows = [
        dict(zip(columns, r, strict=True)) for r in zip(*columns.values(), strict=True)
    ]
    for i, row in enumerate(rows):
        for dimension, reason in why_not_counted(dialogue, i, echoes, rules).items():
            if reason is not None:
                row[dimension] = Value(None, reason)
    return rows


def why_not_counted(
    dialogue: Dialogue, i: int, echoes: Echoes, rules: ChatMatchOptions
) -> dict[str, str | None]:
    """
    Return, by dimension, why turn ``i`` does not count for it, or `None`.

    A turn may not count because of where it stands (it is given, or the last of an even
    number), or because it is repeated.
    """
    n = len(dialogue.utterances)
    place = repeated = None
    if i == 0 or dialogue.utterances[i].given:
        place = 'not counted: given'
    if rules.released and n % 2 == 0 and i == n - 1:
        place = 'not counted: the last of an even number of turns'
    if echoes.repeats[i] is not None and rules.released:
        repeated = 'not counted: repeated'
    either = place or repeated
    return {
        **dict.fromkeys(DIMENSIONS, either),
        'knowledge': None if rules.released else place,
        'specificity': repeated if rules.released else either,
        'diversity': place,
    }


def questions(text: str, rules: ChatMatchOptions) -> int:
    """
    Return how many questions a turn asks, or in the script's readings whether it does.
    """
    return '?' in text if rules.released else len(QUESTION.findall(text))


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
    values = []
    for i, (text, perplexity) in enumerate(zip(texts, perplexities, strict=True)):
        if cap and len(text) <= 1:
            perplexity = cap
        if i < rules.first_judged:
            values.append(Value(0.0))
        elif perplexity is None or not math.isfinite(perplexity):
            values.append(Value(None, INFINITE))
        else:
            values.append(Value(-min(perplexity, cap or math.inf)))
    return values


def knowledge(
    names: Sequence[Sequence[str]] | None, n: int, rules: ChatMatchOptions
) -> list[Value]:
    """
    Return how many entities each turn brings: all of them, or only new ones.
    """
    if names is None:
        return [Value(None, UNNAMED)] * n
    if not rules.released:
        return [Value(float(len(turn_names))) for turn_names in names]
    counted: set[str] = set()
    values = []
    for turn_names in names:
        before = len(counted)
        counted.update(turn_names)
        values.append(Value(float(len(counted) - before)))
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
