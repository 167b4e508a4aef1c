"""
ChatMatch as a `Scorer`: raw values of every game, and what each turn adds to them.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from parlai_ext.core import Dialogue, Score, ScoredDialogue, Utterance
from parlai_ext.scoring.base import (
    Items,
    ItemScore,
    Scorer,
    ScoringItem,
    judged_speakers,
)
from parlai_ext.scoring.chatmatch.concepts import load_dictionaries
from parlai_ext.scoring.chatmatch.entities import load_recogniser
from parlai_ext.scoring.chatmatch.game import (
    DIMENSIONS,
    ChatMatchOptions,
    JudgedGame,
    Material,
    judged_game,
    perplexities,
    speakers,
    why_no_game,
)
from parlai_ext.tournament.games import Game, award_points

REMEMBERED = 64  # games
SIDES = ('one', 'other')  # speakers of a game that names none
OVERALL = 'Overall'
NO_NAMES = ('', '')  # where it is not known who says what

ALONE = 'ChatMatch scores a game by comparing its two sides; a response has no game'


class ChatMatch(Scorer):
    """
    Judges whole games. A game's own values have no utterance index.

    Which concepts are important and how alike two turns are depends on the whole game,
    so an item without ``later`` turns is judged as if the game ended with it. The
    evidence of a turn names the earlier turns behind its penalty or bonus, and its
    perplexity. Without a judge, fluency has no score; without entities, knowledge.
    """

    name = 'chatmatch'
    version = 2
    options_class = ChatMatchOptions
    options: ChatMatchOptions
    dimensions = DIMENSIONS
    evidence_labels = ('repeats_turn', 'contradicts_turn', 'recalls_turn', 'perplexity')

    def prepare(self) -> None:
        """
        Read the dictionaries of concepts, and load the recogniser of entities.
        """
        self.dictionaries = load_dictionaries(self.options.concepts)
        self.recogniser = load_recogniser(self.options.entities)
        self.signed = {
            'entities': self.recogniser.signature if self.recogniser else 'none',
            'concepts': self.dictionaries.signature,
        }
        self.remembered: dict[Dialogue, JudgedGame] = {}

    def score_dialogues(
        self, dialogues: Sequence[Dialogue], indices: Sequence[Sequence[int]]
    ) -> list[ScoredDialogue]:
        """
        Judge, in ``dialogues[i]``, the utterances ``indices[i]`` and their speakers.
        One that is no game has only the reason why its speakers have no score.
        """
        scored = []
        for dialogue, game, counted in zip(
            dialogues, self.judged(dialogues), indices, strict=True
        ):
            judged, sides = judged_speakers(dialogue, counted), game.sides
            if game.nothing:
                counted, sides = (), dict.fromkeys(judged, game.nothing)
            rows: list[tuple[int | None, str, ItemScore]] = [
                (i, dialogue.speakers[i], game.turns[i]) for i in counted
            ]
            rows += [(None, name, sides[name]) for name in sides if name in judged]
            scores = tuple(
                Score(dialogue.id, index, system, name, value, score.reasons.get(name))
                for index, system, score in rows
                for name, value in score.values.items()
            )
            evidence = {i: game.turns[i].evidence for i in counted}
            scored.append(ScoredDialogue(dialogue.id, scores, evidence))
        return scored

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return what each item's turn adds to its game. The turns of a game are judged
        together, and a game that was judged lately is remembered.
        """
        games = [game_of(item, SIDES) for item in items]
        new = [game for game in dict.fromkeys(games) if game not in self.remembered]
        self.remembered |= dict(zip(new, self.judged(new), strict=True))
        scores = [
            self.remembered[game].score(item)
            for game, item in zip(games, items, strict=True)
        ]
        self.remembered = dict(list(self.remembered.items())[-REMEMBERED:])
        return scores

    def judged(self, dialogues: Sequence[Dialogue]) -> list[JudgedGame]:
        """
        Return the scores of each dialogue.
        """
        games = zip(dialogues, self.materials(dialogues), strict=True)
        return [judged_game(game, self.options, material) for game, material in games]

    def materials(self, dialogues: Sequence[Dialogue]) -> list[Material]:
        """
        Return the perplexities, entities and concepts of these games; the model is
        asked once.
        """
        texts = [text for dialogue in dialogues for text in dialogue.texts]
        names = fluent = None
        if self.recogniser is not None:
            cut = self.options.released  # behind the first colon
            seen = [text.partition(':')[0] if cut else text for text in texts]
            different = list(dict.fromkeys(seen))
            found = dict(zip(different, self.recogniser.find(different), strict=True))
            names = [found[text] for text in seen]
        for _, name in self.named_models():  # one, or none
            unit = self.options.perplexity_unit
            fluent = perplexities(self.models.likelihood(name), texts, unit)
        ends = accumulate((len(one.utterances) for one in dialogues), initial=0)
        return [
            Material(
                self.dictionaries.find(dialogue),
                names and names[start:stop],
                fluent and fluent[start:stop],
            )
            for dialogue, (start, stop) in zip(dialogues, pairwise(ends), strict=True)
        ]


