"""
What a judge has scored: the sample whose copies are perturbed, and the table of biases.

One pass over the scored dialogues gathers both, so that a large run is read once.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from operator import itemgetter
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
import scipy

from parlai_ext.core import (
    IMPORTED,
    Dialogue,
    Opener,
    ScoredDialogue,
    bytes_hash,
    dialogue_means,
    frozen,
    grouped,
    is_floor,
    known_values,
)
from parlai_ext.judge_check.perturbations import turns_before
from parlai_ext.judge_check.record import SAMPLE, Biases, HumanAnchor
from parlai_ext.ranking.agreement import known_spearman
from parlai_ext.ranking.baselines import mean_overlap
from parlai_ext.ranking.intervals import Floats
from parlai_ext.view import join_names, number

Values = Mapping[str, float]


@frozen
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
    def texts(self) -> list[str]:
        """
        The texts that were judged.
        """
        return [self.dialogue.texts[place] for place in self.places]


def judged_parts(dialogue: Dialogue, scored: ScoredDialogue) -> list[JudgedPart]:
    """
    Return what was scored in a dialogue, as it counts in a ranking: the parts of its
    speakers if they have scores of their own, else the responses.

    Left out is what has no score at all, and the system that broke the dialogue off.
    """
    whole = any(
        s.utterance_index is None and s.value is not None for s in scored.scores
    )
    by_place = grouped(
        (s.utterance_index, (s.dimension, s.value)) for s in scored.scores
    )
    # a scorer of whole dialogues names no utterances: those that were not given
    judged = sorted(place for place in by_place if place is not None) or [
        i for i, utterance in enumerate(dialogue.utterances) if not utterance.given
    ]
    parts = []
    for name in dict.fromkeys(s.system for s in scored.scores):
        places = tuple(i for i in judged if dialogue.speakers[i] == name)
        if name == dialogue.ended_by or not places:
            continue
        for own in [places] if whole else [(place,) for place in places]:
            indices, values = own, dict(by_place.get(own[0], ()))
            if whole:
                indices = tuple(judged)
                values = dialogue_means(dialogue, scored, name)
            if known := known_values(values):
                parts.append(JudgedPart(dialogue, own, indices, name, known, whole))
    return parts


class ScoreRow(NamedTuple):
    """
    What the biases are computed from, of one judged part.

    :param length: mean words of its utterances.
    :param overlap: mean overlap with what the speaker heard.
    :param position: in the dialogue; NaN of a whole part.
    """

    system: str
    partner: str
    opener: str
    length: float
    overlap: float
    position: float
    values: Values


class JudgedDialogues:
    """
    What the check needs from scored dialogues.

    Of the judged parts it keeps a sample that depends on content alone: as many of each
    system as there are, one of each of its dialogues before a second one of any.

    :param pairs: the dialogues with their scores; those without any are left out.
    :param openers: those of the run; some may have a person's reply.
    :param sample: the largest sample that may be drawn.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[Dialogue, ScoredDialogue | None]],
        openers: Sequence[Opener] = (),
        sample: int = SAMPLE,
    ):
        self.most = sample
        self.kept: dict[str, list[tuple[int, str, JudgedPart]]] = {}
        self.rows: list[ScoreRow] = []
        self.openers = [opener for opener in openers if opener.reply is not None]
        self.n_dialogues = 0
        self.is_whole = False
        for dialogue, scored in pairs:
            if scored is not None:
                self.n_dialogues += 1
                parts = judged_parts(dialogue, scored)
                self._add_to_sample(parts)
                for part in parts:
                    self._add_row(part)

    def _add_row(self, part: JudgedPart) -> None:
        """
        Add a judged part to the table of biases.
        """
        dialogue = part.dialogue
        heard = [turns_before(dialogue, place)[1] for place in part.places]
        overlap = mean_overlap(part.texts, heard)
        others = (name for name in dialogue.speakers if name != part.system)
        row = ScoreRow(
            part.system,
            next(others, part.system),  # in self-play the system itself
            dialogue.opener_id,
            fmean(len(text.split()) for text in part.texts),
            math.nan if overlap is None else overlap,
            math.nan if part.is_whole else part.places[0],
            part.values,
        )
        self.rows.append(row)
        self.is_whole = part.is_whole

    def _add_to_sample(self, parts: Sequence[JudgedPart]) -> None:
        """
        Add the judged parts of one dialogue, but for those of floors, which are bad on
        purpose: copies of what they say are no test of a judge.
        """
        by_system = grouped((p.system, p) for p in parts if not is_floor(p.system))
        for system, own in by_system.items():
            names = [f'{part.dialogue.id} {part.places}' for part in own]
            hashes = [bytes_hash(name.encode()) for name in names]
            hashed = sorted(zip(hashes, own, strict=True), key=itemgetter(0))
            every = [(turn, *entry) for turn, entry in enumerate(hashed)]
            every += self.kept.get(system, ())
            self.kept[system] = sorted(every, key=itemgetter(0, 1))[: self.most]

    def draw(self, n: int) -> list[JudgedPart]:
        """
        Return up to ``n`` parts of the sample, spread evenly over the systems.
        """
        queues = (self.kept[system] for system in sorted(self.kept))
        rounds = zip_longest(*queues)
        return [entry[-1] for entries in rounds for entry in entries if entry][:n]

    @property
    def replies(self) -> list[ScoreRow]:
        """
        The rows of replies to an opener that a person has answered, too.
        """
        places = {opener.id: len(opener.utterances) for opener in self.openers}
        return [row for row in self.rows if row.position == places.get(row.opener)]

    @property
    def n_scorings(self) -> int:
        """
        How many times the scorer judged something.
        """
        return self.n_dialogues if self.is_whole else len(self.rows)


