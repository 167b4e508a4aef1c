"""
The three readings of ChatMatch, and the thresholds that a user may change.

The paper's text and the authors' script differ, so a reading is part of every number's
signature: `paper` is the text, `released` what the script computes, `released_fixed`
the script with its swapped specificity mended. docs/chatmatch.md lists the differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from parlai_ext.core.errors import UserError, nearest

DIMENSIONS = (
    *('fluency', 'knowledge', 'proactivity', 'specificity'),
    *('diversity', 'consistency', 'relevance'),
)


@dataclass(frozen=True)
class Manner:
    """
    What a reading does that no threshold says.

    :param foreign_history: a turn may also repeat what the other speaker said.
    :param token_question: only a lone last ``?`` makes a repeated question.
    :param equal_contradicts: similarity equal to the threshold is a contradiction too.
    :param raw_concepts: concepts are looked up as they are written, capitals and all.
    :param skips_repeated: what a repeated turn does otherwise does not count.
    :param drops_last: the last turn of an even number of turns does not count.
    :param drops_worst: a side's worst perplexity does not count.
    :param empty_repeats: an empty turn is a repetition.
    :param names_once: an entity counts once a game, for who names it first.
    :param cuts_at_colon: entities behind a turn's first colon are not seen.
    :param whole_game: specificity and knowledge look at uncounted turns too.
    :param swaps: the script's slips: each side gets the other's specificity, and
        fluency too where only the first speaker has one unrepeated turn.
    """

    foreign_history: bool = False
    token_question: bool = False
    equal_contradicts: bool = False
    raw_concepts: bool = False
    skips_repeated: bool = False
    drops_last: bool = False
    drops_worst: bool = False
    empty_repeats: bool = False
    names_once: bool = False
    cuts_at_colon: bool = False
    whole_game: bool = False
    swaps: bool = False


@dataclass(frozen=True)
class Rules:
    """
    A reading with its thresholds.

    :param repetition: σ_r, the similarity from which a turn is a repetition.
    :param contradiction: σ_c, the similarity below which an answer is another one.
    :param recall_distance: d; a concept is recalled after more than this many turns.
    :param concept_share: p, the share of concepts, rarest first, that can be recalled.
    :param perplexity_cap: no perplexity counts as more; 0 is no cap.
    :param perplexity_unit: per character, as the script's model, or per token.
    :param distinct_unit: what distinct-1 and distinct-2 count.
    :param first_judged: the first place whose repetition and fluency are judged.
    """

    reading: str
    manner: Manner
    repetition: float = 0.95
    contradiction: float = 0.8
    recall_distance: int = 1
    concept_share: float = 0.5
    perplexity_cap: float = 50.0
    perplexity_unit: str = 'character'
    distinct_unit: str = 'character'
    first_judged: int = 3


TEXT = Manner(foreign_history=True, equal_contradicts=True)
MENDED = Manner(
    token_question=True,
    raw_concepts=True,
    skips_repeated=True,
    drops_last=True,
    drops_worst=True,
    empty_repeats=True,
    names_once=True,
    cuts_at_colon=True,
    whole_game=True,
)
READINGS = {
    'released_fixed': Rules('released_fixed', MENDED),
    'released': Rules('released', replace(MENDED, swaps=True)),
    'paper': Rules(
        'paper',
        TEXT,
        perplexity_cap=0.0,
        perplexity_unit='token',
        distinct_unit='token',
        first_judged=1,
    ),
}
DEFAULT_READING = 'released_fixed'
UNITS = ('character', 'token')
THRESHOLDS = tuple(f.name for f in fields(Rules) if f.name not in ('reading', 'manner'))


def rules_of(
    reading: str = DEFAULT_READING, thresholds: Mapping[str, Any] | None = None
) -> Rules:
    """
    Return a reading with some thresholds changed.

    :raises UserError: saying which is wrong and what would be right.
    """
    if reading not in READINGS:
        raise UserError(f'scorer: reading {reading!r}; {nearest(reading, READINGS)}')
    known = READINGS[reading]
    checked = {key: _checked(known, key, v) for key, v in (thresholds or {}).items()}
    return replace(known, **checked)


def signed(rules: Rules) -> dict[str, Any]:
    """
    Return what of the rules belongs into a signature: the reading, every threshold.
    """
    values = {name: getattr(rules, name) for name in THRESHOLDS}
    return {'reading': rules.reading, **values}


def _checked(rules: Rules, key: str, value: Any) -> Any:
    if key not in THRESHOLDS:
        raise UserError(f'scorer: unknown key {key!r}; {nearest(key, THRESHOLDS)}')
    default = getattr(rules, key)
    if isinstance(default, str):
        if value not in UNITS:
            raise UserError(f'scorer: {key} {value!r}; {nearest(str(value), UNITS)}')
        return value
    low, high, what = _range(key)
    number = _number(value)
    whole = isinstance(default, int)
    if number is None or not low <= number <= high or (whole and number % 1):
        raise UserError(f'scorer: {key} {value!r}; {what} is expected')
    return int(number) if whole else number


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _range(key: str) -> tuple[float, float, str]:
    if key == 'recall_distance':
        return 0, math.inf, 'a whole number of turns from 0'
    if key == 'first_judged':
        return 1, math.inf, 'a whole number from 1'
    if key == 'perplexity_cap':
        return 0, math.inf, 'a number from 0 (0 is no cap)'
    return 0, 1, 'a number from 0 to 1'
