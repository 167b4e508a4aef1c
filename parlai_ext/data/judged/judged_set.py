"""
A judged set: turns or dialogues with the annotations of each, and which score is
compared with which of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from parlai_ext.core import frozen, mean


@frozen(slots=True)
class Annotation:
    """
    One annotator's judgement of one quality; the value is `None` for a text ("N/A").

    Where a file does not name its annotators, `annotator` is the place in the list, and
    equal places of two items need not be one person.
    """

    annotator: str
    value: float | None


@frozen
class JudgedItem:
    """
    One judged turn or dialogue.

    :param context: the utterances before the response, or the whole dialogue, oldest
        first.
    :param response: the judged utterance, `None` above the level of turns.
    :param system: name of the judged system.
    :param annotations: by quality, in the order of the file.
    :param references: responses by people to the same context.
    :param facts: the knowledge that the response should use.
    :param persona: what the system was told to be.
    :param speakers: of each utterance of a dialogue; `system` is the judged one's name.
        Empty where no one speaker is judged.
    :param dialogue: the dialogue that a turn or a part of a dialogue is of, where the
        set says so.
    """

    id: str
    context: tuple[str, ...]
    response: str | None
    system: str
    annotations: Mapping[str, Sequence[Annotation]]
    references: tuple[str, ...] = ()
    facts: str | None = None
    persona: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    dialogue: str = ''

    @property
    def utterances(self) -> tuple[str, ...]:
        """
        Return the context and, if there is one, the response.
        """
        return (*self.context, *(() if self.response is None else (self.response,)))

    def human(self, quality: str) -> float | None:
        """
        Return the mean of the numbers for a quality; `None` without any.
        """
        return mean(self.numbers(quality))

    def numbers(self, quality: str) -> list[float]:
        """
        Return the annotations of a quality that are numbers.
        """
        given = self.annotations.get(quality, ())
        return [a.value for a in given if a.value is not None]

    def turns(self, count: int | None = None, seed: int = 0) -> list[JudgedItem]:
        """
        Return the turns of a judged dialogue's system, for a scorer of turns; a turn is
        returned as it is.

        The score of the dialogue is the mean of their scores. Turns have what was said
        before as the context, and no annotations. Empty turns and the first utterance
        of a dialogue are left out.

        :param count: at most so many turns, drawn by the item's id and the seed.
        """
        if self.response is not None:
            return [self]
        speakers = self.speakers or (self.system,) * len(self.context)
        places = [
            place
            for place, text in enumerate(self.context)
            if place and text.strip() and speakers[place] == self.system
        ]
        if count is not None and count < len(places):
            rng = random.Random(f'{seed} {self.id}' if seed else self.id)
            places = sorted(rng.sample(places, count))
        return [
            replace(
                self,
                id=f'{self.id}#{place}',
                context=self.context[:place],
                response=self.context[place],
                annotations={},
                speakers=speakers[: place + 1],
                dialogue=self.dialogue or self.id,
            )
            for place in places
        ]


@frozen
class JudgedSet:
    """
    The items of one set at one level, and where they come from.

    :param unit: what is drawn anew for intervals: the ``item``, or all items of one
        ``context`` or of one ``dialogue``, which are alike.
    :param overall: the quality that judges an item as a whole, if there is one.
    :param dimension_names: dimension of a scorer (lower case) -> quality, where the two
        have different names.
    """

    name: str
    title: str
    source: str
    licence: str
    level: str
    items: tuple[JudgedItem, ...]
    unit: str = 'item'
    overall: str | None = None
    dimension_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def qualities(self) -> tuple[str, ...]:
        """
        Return the judged qualities, in the order of the file.
        """
        return tuple(dict.fromkeys(q for item in self.items for q in item.annotations))

    def counts(self) -> dict[str, int]:
        """
        Return the numbers of items, systems, numeric annotations and texts.
        """
        annotations = [a for i in self.items for q in i.annotations.values() for a in q]
        texts = sum(annotation.value is None for annotation in annotations)
        return {
            'items': len(self.items),
            'systems': len({item.system for item in self.items}),
            'annotations': len(annotations) - texts,
            'texts': texts,
        }

    def groups(self) -> list[int]:
        """
        Return the group of each item as a number: a bootstrap draws the items of a
        group together.
        """
        keys: Sequence[Any] = range(len(self.items))
        if self.unit == 'context':
            keys = [item.context for item in self.items]
        elif self.unit == 'dialogue':
            keys = [item.dialogue for item in self.items]
            if not any(keys):
                return dialogue_numbers([item.utterances for item in self.items])
        numbers: dict[Any, int] = {}
        return [numbers.setdefault(key, len(numbers)) for key in keys]


def dialogue_numbers(turns: Sequence[tuple[str, ...]]) -> list[int]:
    """
    Return the number of each turn's dialogue: turns whose contexts continue each other
    are of one dialogue.

    Turns of one dialogue begin alike: one, its context included, begins the next.
    """
    numbers = [0] * len(turns)
    root = None
    number = -1
    # sorted, a beginning comes right before everything that continues it
    for index in sorted(range(len(turns)), key=lambda i: turns[i]):
        utterances = turns[index]
        if root is None or utterances[: len(root)] != root:
            root, number = utterances, number + 1
        numbers[index] = number
    return numbers


# --- which score goes with which quality ----------------------------------------------
# Which dimension of a scorer is compared with which quality that people judged.

MEAN_ALL = 'mean of all'
MEAN_LEVEL = 'mean of level'
OVERALL = 'overall'


class QualityPair(NamedTuple):
    """
    A score and the mean human value of one quality of an item.

    `name` is the row of the pair in ParlAI's table.
    """

    name: str
    quality: str
    score: float | None
    human: float | None


def quality_pairs(
    scores: Mapping[str, float | None],
    human: Mapping[str, float | None],
    judged_set: JudgedSet,
) -> Iterator[QualityPair]:
    """
    Yield a pair for every dimension that people judged too, and for each quality that
    is left, with the scorer's main score (`main_score`).

    Where the main score is the mean of all dimensions, the set's overall quality is
    also compared with the mean of those that people judged.
    """
    qualities = {quality.lower(): quality for quality in human}
    qualities = {**judged_set.dimension_names, **qualities}
    matched = {}
    compared = set()
    for name, score in scores.items():
        quality = qualities.get(name.lower())
        if quality is not None and quality in human:
            matched[name] = score
            compared.add(quality)
            same = quality.lower().startswith(name.lower())
            label = quality if same else f'{name} ~ {quality}'
            yield QualityPair(label, quality, score, human[quality])
    main = main_dimension(scores, judged_set)
    score = main_score(scores, main)
    for quality, value in human.items():
        if quality in compared:
            continue
        if quality != judged_set.overall or main != MEAN_ALL:
            yield QualityPair(f'{main} ~ {quality}', quality, score, value)
            continue
        yield QualityPair(f'{quality}, {MEAN_ALL}', quality, score, value)
        if matched:
            of_level = mean(list(matched.values()))
            yield QualityPair(f'{quality}, {MEAN_LEVEL}', quality, of_level, value)


def main_dimension(dimensions: Iterable[str], judged_set: JudgedSet) -> str:
    """
    Return the dimension whose score judges an item as a whole, or `MEAN_ALL`: the mean
    of all dimensions does.
    """
    names = {name.lower(): name for name in dimensions}
    for wanted in ((judged_set.overall or OVERALL).lower(), OVERALL):
        if wanted in names:
            return names[wanted]
    return next(iter(names.values())) if len(names) == 1 else MEAN_ALL


def main_score(scores: Mapping[str, float | None], main: str) -> float | None:
    """
    Return the score of an item in its `main_dimension`.
    """
    return mean(list(scores.values())) if main == MEAN_ALL else scores.get(main)
