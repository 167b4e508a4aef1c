"""
The data of the learned judge: judged responses, and which sets leave a fit together.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.validity.sets import GAMES, chatmatch_games
from parlai_ext.data.judged.cards import read_card
from parlai_ext.data.judged.judged_set import JudgedItem, JudgedSet


@dataclass(frozen=True)
class SetPlan:
    """
    How a set is used.

    :param tags: its corpora and its study; sets that share one leave a fit together.
    :param most: items that are drawn, whole contexts, or dialogues of each system.
    :param turns: of each judged dialogue.
    """

    tags: tuple[str, ...]
    most: int
    turns: int = 1


SETS: Mapping[str, SetPlan] = {
    'fed_turn': SetPlan(('meena', 'FED'), 400),
    'grade_convai2': SetPlan(('convai2', 'GRADE'), 600),
    'grade_dailydialog': SetPlan(('dailydialog', 'GRADE'), 300),
    'grade_empathetic': SetPlan(('empathetic', 'GRADE'), 300),
    'usr_topical': SetPlan(('topicalchat', 'USR'), 360),
    'usr_persona': SetPlan(('convai2', 'USR'), 300),
    'zhao_dailydialog': SetPlan(('dailydialog', 'Zhao'), 900),
    'jsalt': SetPlan(('jsalt', 'CHANEL'), 741),
    'esl': SetPlan(('esl',), 1242),
    'topical_dstc10': SetPlan(('topicalchat', 'DSTC10'), 4500),
    'dstc7_human_eval': SetPlan(('reddit',), 4000),
    'chanel_jsalt': SetPlan(('dbdc', 'meena', 'CHANEL'), 2000),
    'chanel_wochat': SetPlan(('wochat', 'CHANEL'), 1500),
    'fed_dialogue': SetPlan(('meena', 'FED'), 125, 4),
    'dstc9_interactive': SetPlan(('dstc9',), 80, 3),
    'spot_the_bot': SetPlan(('convai2', 'Spot The Bot'), 120, 3),
    GAMES: SetPlan(('chatmatch',), 1000),
}


def read_judged_set(folder: Path, name: str) -> JudgedSet:
    """
    Return a set as people judged it.
    """
    return chatmatch_games(folder) if name == GAMES else read_card(name).read(folder)


def drawn_items(judged: JudgedSet, plan: SetPlan) -> list[JudgedItem]:
    """
    Return the turns of a set that are used. A turn of a judged dialogue has the
    annotations of the dialogue.
    """
    rng = random.Random(judged.name)
    if judged.level == 'dialogue':
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
    by_context: dict[tuple[str, ...], list[JudgedItem]] = defaultdict(list)
    for item in judged.items:
        if item.response and item.response.strip():
            by_context[item.context].append(item)
    contexts = sorted(by_context)
    rng.shuffle(contexts)
    chosen: list[JudgedItem] = []
    for context in contexts:
        if len(chosen) + len(by_context[context]) > plan.most:
            continue
        chosen += by_context[context]
    return chosen