def biases(rows: Sequence[ScoreRow], dimension: str) -> Biases | None:
    """
    Return what the scores of a dimension follow besides quality; `None` where there
    are none.
    """
    rows = [row for row in rows if dimension in row.values]
    if not rows:
        return None
    systems, partners, openers, *numbers, values = zip(*rows, strict=True)
    scores = np.array([own[dimension] for own in values])
    length, overlap, position = (known_spearman(scores, np.array(n)) for n in numbers)
    # every imported dialogue has an opener of its own
    origins = ['' if one.startswith(f'{IMPORTED}-') else one for one in openers]
    return Biases(
        n=len(rows),
        length=length,
        position=position,
        system_share=variance_share(scores, systems),
        partner_share=variance_share(scores, partners),
        opener_share=variance_share(scores, origins),
        overlap=overlap,
    )


def variance_share(scores: Floats, groups: Sequence[str]) -> float | None:
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


FAR = 0.5  # standard deviations of people's scores; "medium" of Cohen (1988)
MIN_CONTEXTS = 10


def human_anchor(
    dimension: str, people: Mapping[str, Values], replies: Iterable[ScoreRow]
) -> HumanAnchor | None:
    """
    Return how the systems' replies to openers compare with those of people.

    A system is far above people if the 95 % interval of its mean difference (Student's
    t, over openers) is above 0 and the mean is above half a standard deviation of
    people's scores.

    :param people: opener -> scores of the person's reply.
    :param replies: those of the systems, one with each partner.
    :returns: `None` where fewer than ten openers have both.
    """
    own = {opener: v[dimension] for opener, v in people.items() if dimension in v}
    scores = grouped(
        ((row.system, row.opener), row.values[dimension])
        for row in replies
        if row.opener in own and dimension in row.values
    )
    compared = {opener for _, opener in scores}
    if len(compared) < MIN_CONTEXTS:
        return None
    of_people = [own[opener] for opener in compared]
    by_system = grouped(
        (system, (opener, fmean(values))) for (system, opener), values in scores.items()
    )
    means, far, spread = {}, [], stdev(of_people)
    for name, over in sorted(by_system.items()):
        means[name] = fmean(value for _, value in over)
        differences = [value - own[opener] for opener, value in over]
        n = len(differences)
        if n < MIN_CONTEXTS:
            continue
        half = float(scipy.special.stdtrit(n - 1, 0.975)) * stdev(differences) / n**0.5
        if fmean(differences) > max(half, FAR * spread):
            far.append(f'{name} ({number(means[name])})')
    people_mean = fmean(of_people)
    warning = None
    if far:
        warning = (
            f'the judge scores {join_names(far)} far above people '
            f'({number(people_mean)}) on the same {len(compared)} contexts'
        )
    systems_mean = fmean(means.values())
    return HumanAnchor(len(compared), people_mean, systems_mean, means, warning)
