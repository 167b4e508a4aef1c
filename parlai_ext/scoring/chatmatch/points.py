"""
The one score that ChatMatch gives: the points of a side in its game.

A side gets a point on each dimension on which its raw score is higher than the other
side's, none for an equal one; the sum, 0 to 7, is the score of the game (Yang et al.
2022, section 2.2.1). It compares two sides: a response by itself has none.
"""

from collections.abc import Sequence

from parlai_ext.core.nouns import Dialogue
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.chatmatch.game import (
    game_values,
    speakers,
    values_by_speaker,
    why_no_game,
)
from parlai_ext.scoring.chatmatch.rules import DIMENSIONS, ChatMatchOptions
from parlai_ext.scoring.chatmatch.scorer import ChatMatch, game_of
from parlai_ext.scoring.chatmatch.turns import Material
from parlai_ext.tournament.games import Game, award_points

OVERALL = 'Overall'
NO_NAMES = ('', '')  # where it is not known who says what
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
        self.signed = self.chatmatch.signed

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the score of each side; both sides of a dialogue are worked out at once.
        """
        responses = [item for item in items if item.response is not None]
        of_responses = iter(self.chatmatch.score(responses))
        wholes = (item for item in items if item.response is None)
        games = list(dict.fromkeys(game_of(item, NO_NAMES) for item in wholes))
        materials = self.chatmatch.materials(games)
        sides = dict(zip(games, map(self._sides, games, materials), strict=True))
        scores = []
        for item in items:
            if item.response is not None:
                score = next(of_responses)
                reasons = {OVERALL: ALONE, **score.reasons}
                scores.append(ItemScore({OVERALL: None, **score.values}, reasons))
                continue
            of_game = sides[game_of(item, NO_NAMES)]
            if isinstance(of_game, dict) and item.speaker in of_game:
                scores.append(of_game[item.speaker])
                continue
            reason = f'{item.speaker!r} says nothing in this dialogue'
            if isinstance(of_game, str):
                reason = of_game
            scores.append(ItemScore({}, dict.fromkeys(self.dimensions, reason)))
        return scores

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
        totals = result.totals if result.has_points else {}
        return {
            name: ItemScore(
                {OVERALL: totals.get(name), **raw[name]},
                {OVERALL: NOTHING, **{d: v.reason for d, v in values[name].items()}},
                dict(result.points[name]),
            )
            for name in names
        }
