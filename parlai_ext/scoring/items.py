"""
What scorers judge, and what they say of it: the items of dialogues, and their scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parlai_ext.core.errors import require_known
from parlai_ext.core.nouns import Dialogue

NO_KNOWLEDGE = 'the item has neither facts nor a persona'
OTHER = 'other'  # the key in an item's extras: the response that it is compared with


@dataclass(frozen=True)
class ScoringItem:
    """
    What is judged: a response after its context, or a whole dialogue.

    :param context: the earlier utterances, oldest first; all of a whole dialogue.
    :param response: the judged utterance; `None` where the whole dialogue is judged.
    :param speaker: whose response, or whose part of the dialogue, is judged.
    :param references: good responses written by people.
    :param facts: the knowledge that the response should use.
    :param persona: what the speaker is told to be.
    :param extras: what else a source of items knows. A run's dialogues give
        ``speakers`` (of every utterance), ``later`` (the utterances after the
        response), ``dialogue_id`` and ``utterance_index``; a comparison of two
        responses gives the ``other`` one.
    """

    context: tuple[str, ...]
    response: str | None
    speaker: str = ''
    references: tuple[str, ...] = ()
    facts: str | None = None
    persona: tuple[str, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """
        The response, empty where there is none.
        """
        return self.response or ''

    @property
    def has_knowledge(self) -> bool:
        """
        True if the item has facts or a persona.
        """
        return bool(self.facts or self.persona)

    @property
    def knowledge(self) -> str:
        """
        The facts, else the persona with a sentence a line as PersonaChat writes it,
        else the word that stands for no fact in Topical-Chat: for metrics trained on
        it.
        """
        lines = (f'your persona: {line}' for line in self.persona)
        return self.facts or '\n'.join(lines) or '_nofact'

    def lacking(self, fields: Sequence[str]) -> str | None:
        """
        Return the first of these fields that the item does not have; `None` if it has
        them all.
        """
        return next((name for name in fields if not getattr(self, name)), None)

    @property
    def utterances(self) -> tuple[str, ...]:
        """
        The context and, if there is one, the response.
        """
        return (*self.context, *(() if self.response is None else (self.response,)))


Items = Sequence[ScoringItem]


@dataclass(frozen=True)
class ItemScore:
    """
    The scores of one item.

    :param values: score by dimension; `None` where there is none.
    :param reasons: why a dimension has none.
    :param evidence: JSON data behind the scores; a list with one entry for each of the
        scorer's `evidence_labels` is shown as a table.
    :param cut: how many tokens of the item no model saw.
    """

    values: Mapping[str, float | None]
    reasons: Mapping[str, str | None] = field(default_factory=dict)
    evidence: Any = None
    cut: int = 0

    def completed(self, dimensions: Sequence[str]) -> ItemScore:
        """
        Return the scores with a finite value, or `None` and a reason, in every
        dimension.

        :raises UserError: for a score in another dimension.
        """
        values: dict[str, float | None] = {}
        reasons: dict[str, str | None] = {}
        for name in self.values:
            problem = f'a score in no dimension of it, {name!r}'
            require_known(name, dimensions, problem)
        for name in dimensions:
            value = self.values.get(name)
            if value is not None and math.isfinite(value):
                values[name] = float(value)
            else:
                values[name] = None
                reasons[name] = self.reasons.get(name) or f'the scorer gives {value}'
        return replace(self, values=values, reasons=reasons)


def swapped_item(item: ScoringItem) -> ScoringItem:
    """
    Return a pair with the two responses in each other's place; an item without another
    response as it is.
    """
    if OTHER not in item.extras:
        return item
    extras = {**item.extras, OTHER: item.text}
    return replace(item, response=str(item.extras[OTHER]), extras=extras)


def turn_items(dialogue: Dialogue, indices: Sequence[int]) -> list[ScoringItem]:
    """
    Return an item for each judged utterance of a dialogue.
    """
    texts, speakers = dialogue.texts, dialogue.speakers
    return [
        ScoringItem(
            texts[:index],
            texts[index],
            speakers[index],
            dialogue.utterances[index].references,
            extras={
                'speakers': speakers,
                'later': texts[index + 1 :],
                'dialogue_id': dialogue.id,
                'utterance_index': index,
            },
        )
        for index in indices
    ]


def dialogue_items(dialogue: Dialogue, indices: Sequence[int]) -> list[ScoringItem]:
    """
    Return an item for each speaker of the judged utterances.
    """
    extras = {'speakers': dialogue.speakers, 'dialogue_id': dialogue.id}
    return [
        ScoringItem(dialogue.texts, None, speaker, extras=extras)
        for speaker in judged_speakers(dialogue, indices)
    ]


def judged_speakers(dialogue: Dialogue, indices: Sequence[int]) -> list[str]:
    """
    Return the speakers of the judged utterances, in order.
    """
    return list(dict.fromkeys(dialogue.speakers[i] for i in indices))


def judged_indices(
    dialogue: Dialogue, first_speaker_only: bool, include_given: bool = False
) -> list[int]:
    """
    Return the places of the utterances to judge.

    Given utterances, which no system said, are left out unless asked for. So are those
    of a system that broke the dialogue off: it would gain by falling silent after one
    good utterance.

    :param first_speaker_only: judge the first speaker's (even places), not both's.
    """
    return [
        i
        for i, utterance in enumerate(dialogue.utterances)
        if (i % 2 == 0 or not first_speaker_only)
        and (include_given or not utterance.given)
        and utterance.speaker != dialogue.ended_by
    ]


def unscored_systems(
    dialogue: Dialogue, first_speaker_only: bool, include_given: bool = False
) -> dict[str, str]:
    """
    Return, for each system to be judged that has nothing to judge, the reason.
    """
    judged = judged_indices(dialogue, first_speaker_only, include_given)
    scored = {dialogue.speakers[i] for i in judged}
    speakers = {*dialogue.speakers[: 1 if first_speaker_only else 2]}
    if dialogue.ended_by and not (first_speaker_only and dialogue.utterances):
        speakers.add(dialogue.ended_by)  # it may not have come to say anything
    reasons = {}
    for name in sorted(speakers - scored):
        if dialogue.ended_by is None:
            reasons[name] = 'it says nothing that is judged'
        elif dialogue.ended_by == name:
            reasons[name] = f'it broke the dialogue off: {dialogue.reason}'
        else:
            reasons[name] = (
                f'{dialogue.ended_by} broke the dialogue off before it spoke'
            )
    return reasons


def lettered_turns(turns: Sequence[str]) -> list[str]:
    """
    Return the turns before a response with letters: the one who is judged is B.
    """
    last = len(turns)
    return [f'{"AB"[(last - place) % 2 == 0]}: {t}' for place, t in enumerate(turns)]
