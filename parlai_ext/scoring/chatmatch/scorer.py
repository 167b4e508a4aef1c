"""
ChatMatch as a `Scorer`: raw values of every game, and what each turn adds to them.
"""

from collections.abc import Mapping, Sequence

from parlai_ext.core.nouns import Dialogue, Score, ScoredDialogue, Utterance
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem, judged_speakers
from parlai_ext.scoring.chatmatch.concepts import load_dictionaries
from parlai_ext.scoring.chatmatch.entities import load_recogniser
from parlai_ext.scoring.chatmatch.game import (
    GameValues,
    game_values,
    speakers,
    values_by_speaker,
    why_no_game,
)
from parlai_ext.scoring.chatmatch.rules import DIMENSIONS, ChatMatchOptions
from parlai_ext.scoring.chatmatch.turns import Material, Value, perplexities

REMEMBERED = 64  # games
SIDES = ('one', 'other')  # speakers of a game that names none


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
        self.remembered: dict[Dialogue, ScoredDialogue] = {}

    def score_dialogues(
        self, dialogues: Sequence[Dialogue], indices: Sequence[Sequence[int]]
    ) -> list[ScoredDialogue]:
        """
        Judge, in ``dialogues[i]``, the utterances ``indices[i]`` and their speakers.
        """
        games = zip(dialogues, self.materials(dialogues), indices, strict=True)
        return [self._scored(*game) for game in games]

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return what each item's turn adds to its game. The turns of a game are judged
        together, and a game that was judged lately is remembered.
        """
        games = [game_of(item, SIDES) for item in items]
        new = [game for game in dict.fromkeys(games) if game not in self.remembered]
        scored = self.score_dialogues(new, [range(len(g.utterances)) for g in new])
        self.remembered |= dict(zip(new, scored, strict=True))
        scores = [
            _item_score(self.remembered[game], item)
            for game, item in zip(games, items, strict=True)
        ]
        for game in list(self.remembered)[:-REMEMBERED]:
            del self.remembered[game]
        return scores

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
            found = self.recogniser.find(different)
            by_text = dict(zip(different, found, strict=True))
            names = [by_text[text] for text in seen]
        for _, name in self.named_models():  # one, or none
            unit = self.options.perplexity_unit
            fluent = perplexities(self.models.likelihood(name), texts, unit)
        materials = []
        start = 0
        for dialogue in dialogues:
            stop = start + len(dialogue.utterances)
            materials.append(
                Material(
                    self.dictionaries.find(dialogue),
                    None if names is None else names[start:stop],
                    None if fluent is None else fluent[start:stop],
                )
            )
            start = stop
        return materials

    def game(self, dialogue: Dialogue) -> GameValues:
        """
        Return the values of one game, which must be one (see `why_no_game`).
        """
        return game_values(dialogue, self.options, self.materials([dialogue])[0])

    def _scored(
        self, dialogue: Dialogue, material: Material, indices: Sequence[int]
    ) -> ScoredDialogue:
        """
        Return the scores of one dialogue; of one that is no game, only the reason for
        none.
        """
        judged = judged_speakers(dialogue, indices)
        rows: list[tuple[int | None, str, Mapping[str, Value]]] = []
        evidence: dict[int, tuple[float | None, ...]] = {}
        if reason := why_no_game(dialogue):
            nothing = dict.fromkeys(DIMENSIONS, Value(None, reason))
            rows = [(None, name, nothing) for name in judged]
        else:
            game = game_values(dialogue, self.options, material)
            fluent = material.perplexities or [None] * len(game.turns)
            columns = (game.echoes.repeats, game.echoes.contradicts, game.recalls)
            by_turn = list(zip(*columns, fluent, strict=True))
            evidence = {i: by_turn[i] for i in indices}
            rows = [(i, dialogue.utterances[i].speaker, game.turns[i]) for i in indices]
            sides = values_by_speaker(speakers(dialogue), game)
            rows += [(None, name, sides[name]) for name in sides if name in judged]
        scores = tuple(
            Score(dialogue.id, index, system, dimension, value.value, value.reason)
            for index, system, values in rows
            for dimension, value in values.items()
        )
        return ScoredDialogue(dialogue.id, scores, evidence)


def game_of(item: ScoringItem, sides: tuple[str, str]) -> Dialogue:
    """
    Return the game of an item.

    :param sides: its speakers, where the item does not say who spoke.
    """
    texts = (*item.utterances, *item.extras.get('later', ()))
    names = item.extras.get('speakers') or [sides[i % 2] for i in range(len(texts))]
    return Dialogue('', '', '', tuple(map(Utterance, names, texts)))


def _item_score(scored: ScoredDialogue, item: ScoringItem) -> ItemScore:
    """
    Return the scores of an item's turn, or of its speaker in the whole game; where
    there is no game, only the whole tells why.
    """
    is_turn = item.response is not None
    index = len(item.context) if scored.evidence and is_turn else None
    rows = [
        score
        for score in scored.scores
        if score.utterance_index == index and (is_turn or score.system == item.speaker)
    ]
    return ItemScore(
        {score.dimension: score.value for score in rows},
        {score.dimension: score.reason for score in rows},
        scored.evidence.get(index) if index is not None else None,
    )
