"""
A run folder as a task: one example for each utterance that is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.teachers import FixedDialogTeacher

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue
from parlai_ext.core.options import DeclaresOptions, Flags, option
from parlai_ext.scoring.base import judged_indices
from parlai_ext.store import RunFolder


@dataclass(frozen=True)
class DialoguesOptions:
    """
    Which dialogues, and which of their utterances are judged.
    """

    run_dir: str | None = option(None, path=True, help='the folder of a run')
    score_given: bool = option(False, help='judge the given first utterances too')


class DefaultTeacher(DeclaresOptions, FixedDialogTeacher):
    """
    Every example is an episode of its own; all datatypes have the same examples.
    """

    declares = (Flags(DialoguesOptions, 'Dialogues of a run'),)

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        self.id = 'ext:dialogues'
        self.examples = shared['examples'] if shared else judged_examples(opt)
        self.reset()

    def share(self) -> dict[str, Any]:
        """
        Batches read one list.
        """
        return {**super().share(), 'examples': self.examples}

    def num_episodes(self) -> int:
        """
        Return how many utterances are judged.
        """
        return len(self.examples)

    def num_examples(self) -> int:
        """
        Return how many utterances are judged.
        """
        return len(self.examples)

    def get(self, episode_idx: int, entry_idx: int = 0) -> Message:
        """
        Return an utterance with the earlier ones as its ``context``.
        """
        dialogue, index = self.examples[episode_idx]
        utterance = dialogue.utterances[index]
        return Message(
            text=utterance.text,
            context=[earlier.text for earlier in dialogue.utterances[:index]],
            later=[later.text for later in dialogue.utterances[index + 1 :]],
            speakers=[utterance.speaker for utterance in dialogue.utterances],
            speaker=utterance.speaker,
            dialogue_id=dialogue.id,
            utterance_index=index,
            labels=[''],  # without a label teachers.py:541 collects no metrics
            episode_done=True,
        )

    def process_action(self, action: Message) -> Message:
        """
        Keep the label from whoever judges.
        """
        action = super().process_action(action).copy()
        for key in ('labels', 'eval_labels'):
            action.pop(key, None)
        return action


def judged_examples(opt: Opt) -> list[tuple[Dialogue, int]]:
    """
    Return the judged utterances of the run in ``--run-dir``, by dialogue and place.
    """
    if not opt.get('run_dir'):
        raise UserError('--run-dir is needed: the folder of a run with dialogues')
    run = RunFolder.existing(opt['run_dir'])
    first_only = run.manifest.first_only
    return [
        (dialogue, index)
        for dialogue in run.iter_dialogues()
        for index in judged_indices(dialogue, first_only, bool(opt.get('score_given')))
    ]
