"""
One game: each side's raw values in the seven dimensions, larger is better.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parlai_ext.core.nouns import Dialogue
from parlai_ext.scoring.chatmatch.concepts import find_recalls
from parlai_ext.scoring.chatmatch.repetition import Echoes, find_echoes
from parlai_ext.scoring.chatmatch.rules import DIMENSIONS, ChatMatchOptions
from parlai_ext.scoring.chatmatch.turns import Material, Value, turn_values

SIDES, EXCHANGES = 2, 100
MEANS = ('fluency', 'specificity')


@dataclass(frozen=True)
class GameValues:
    """
    The values of one game, by turn and dimension and by side (even, odd) and dimension.

    `echoes` and `recalls` say which earlier turn a penalty or bonus is for.
    """

    turns: Sequence[Mapping[str, Value]]
    sides: tuple[Mapping[str, Value], Mapping[str, Value]]
    echoes: Echoes
    recalls: tuple[int | None, ...]


def speakers(dialogue: Dialogue) -> list[str]:
    """
    Return the speakers' names in their order of speaking.
    """
    return list(dict.fromkeys(dialogue.speakers))


def why_no_game(dialogue: Dialogue) -> str | None:
    """
    Return why a dialogue is no game of two sides in turns; `None` when it is one.

    One name alone is a self-chat: its even turns are one side, its odd ones the other.
    """
    utterances, names = dialogue.utterances, speakers(dialogue)
    if len(utterances) < SIDES:
        return f'{len(utterances)} turn(s): a game has at least one exchange of two'
    if len(names) > SIDES:
        return f'{len(names)} speakers ({", ".join(names)}): a game has two'
    for i in range(1, len(utterances)):
        if len(names) > 1 and utterances[i].speaker == utterances[i - 1].speaker:
            name = utterances[i].speaker
            return f'turn {i}: {name} speaks twice running; sides take turns'
    return None


def game_values(
    dialogue: Dialogue, rules: ChatMatchOptions, material: Material
) -> GameValues:
    """
    Return the values of a game; the dialogue must be one (see `why_no_game`).
    """
    texts = dialogue.texts
    echoes = find_echoes(texts, rules)
    recalls = find_recalls(texts, material.concepts or {}, rules)
    turns = turn_values(dialogue, rules, material, echoes, recalls)
    even, odd = (side_values(turns[start::2], rules) for start in range(SIDES))
    if rules.reading == 'released':
        # the script's slips: each side gets the other's specificity, and fluency, too,
        # where only the first speaker has one unrepeated turn
        n_even, n_odd = (
            sum(turn['proactivity'].value is not None for turn in turns[start::2])
            for start in range(SIDES)
        )
        for name in ('specificity', 'fluency')[: 1 + (n_even == 1 and n_odd > 1)]:
            even[name], odd[name] = odd[name], even[name]
    return GameValues(turns, (even, odd), echoes, recalls)


def values_by_speaker(
    names: Sequence[str], game: GameValues
) -> dict[str, dict[str, Value]]:
    """
    Return the values of the two sides under the speakers' names.

    In a self-chat both sides are one: counts are added, means averaged.
    """
    even, odd = game.sides
    if len(names) > 1:
        return {names[0]: dict(even), names[1]: dict(odd)}
    joined = {}
    for dimension in DIMENSIONS:
        both = [side[dimension] for side in game.sides]
        known = [one.value for one in both if one.value is not None]
        total = math.fsum(known) / (SIDES if dimension in MEANS else 1)
        missing = next((one for one in both if one.value is None), None)
        joined[dimension] = missing or Value(total)
    return {names[0]: joined}


def side_values(
    turns: Sequence[Mapping[str, Value]], rules: ChatMatchOptions
) -> dict[str, Value]:
    """
    Return one side's raw values from its turns.
    """
    by_dimension = {}
    for dimension in DIMENSIONS:
        column = [turn[dimension] for turn in turns]
        values = [value.value for value in column if value.value is not None]
        if not values:
            reasons = dict.fromkeys(value.reason or '' for value in column)
            by_dimension[dimension] = Value(None, '; '.join(reasons))
        elif dimension in MEANS:
            total, count = math.fsum(values), len(values)
            if dimension == 'fluency' and rules.released and count > 1:
                total, count = total - min(values), count - 1
            by_dimension[dimension] = Value(total / count)
        elif dimension == 'knowledge' and not rules.released:
            by_dimension[dimension] = Value(math.fsum(values) * EXCHANGES / len(turns))
        else:
            by_dimension[dimension] = Value(math.fsum(values))
    return by_dimension
