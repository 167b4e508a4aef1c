"""
The responses that people judged, and which sets leave a fit together.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.support.judged_turns import scoring_item
from benchmarks.validity.sets import GAMES, chatmatch_games
from parlai_ext.data.judged import JudgedItem, JudgedSet, read_card
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.training.fit_judge import rank_labels

MIN_JUDGED = 10  # responses with a number; a quality with fewer is no label


@dataclass(frozen=True)
class SetPlan:
    """
    How a set is used.

    :param tags: its corpora and its study; sets that share one leave a fit together.
    :param most: responses that are drawn, whole contexts; of a set of dialogues, the
        dialogues of each system.
    :param turns: of each judged dialogue.
    :param final: no choice saw this set; it was read once, at the end.
    """

    tags: tuple[str, ...]
    most: int
    turns: int = 1
    final: bool = False


SETS: Mapping[str, SetPlan] = {
    'fed_turn': SetPlan(('Meena and Mitsuku', 'FED'), 400),
    'grade_convai2': SetPlan(('ConvAI2', 'GRADE'), 600),
    'usr_topical': SetPlan(('TopicalChat', 'USR'), 360),
    'usr_persona': SetPlan(('ConvAI2', 'USR'), 300),
    'zhao_dailydialog': SetPlan(('DailyDialog', 'Zhao'), 900),
    'jsalt': SetPlan(('JSALT', 'CHANEL'), 741),
    'topical_dstc10': SetPlan(('TopicalChat', 'DSTC10'), 2250),
    'dstc7_human_eval': SetPlan(('Reddit',), 2000),
    'fed_dialogue': SetPlan(('Meena and Mitsuku', 'FED'), 125, 4),
    'dstc9_interactive': SetPlan(('DSTC9',), 60, 2),
    'spot_the_bot': SetPlan(('ConvAI2', 'Spot The Bot'), 80, 2),
    'esl': SetPlan(('ESL',), 1242, final=True),
    'grade_dailydialog': SetPlan(('DailyDialog', 'GRADE'), 300, final=True),
    'grade_empathetic': SetPlan(('EmpatheticDialogues', 'GRADE'), 300, final=True),
    GAMES: SetPlan(('ChatMatch',), 1000, final=True),
}


@dataclass(frozen=True)
class JudgedResponse:
    """
    One response with its numbers by people.

    :param human: by quality; of a turn of a judged dialogue those of the dialogue.
    :param dialogue: the judged dialogue that it is of, if whole dialogues were judged.
    """

    item: ScoringItem
    system: str
    human: Mapping[str, float | None]
    dialogue: str = ''


@dataclass(frozen=True)
class ResponseSet:
    """
    The responses of a set.

    :param overall: the quality that judges a response as a whole.
    :param num_items: items of the whole set.
    """

    name: str
    responses: Sequence[JudgedResponse]
    overall: str | None
    num_items: int = 0

    @property
    def items(self) -> list[ScoringItem]:
        """
        What is judged.
        """
        return [one.item for one in self.responses]

    def values(self, quality: str) -> np.ndarray:
        """
        Return people's numbers for a quality, `nan` for none.
        """
        values = [one.human.get(quality) for one in self.responses]
        return np.array([np.nan if v is None else v for v in values], float)

    def labels(self) -> np.ndarray:
        """
        Return the labels that a judge is learned from: the mean of the ranks by all
        qualities, in which the overall quality counts as much as all of them together.
        """
        qualities = sorted({q for one in self.responses for q in one.human})
        ranks = {
            quality: rank_labels(values)
            for quality in qualities
            if (~np.isnan(values := self.values(quality))).sum() >= MIN_JUDGED
        }
        stacked = np.stack(list(ranks.values()))
        known = ~np.isnan(stacked)
        total = np.where(known, stacked, 0).sum(0)
        mean = np.where(known.any(0), total / np.maximum(1, known.sum(0)), np.nan)
        whole = ranks.get(self.overall or '')
        if whole is None:
            return mean
        return (np.where(np.isnan(whole), mean, whole) + mean) / 2

    def target(self) -> np.ndarray:
        """
        Return the numbers that scores are compared with: the overall quality's.
        """
        return self.values(self.overall) if self.overall else self.labels()


def read_set(folder: Path, name: str) -> ResponseSet:
    """
    Return the drawn responses of a set, with their numbers by people.
    """
    judged = chatmatch_games(folder) if name == GAMES else read_card(name).read(folder)
    responses = [
        JudgedResponse(
            scoring_item(item),
            item.system,
            {quality: item.human(quality) for quality in item.annotations},
            item.dialogue,
        )
        for item in sorted(
            drawn_items(judged, SETS[name]), key=lambda i: (i.context, i.id)
        )
    ]
    return ResponseSet(name, responses, judged.overall, len(judged.items))


def drawn_items(judged: JudgedSet, plan: SetPlan) -> list[JudgedItem]:
    """
    Return the turns of a set that are used. A turn of a judged dialogue has the
    annotations of the dialogue.
    """
    rng = random.Random(judged.name)
    if judged.level == 'dialogue':
        return _drawn_turns(judged, plan, rng)
    by_context: dict[tuple[str, ...], list[JudgedItem]] = defaultdict(list)
    for item in judged.items:
        if item.response and item.response.strip():
            by_context[item.context].append(item)
    contexts = sorted(by_context)
    rng.shuffle(contexts)
    chosen: list[JudgedItem] = []
    for context in contexts:
        if len(chosen) + len(by_context[context]) <= plan.most:
            chosen += by_context[context]
    return chosen


def _drawn_turns(
    judged: JudgedSet, plan: SetPlan, rng: random.Random
) -> list[JudgedItem]:
    by_system: dict[str, list[JudgedItem]] = defaultdict(list)
    for item in judged.items:
        by_system[item.system].append(item)
    dialogues = [
        item
        for system in sorted(by_system)
        for item in rng.sample(
            by_system[system], min(plan.most, len(by_system[system]))
        )
    ]
    return [
        replace(turn, annotations=item.annotations)
        for item in dialogues
        for turn in item.turns(plan.turns)
    ]


def training_sets(name: str, names: Sequence[str]) -> list[str]:
    """
    Return the sets that share no corpus and no study with one.
    """
    tags = set(SETS[name].tags)
    return [other for other in names if not tags & set(SETS[other].tags)]
