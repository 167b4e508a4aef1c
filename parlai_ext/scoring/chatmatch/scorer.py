"""
ChatMatch as a `Scorer`: raw values of every game, and what each turn adds to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import Dialogue, Likelihood, Score, ScoredDialogue
from parlai_ext.core.signature import signature_line
from parlai_ext.scoring.chatmatch.dictionaries import DEFAULT as CONCEPTS
from parlai_ext.scoring.chatmatch.dictionaries import Dictionaries, load_dictionaries
from parlai_ext.scoring.chatmatch.entities import DEFAULT as ENTITIES
from parlai_ext.scoring.chatmatch.entities import Recogniser, load_recogniser
from parlai_ext.scoring.chatmatch.fluency import perplexities
from parlai_ext.scoring.chatmatch.game import Game, misfit, of_systems, play, speakers
from parlai_ext.scoring.chatmatch.rules import (
    DEFAULT_READING,
    DIMENSIONS,
    THRESHOLDS,
    Rules,
    rules_of,
    signed,
)
from parlai_ext.scoring.chatmatch.turns import Material, Value

JUDGE = 'zoo:mini/judge/model'
KEYS = ('name', 'reading', 'judge_model_file', 'entities', 'concepts', *THRESHOLDS)
# changes whenever the same options give other numbers
VERSION = 1


class ChatMatch:
    """
    Judges whole games. A game's own values have no utterance index.

    The evidence of a turn names the earlier turns behind its penalty or bonus, and
    its perplexity.

    :param likelihood: `None` leaves fluency without a score; so does `recogniser` for
        knowledge.
    """

    dimensions = DIMENSIONS
    evidence_labels = ('repeats_turn', 'contradicts_turn', 'recalls_turn', 'perplexity')

    def __init__(
        self,
        rules: Rules,
        dictionaries: Dictionaries,
        recogniser: Recogniser | None = None,
        likelihood: Likelihood | None = None,
    ):
        self.rules = rules
        self.dictionaries = dictionaries
        self.recogniser = recogniser
        self.likelihood = likelihood
        parts = {
            'scorer': 'chatmatch',
            'v': VERSION,
            **signed(rules),
            'entities': recogniser.signature if recogniser else 'none',
            'concepts': dictionaries.signature,
        }
        judge = likelihood.signature if likelihood else 'none'
        self.signature = f'{signature_line(parts)}|judge:({judge})'

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        judge: Callable[[str], Likelihood],
        datapath: str | None = None,
    ) -> ChatMatch:
        """
        Return the scorer that a protocol's ``scorer:`` section asks for.

        :param judge: loads a model file; called last, since it is slow.
        :raises UserError: names the key that is wrong.
        """
        given = {key: value for key, value in config.items() if value is not None}
        for key in given:
            if key not in KEYS:
                raise UserError(f'scorer: unknown key {key!r}; {nearest(key, KEYS)}')
        rules = rules_of(
            str(given.get('reading', DEFAULT_READING)),
            {key: given[key] for key in THRESHOLDS if key in given},
        )
        dictionaries = load_dictionaries(str(given.get('concepts', CONCEPTS)))
        recogniser = load_recogniser(str(given.get('entities', ENTITIES)))
        model = cls.judge_file(given)
        return cls(rules, dictionaries, recogniser, judge(model) if model else None)

    @staticmethod
    def judge_file(config: Mapping[str, Any]) -> str | None:
        """
        Return the language model that a ``scorer:`` section asks, if any.
        """
        model = str(config.get('judge_model_file') or JUDGE)
        return None if model == 'none' else model

    def score(
        self, dialogues: Sequence[Dialogue], indices: Sequence[Sequence[int]]
    ) -> list[ScoredDialogue]:
        """
        Judge, in ``dialogues[i]``, the utterances ``indices[i]`` and their speakers.
        """
        pairs = zip(dialogues, self.materials(dialogues), indices, strict=True)
        return [self._scored(*one) for one in pairs]

    def materials(self, dialogues: Sequence[Dialogue]) -> list[Material]:
        """
        Return what these games need beside their turns, the model asked once for all.
        """
        texts = [u.text for dialogue in dialogues for u in dialogue.utterances]
        names = self._names(texts)
        fluent = self._perplexities(texts)
        found = []
        start = 0
        for dialogue in dialogues:
            stop = start + len(dialogue.utterances)
            found.append(
                Material(
                    self.dictionaries.of(dialogue),
                    None if names is None else names[start:stop],
                    None if fluent is None else fluent[start:stop],
                )
            )
            start = stop
        return found

    def game(self, dialogue: Dialogue) -> Game:
        """
        Return everything there is to say of one game; it must be no `misfit`.
        """
        return play(dialogue, self.rules, self.materials([dialogue])[0])

    def _names(self, texts: Sequence[str]) -> list[list[str]] | None:
        if self.recogniser is None:
            return None
        cut = self.rules.manner.cuts_at_colon
        seen = [text.partition(':')[0] if cut else text for text in texts]
        different = list(dict.fromkeys(seen))
        names = dict(zip(different, self.recogniser.find(different), strict=True))
        return [names[text] for text in seen]

    def _perplexities(self, texts: Sequence[str]) -> list[float | None] | None:
        if self.likelihood is None:
            return None
        return perplexities(self.likelihood, texts, self.rules.perplexity_unit)

    def _scored(
        self, dialogue: Dialogue, material: Material, indices: Sequence[int]
    ) -> ScoredDialogue:
        """
        Return the scores of one dialogue; of a `misfit` only why there are none.
        """
        judged = dict.fromkeys(dialogue.utterances[i].speaker for i in indices)
        reason = misfit(dialogue)
        if reason:
            nothing = dict.fromkeys(DIMENSIONS, Value(None, reason))
            whole = [
                s for name in judged for s in scores(dialogue, None, name, nothing)
            ]
            return ScoredDialogue(dialogue.id, tuple(whole))
        game = play(dialogue, self.rules, material)
        found = [
            score
            for i in indices
            for score in scores(
                dialogue, i, dialogue.utterances[i].speaker, game.turns[i]
            )
        ]
        for name, values in of_systems(speakers(dialogue), game).items():
            if name in judged:
                found += scores(dialogue, None, name, values)
        evidence = {i: _evidence(game, material, i) for i in indices}
        return ScoredDialogue(dialogue.id, tuple(found), evidence)


def scores(
    dialogue: Dialogue, index: int | None, system: str, values: Mapping[str, Value]
) -> list[Score]:
    """
    Return values by dimension as the scores of a turn, or of a whole dialogue.
    """
    return [
        Score(dialogue.id, index, system, dimension, one.value, one.reason)
        for dimension, one in values.items()
    ]


def _evidence(game: Game, material: Material, i: int) -> tuple[float | None, ...]:
    turns = (game.echoes.repeats[i], game.echoes.contradicts[i], game.recalls[i])
    fluent = material.perplexities
    return (*turns, None if fluent is None else fluent[i])
