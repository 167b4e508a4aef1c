"""
Judged sets as tasks: `parlai eval_model -m ext:fed -t ext:judged:fed_turn`.
"""

from __future__ import annotations

from typing import Any

from parlai.core.message import Message
from parlai.core.metrics import SumMetric
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.teachers import FixedDialogTeacher
from parlai.utils import logging

from parlai_ext.core.errors import UserError
from parlai_ext.tasks.judged.fed_data import Judged, dialogues_of, read_fed_data
from parlai_ext.tasks.judged.metrics import defined, metrics
from parlai_ext.tasks.judged.qualities import pairs


def read_level(path: str | None, level: str) -> list[Judged]:
    """
    Return the judged items of one level.

    :raises UserError: when there are none.
    """
    turns, dialogues = read_fed_data(path)
    found = turns if level == 'turn' else dialogues
    if not found:
        which = (
            "objects with a key 'response'" if level == 'turn' else 'objects without it'
        )
        raise UserError(f'--judged-file {path}: no judged {level}s ({which}) in it')
    return found


class FedTurnTeacher(FixedDialogTeacher):
    """
    The 375 judged turns of FED; every turn is an episode of its own.

    The scorer's ``scores`` are gathered, and reported as correlations with people.
    """

    level = 'turn'

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        super().add_cmdline_args(parser, partial_opt)
        group = parser.add_argument_group('Judged sets')
        group.add_argument('--judged-file', help='fed_data.json, where it lies')
        return parser

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        self.id = f'ext:judged:fed_{self.level}'
        if shared:
            self.examples: list[Judged] = shared['examples']
            self.groups: list[int] = shared['groups']
        else:
            self.examples = read_level(opt.get('judged_file'), self.level)
            turns = self.level == 'turn'
            everyone = range(len(self.examples))
            self.groups = dialogues_of(self.examples) if turns else list(everyone)
            words = sum(sum(one.strings.values()) for one in self.examples)
            logging.info(
                f'{len(self.examples)} judged {self.level}s; {words} answers in words '
                'are no numbers and left out'
            )
        self.reset()

    def share(self) -> dict[str, Any]:
        """
        Batches read one list.
        """
        shared = {'examples': self.examples, 'groups': self.groups}
        return {**super().share(), **shared}

    def num_episodes(self) -> int:
        """
        Return how many items there are.
        """
        return len(self.examples)

    def num_examples(self) -> int:
        """
        Return how many items there are.
        """
        return len(self.examples)

    def get(self, episode_idx: int, entry_idx: int = 0) -> Message:
        """
        Return the last utterance with the earlier ones as its ``context``.
        """
        one = self.examples[episode_idx]
        return Message(
            text=one.utterances[-1],
            context=list(one.utterances[:-1]),
            speaker=one.system,
            item=episode_idx,
            num_items=len(self.examples),
            group=self.groups[episode_idx],
            human=dict(one.human),
            strings=dict(one.strings),
            labels=[''],  # without a label teachers.py:541 collects no metrics
            episode_done=True,
        )

    def process_action(self, action: Message) -> Message:
        """
        Keep the label, and what people said, from whoever judges.
        """
        action = super().process_action(action).copy()
        for key in ('labels', 'eval_labels', 'human', 'strings', 'group'):
            action.pop(key, None)
        return action

    def observe(self, observation: Message) -> Message:
        """
        Take a judgement; its averages over a judged set are nobody's question.
        """
        seen = Message({k: v for k, v in observation.items() if k != 'metrics'})
        return super().observe(seen)

    def custom_evaluation(
        self, teacher_action: Message, labels: Any, model_response: Message
    ) -> None:
        """
        Put the scores of one item beside what people said of it.
        """
        human, strings = teacher_action['human'], teacher_action['strings']
        scores = model_response.get('scores')
        if scores is None:
            who = model_response.get('id')
            raise UserError(f'{self.id}: {who} is no scorer; -m ext:fed would do')
        both = list(pairs(scores, human, self.level))
        if not both:
            asked, judged = ', '.join(scores), ', '.join(human)
            raise UserError(
                f'{self.id}: nobody judged any of {asked}; people judged {judged}'
            )
        for pair in both:
            words, group = strings[pair.quality], teacher_action['group']
            found = metrics(pair.name, pair.score, pair.human, words, group)
            for key, metric in found.items():
                self.metrics.add(key, metric)
        if (cut := model_response.get('num_truncated')) is not None:
            self.metrics.add('cut_contexts', SumMetric(int(cut > 0)))

    def report(self) -> dict[str, Any]:
        """
        Return the metrics; a correlation that does not exist is left out.
        """
        return defined(super().report())


class FedDialogueTeacher(FedTurnTeacher):
    """
    The 125 judged dialogues of FED.
    """

    level = 'dialogue'


class DefaultTeacher(FedTurnTeacher):
    """
    ``-t ext:judged`` is ``-t ext:judged:fed_turn``.
    """


def __getattr__(name: str) -> Any:
    """
    Say which judged sets there are, for a task whose name is misspelt.
    """
    if not name.endswith('Teacher'):
        raise AttributeError(name)
    raise UserError('-t ext:judged: there are ext:judged:fed_turn and :fed_dialogue')
