"""
What a judge has scored: the sample whose copies are perturbed, and the table of biases.

One pass over the scored dialogues gathers both, so that a large run is read once.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parlai_ext.core.nouns import (
    Dialogue,
    Opener,
    ScoredDialogue,
    dialogue_means,
    is_floor,
)
from parlai_ext.judge_check.perturbations import same_side
from parlai_ext.judge_check.record import Biases
from parlai_ext.ranking.agreement import known_spearman
from parlai_ext.ranking.baselines import mean_overlap
from parlai_ext.ranking.table import Floats
from parlai_ext.worlds.pairings import IMPORTED

Values = Mapping[str, float]


@dataclass(frozen=True)
class JudgedPart:
    """
    What one score is about: a response, or one speaker's part of a dialogue.

    :param places: the response, or all judged utterances of the speaker.
    :param indices: what the scorer is asked to judge: the response, or every judged
        utterance of the dialogue.
    :param values: the stored scores by dimension, without missing ones.
    """

    dialogue: Dialogue
    places: tuple[int, ...]
    indices: tuple[int, ...]
    system: str
    values: Values
    is_whole: bool

    @property
    def partner(self) -> str:
        """
        The other speaker; in self-play the system itself.
        """
        names = self.dialogue.speakers
        return next((name for name in names if name != self.system), self.system)

    @property
    def texts(self) -> list[str]:
        """
        The texts that were judged.
        """
        return [self.dialogue.texts[place] for place in self.places]

    @property
    def heard(self) -> list[list[str]]:
        """
        The other speaker's turns before each text that was judged.
        """
        return [
            [
                text
                for j, text in enumerate(self.dialogue.texts[:place])
                if not same_side(self.dialogue, j, place)
            ]
            for place in self.places
        ]


def judged_parts(dialogue: Dialogue, scored: ScoredDialogue) -> list[JudgedPart]:
    """
    Return what was scored in a dialogue, as it counts in a ranking: the parts of its
    speakers if they have scores of their own, else the responses.

    Left out is what has no score at all, and the system that broke the dialogue off.
    """
    whole = any(
        s.utterance_index is None and s.value is not None for s in scored.scores
    )
    names = dict.fromkeys(s.system for s in scored.scores)
    # a scorer of whole dialogues names no utterances: those that were not given
    judged = sorted(
        {s.utterance_index for s in scored.scores if s.utterance_index is not None}
    ) or [i for i, utterance in enumerate(dialogue.utterances) if not utterance.given]
    parts = []
    for name in names:
        places = tuple(i for i in judged if dialogue.utterances[i].speaker == name)
        if name == dialogue.ended_by or not places:
            continue
        if whole:
            means = dialogue_means(dialogue, scored, name)
            values = {d: value for d, value in means.items() if value is not None}
            parts.append(
                JudgedPart(dialogue, places, tuple(judged), name, values, True)
            )
            continue
        for place in places:
            values = {
                s.dimension: s.value
                for s in scored.scores
                if s.utterance_index == place and s.value is not None
            }
            parts.append(JudgedPart(dialogue, (place,), (place,), name, values, False))
    return [part for part in parts if part.values]


class StratifiedSample:
    """
    A sample that depends on content alone: as many parts of each system as there are,
    one of each of its dialogues before a second one of any.
    """

    def __init__(self, most: int):
        self.most = most
        self.kept: dict[str, list[tuple[tuple[int, int], int, JudgedPart]]] = {}
        self.n_added = 0

    def add(self, parts: Sequence[JudgedPart]) -> None:
        """
        Add the judged parts of one dialogue.
        """
        by_system: dict[str, list[tuple[int, JudgedPart]]] = {}
        for part in parts:
            digest = f'{part.dialogue.id} {part.places}'.encode()
            number = int.from_bytes(hashlib.sha256(digest).digest()[:8], 'big')
            by_system.setdefault(part.system, []).append((number, part))
        for system, own in by_system.items():
            heap = self.kept.setdefault(system, [])
            own.sort(key=lambda entry: entry[0])
            for turn, (number, part) in enumerate(own):
                self.n_added += 1
                entry = ((-turn, -number), self.n_added, part)
                if len(heap) < self.most:
                    heapq.heappush(heap, entry)
                elif entry > heap[0]:
                    heapq.heapreplace(heap, entry)

    def draw(self, n: int) -> list[JudgedPart]:
        """
        Return up to ``n`` parts, spread evenly over the systems.
        """
        queues = [
            [part for _, _, part in sorted(heap, reverse=True)]
            for _, heap in sorted(self.kept.items())
        ]
        drawn = []
        for turn in range(max(map(len, queues), default=0)):
            drawn += [queue[turn] for queue in queues if turn < len(queue)]
        return drawn[:n]


@dataclass
class ScoreColumns:
    """
    One row for each judged part of a run: its scores, and what they might go with.
    """

    systems: list[str] = field(default_factory=list)
    partners: list[str] = field(default_factory=list)
    openers: list[str] = field(default_factory=list)
    lengths: array[float] = field(default_factory=lambda: array('d'))
    overlaps: array[float] = field(default_factory=lambda: array('d'))
    positions: array[float] = field(default_factory=lambda: array('d'))
    scores: dict[str, array[float]] = field(default_factory=dict)

    def add(self, part: JudgedPart) -> None:
        """
        Add the row of one judged part.
        """
        words = [len(text.split()) for text in part.texts]
        for name in part.values:
            if name not in self.scores:
                self.scores[name] = array('d', [math.nan] * len(self.systems))
        for name, column in self.scores.items():
            column.append(part.values.get(name, math.nan))
        self.systems.append(part.system)
        self.partners.append(part.partner)
        self.openers.append(part.dialogue.opener_id)
        self.lengths.append(sum(words) / len(words))
        overlap = mean_overlap(part.texts, part.heard)
        self.overlaps.append(math.nan if overlap is None else overlap)
        self.positions.append(math.nan if part.is_whole else part.places[0])


class JudgedDialogues:
    """
    Gathers what the check needs from scored dialogues, which are added one by one.

    :param most: the largest sample that may be drawn.
    :param openers: those that a person's reply follows.
    """

    def __init__(self, most: int, openers: Sequence[Opener] = ()):
        self.sample = StratifiedSample(most)
        self.columns = ScoreColumns()
        self.num_given = {opener.id: len(opener.utterances) for opener in openers}
        # opener -> system -> scores of its replies to the opener itself
        self.replies: dict[str, dict[str, list[Values]]] = {}
        self.n_dialogues = 0
        self.is_whole = False

    def add(self, dialogue: Dialogue, scored: ScoredDialogue) -> None:
        """
        Add a dialogue with its scores.

        Floors are bad on purpose, so copies of what they say are no test of a judge.
        """
        self.n_dialogues += 1
        parts = judged_parts(dialogue, scored)
        self.sample.add([part for part in parts if not is_floor(part.system)])
        for part in parts:
            self.columns.add(part)
            self.is_whole = part.is_whole
            if part.places == (self.num_given.get(dialogue.opener_id),):
                by_system = self.replies.setdefault(dialogue.opener_id, {})
                by_system.setdefault(part.system, []).append(part.values)

    @property
    def n_scorings(self) -> int:
        """
        How many times the scorer judged something.
        """
        return self.n_dialogues if self.is_whole else len(self.columns.systems)


def biases(columns: ScoreColumns, dimension: str) -> Biases:
    """
    Return what the scores of one dimension go with, over all judged parts of a run.
    """
    scores = np.asarray(columns.scores[dimension])
    known = np.isfinite(scores)
    openers = [
        # the dialogues of an import are numbered; the number is no opener
        '' if opener.startswith(f'{IMPORTED}-') else opener
        for opener in columns.openers
    ]
    system, partner, opener = (
        variance_share(scores[known], np.asarray(groups, dtype=object)[known])
        for groups in (columns.systems, columns.partners, openers)
    )
    return Biases(
        n=int(known.sum()),
        length=known_spearman(scores, np.asarray(columns.lengths)),
        position=known_spearman(scores, np.asarray(columns.positions)),
        system_share=system,
        partner_share=partner,
        opener_share=opener,
        overlap=known_spearman(scores, np.asarray(columns.overlaps)),
    )


def variance_share(
    scores: Floats, groups: NDArray[np.object_] | Sequence[str]
) -> float | None:
    """
    Return the sum of squares between groups over the whole sum of squares (eta
    squared); `None` where there is one group or no variance.
    """
    names, places = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    if len(names) < 2:
        return None
    total = float(((scores - scores.mean()) ** 2).sum())
    if total <= 0:
        return None
    counts = np.bincount(places)
    means = np.bincount(places, weights=scores) / counts
    between = float((counts * (means - scores.mean()) ** 2).sum())
    return min(1.0, between / total)