def game_of(item: ScoringItem, sides: tuple[str, str]) -> Dialogue:
    """
    Return the game of an item.

    :param sides: its speakers, where the item does not say who spoke.
    """
    texts = (*item.utterances, *item.extras.get('later', ()))
    names = item.extras.get('speakers') or [sides[i % 2] for i in range(len(texts))]
    return Dialogue('', '', '', tuple(map(Utterance, names, texts)))


class ChatMatchGame(Scorer):
    """
    Judges a speaker's side of a whole dialogue against the other side.

    `Overall` is the number of points; the other dimensions are the side's raw values,
    as in `ChatMatch`. The evidence is the points of the speaker by dimension. Of a
    judged response, there are only the values that its turn adds; ``Overall`` has none.
    """

    name = 'chatmatch_game'
    level = 'dialogue'
    also_level = 'turn'
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

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each side; both sides of a dialogue are worked out at once.
        """
        of_responses = iter(
            self.chatmatch.score([item for item in items if item.response is not None])
        )
        wholes = (item for item in items if item.response is None)
        games = list(dict.fromkeys(game_of(item, NO_NAMES) for item in wholes))
        sides = dict(
            zip(games, map(_sides, games, self.chatmatch.judged(games)), strict=True)
        )
        scores = []
        for item in items:
            if item.response is not None:
                score = next(of_responses)
                reasons = {OVERALL: ALONE, **score.reasons}
                scores.append(ItemScore(score.values, reasons))
                continue
            by_speaker, reason = sides[game_of(item, NO_NAMES)]
            reason = reason or f'{item.speaker!r} says nothing in this dialogue'
            nothing = ItemScore({}, dict.fromkeys(self.dimensions, reason))
            scores.append(by_speaker.get(item.speaker, nothing))
        return scores


def _sides(
    dialogue: Dialogue, game: JudgedGame
) -> tuple[dict[str, ItemScore], str | None]:
    """
    Return the score of each speaker, or why there is none.
    """
    names = speakers(dialogue)
    reason = why_no_game(dialogue)
    if not all(names) or not names:
        reason = 'it is not known who says what, so there are no two sides to compare'
    elif len(names) < 2:
        reason = reason or 'a self-chat has no other side to compare with'
    if reason:
        return {}, reason
    first, second = names
    raw = {name: side.values for name, side in game.sides.items()}
    [result] = award_points([Game(first, second, raw)]).results
    totals = result.totals if result.has_points else {}
    return {
        name: ItemScore(
            {OVERALL: totals.get(name), **side.values},
            {
                OVERALL: 'the two sides have a raw score on no common dimension',
                **side.reasons,
            },
            dict(result.points[name]),
        )
        for name, side in game.sides.items()
    }, None
