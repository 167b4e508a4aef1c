"""
ChatMatch for ParlAI's commands: `parlai eval_model -m ext:chatmatch -t ext:dialogues`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from parlai_ext.commands.options import add_options
from parlai_ext.core.nouns import Dialogue, ScoredDialogue, Utterance
from parlai_ext.core.options import machine_options
from parlai_ext.models.scorer_acts import is_asked, put_scores
from parlai_ext.scoring.chatmatch.dictionaries import DEFAULT as CONCEPTS
from parlai_ext.scoring.chatmatch.entities import DEFAULT as ENTITIES
from parlai_ext.scoring.chatmatch.rules import (
    DEFAULT_READING,
    READINGS,
    THRESHOLDS,
    UNITS,
    rules_of,
)
from parlai_ext.scoring.chatmatch.scorer import JUDGE, ChatMatch
from parlai_ext.scoring.score_run import build_scorer

SELF = 'one', 'other'
REMEMBERED = 64  # games
Said = tuple[tuple[str, str], ...]
Known = dict[Said, ScoredDialogue]
PREFIX = 'chatmatch_'
CHOICES: Final = ('reading', 'entities', 'concepts', *THRESHOLDS)


class ChatmatchAgent(Agent):
    """
    Observes ``text``, the earlier utterances in ``context`` and, where the task knows
    them, the later ones in ``later`` and who spoke each in ``speakers``; acts what the
    turn adds to each dimension.

    Which concepts are important and how alike two turns are depends on the whole
    game, so without ``later`` the game is what was said so far. A message's `reason`
    says why a dimension has no value.
    """

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        group = parser.add_argument_group('ChatMatch Agent')
        add_options(group, '--judge-model-file')
        group.add_argument(
            '--chatmatch-reading',
            choices=tuple(READINGS),
            default=DEFAULT_READING,
            help='the text, the released script, or that with its swapped point mended',
        )
        group.add_argument(
            '--chatmatch-entities',
            default=ENTITIES,
            help='gazetteer, capitals, spacy[:MODEL], stanza[:LANGUAGE] or none',
        )
        group.add_argument(
            '--chatmatch-concepts',
            default=CONCEPTS,
            help='content_words, nltk, or a file or folder of dictionaries',
        )
        for name in THRESHOLDS:
            default = getattr(rules_of(), name)
            extra = {'choices': UNITS} if isinstance(default, str) else {'type': float}
            group.add_argument(
                f'--chatmatch-{name.replace("_", "-")}',
                **extra,
                default=None,
                help="instead of the reading's",
            )
        add_options(group, '--no-cuda', '--fp16')
        parser.set_defaults(judge_model_file=JUDGE)
        return parser

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        self.id = 'ChatMatch'
        self.scorer: ChatMatch = shared['scorer'] if shared else load_scorer(opt)
        self.known: Known = (shared or {}).get('known', {})

    def share(self) -> dict[str, Any]:
        """
        Clones have one scorer, and know the same games.
        """
        return {**super().share(), 'scorer': self.scorer, 'known': self.known}

    def act(self) -> Message:
        """
        Judge what was observed last.
        """
        return self.batch_act([self.observation])[0]

    def batch_act(self, observations: list[Message]) -> list[Message]:
        """
        Judge all observations, a game once for all its turns, the model asked once.
        """
        acts = [Message(id=self.id, episode_done=False) for _ in observations]
        turns: dict[Said, list[tuple[Message, int]]] = {}
        for act, seen in zip(acts, observations, strict=True):
            if is_asked(seen):
                before = seen.get('context', ())
                texts = (*before, seen['text'], *seen.get('later', ()))
                speakers = seen.get('speakers') or [
                    SELF[i % 2] for i in range(len(texts))
                ]
                said = tuple(zip(speakers, texts, strict=True))
                turns.setdefault(said, []).append((act, len(before)))
        found = self.games(list(turns))
        for own, scored in zip(turns.values(), found, strict=True):
            for act, i in own:
                # where there is no game, only the whole says why
                wanted = i if scored.evidence else None
                rows = [s for s in scored.scores if s.utterance_index == wanted]
                values = {s.dimension: s.value for s in rows}
                put_scores(act, values, {s.dimension: s.reason for s in rows})
        return acts

    def games(self, asked: Sequence[Said]) -> list[ScoredDialogue]:
        """
        Return the scores of all turns of games; those judged lately are remembered,
        since a task asks for the turns of a game one after the other.
        """
        new = [said for said in asked if said not in self.known]
        found = self.scorer.score(
            [game_of(said) for said in new], [range(len(said)) for said in new]
        )
        self.known |= dict(zip(new, found, strict=True))
        wanted = [self.known[said] for said in asked]
        for said in list(self.known)[: -max(REMEMBERED, len(asked))]:
            del self.known[said]
        return wanted


def game_of(said: Said) -> Dialogue:
    """
    Return turns as a dialogue.
    """
    return Dialogue('', '', '', tuple(Utterance(*turn) for turn in said))


def load_scorer(opt: Opt) -> Any:
    """
    Return the scorer that the agent's options ask for.
    """
    given = {key: opt.get(PREFIX + key) for key in CHOICES}
    return build_scorer(
        {'name': 'chatmatch', 'judge_model_file': opt.get('judge_model_file'), **given},
        **machine_options(opt),
        batchsize=max(64, opt.get('batchsize') or 1),
    )
