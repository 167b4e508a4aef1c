"""
Samples of judged sets in one form: a response, who said it, what people think.

The sets lie in a folder that the user names; each is found there by its card.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from benchmarks.support.corpora import LAST_TURNS
from parlai_ext.core import content_id, grouped
from parlai_ext.data.judged import JudgedItem, read_card
from parlai_ext.scoring.base import ScoringItem

# set -> how many turns of each system are taken
PER_SYSTEM: Mapping[str, int] = {
    'zhao_dailydialog': 25,
    'usr_topical': 25,
    'dstc7_human_eval': 20,
    'dstc9_interactive': 50,
    'chanel_jsalt': 50,
    'usr_persona': 20,
    'grade_convai2': 25,
    'fed_turn': 40,
    'topical_dstc10': 15,
}


@dataclass(frozen=True)
class JudgedTurn:
    """
    One judged response.

    :param human: the mean of people's numbers for it, or for its dialogue.
    """

    item: ScoringItem
    system: str
    human: float


def all_turns(folder: Path, name: str) -> list[JudgedTurn]:
    """
    Return the turns of a set, of a judged dialogue one that is drawn, with the quality
    that judges them whole. Empty responses are left out.
    """
    judged = read_card(name).read(folder)
    quality = judged.overall or judged.qualities[0]
    return [
        JudgedTurn(scoring_item(turn, item.system), item.system, human)
        for item in judged.items
        for turn in item.turns(1)
        if turn.response and turn.response.strip()
        if (human := item.human(quality)) is not None
    ]


def scoring_item(turn: JudgedItem, speaker: str = '') -> ScoringItem:
    """
    Return a judged turn with the end of its context.
    """
    turns = tuple(text.strip() for text in turn.context if text.strip())
    return ScoringItem(turns[-LAST_TURNS:], (turn.response or '').strip(), speaker)


def agreement(
    values: Sequence[float] | np.ndarray,
    human: Sequence[float] | np.ndarray,
    systems: Sequence[str],
) -> tuple[float, float]:
    """
    Return Spearman with people over turns, and over the means of systems (NaN for fewer
    than three).
    """
    rows = [np.asarray(column, float) for column in (values, human)]
    groups = [np.array(systems) == name for name in sorted(set(systems))]
    means = [[row[group].mean() for group in groups] for row in rows]
    of_systems = spearmanr(*means).statistic if len(groups) > 2 else np.nan
    return float(spearmanr(*rows).statistic), float(of_systems)


def sampled(turns: Sequence[JudgedTurn], per_system: int) -> list[JudgedTurn]:
    """
    Return at most this many turns of each system; systems that answered the same
    contexts keep the same ones.
    """
    drawn = sorted(turns, key=lambda turn: content_id(list(turn.item.context)))
    by_system = grouped((turn.system, turn) for turn in drawn)
    return [
        turn for system in sorted(by_system) for turn in by_system[system][:per_system]
    ]


def read_set(folder: Path, name: str) -> list[JudgedTurn]:
    """
    Return the sample of a set by which it is fitted or reported.
    """
    return sampled(all_turns(folder, name), PER_SYSTEM[name])
