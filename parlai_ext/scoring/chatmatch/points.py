"""
The one score that ChatMatch gives: the points of a side in its game.

A side gets a point on each dimension on which its raw score is higher than the other
side's, none for an equal one; the sum, 0 to 7, is the score of the game (Yang et al.
2022, section 2.2.1). It compares two sides: a response by itself has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.chatmatch.game import (
    game_values,
    speakers,
    values_by_speaker,
    why_no_game,
)
from parlai_ext.scoring.chatmatch.rules import DIMENSIONS, ChatMatchOptions
from parlai_ext.scoring.chatmatch.scorer import ChatMatch
from parlai_ext.scoring.chatmatch.turns import Material
from parlai_ext.tournament.games import Game, GameResult, award_points

OVERALL = 'Overall'
NO_SIDES = 'it is not known who says what, so there are no two sides to compare'
SELF_CHAT = 'a self-chat has no other side to compare with'
ALONE = 'ChatMatch scores a game by comparing its two sides; a response has no game'
NOTHING = 'the two sides have a raw score on no common dimension'


class ChatMatchGame(Scorer):
    """
    Judges a speaker's side of a whole dialogue against the other side.

    `Overall` is the number of points; the other dimensions are the side's raw values,
    as in `ChatMatch`. The evidence is the points of the speaker by dimension. Of a
    judged response, there are only the values that its turn adds; ``Overall`` has none.
    """

    name = 'chatmatch_game'
    level = 'dialogue'
    single_responses = True
    version = ChatMatch.version
    options_class = ChatMatchOptions
    options: ChatMatchOptions
    dimensions = (OVERALL, *DIMENSIONS)

    def prepare(self) -> None:
        """
        Read what the raw values need.
        """
        self.chatmatch = ChatMatch(self.options, self.models)

    def signature_fields(self) -> dict[str, Any]:
        """
        Return those of the raw values.
        """
        return self.chatmatch.signature_fields()

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each side; both sides of a dialogue are worked out at once.
        """
        responses = [item for item in items if item.response is not None]
        of_responses = iter(self.chatmatch.score(responses))
        dialogues = dict.fromkeys(_turns(i) for i in items if i.response is None)
        games = [_dialogue(turns) for turns in dialogues]
        materials = self.chatmatch.materials(games)
        scored = {
            turns: self._sides(game, material)
            for turns, game, material in zip(dialogues, games, materials, strict=True)
        }
        return [
            _of_response(next(of_responses))
            if item.response is not None
            else _of_side(scored[_turns(item)], item)
            for item in items
        ]

    def _sides(
        self, dialogue: Dialogue, material: Material
    ) -> dict[str, ItemScore] | str:
        """
        Return the score of each speaker, or why there is none.
        """
        names = speakers(dialogue)
        if not all(names) or not names:
            return NO_SIDES
        if reason := why_no_game(dialogue):
            return reason
        if len(names) < 2:
            return SELF_CHAT
        values = values_by_speaker(names, game_values(dialogue, self.options, material))
        raw = {
            name: {dimension: one.value for dimension, one in of_side.items()}
            for name, of_side in values.items()
        }
        first, second = names
        [result] = award_points([Game(first, second, raw)]).results
        return {
            name: ItemScore(
                {OVERALL: _total(result, name), **raw[name]},
                {OVERALL: NOTHING, **{d: v.reason for d, v in values[name].items()}},
                dict(result.points[name]),
            )
            for name in names
        }


def _total(result: GameResult, name: str) -> float | None:
    return float(result.total(name)) if result.has_points else None


def _turns(item: ScoringItem) -> tuple[tuple[str, str], ...]:
    """
    Return speakers and texts of a dialogue; a speaker who is not known is ''.
    """
    texts = item.utterances
    names = item.extras.get('speakers') or ('',) * len(texts)
    return tuple(zip(names, texts, strict=True))


def _dialogue(turns: Sequence[tuple[str, str]]) -> Dialogue:
    return Dialogue('', '', '', tuple(Utterance(*turn) for turn in turns))


def _of_response(score: ItemScore) -> ItemScore:
    """
    Return what a turn adds, and why there is no score of a game.
    """
    reasons = {OVERALL: ALONE, **score.reasons}
    return ItemScore({OVERALL: None, **score.values}, reasons)


def _of_side(sides: dict[str, ItemScore] | str, item: ScoringItem) -> ItemScore:
    """
    Return the score of an item's speaker.
    """
    if isinstance(sides, str):
        return ItemScore({}, dict.fromkeys((OVERALL, *DIMENSIONS), sides))
    if item.speaker not in sides:
        reason = f'{item.speaker!r} says nothing in this dialogue'
        return ItemScore({}, dict.fromkeys((OVERALL, *DIMENSIONS), reason))
    return sides[item.speaker]
