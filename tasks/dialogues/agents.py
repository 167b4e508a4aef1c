"""
A run folder as a task: one example for each utterance that is judged.
"""

from parlai.core.message import Message
from parlai.core.opt import Opt

from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.scoring.base import judged_indices
from parlai_ext.store import RunFolder
from parlai_ext.tasks.items_teacher import ItemsTeacher


@frozen
class DialoguesOptions:
    """
    Which dialogues, and which of their utterances are judged.
    """

    title = 'Dialogues of a run'
    run_dir: str | None = optional(path=True, help='the folder of a run')
    score_given: bool = option(False, help='judge the given first utterances too')


class DefaultTeacher(ItemsTeacher):
    """
    The items are dialogues with the place of a judged utterance; all datatypes have the
    same.
    """

    declares = (DialoguesOptions,)
    hidden = ('labels', 'eval_labels')

    def read(self, opt: Opt) -> None:
        """
        Read the judged utterances of the run in ``--run-dir``.
        """
        self.id = 'ext:dialogues'
        if not opt.get('run_dir'):
            raise UserError('--run-dir is needed: the folder of a run with dialogues')
        run = RunFolder.existing(opt['run_dir'])
        choice = (run.manifest.first_only, bool(opt.get('score_given')))
        self.items = [
            (dialogue, index)
            for dialogue in run.iter_dialogues()
            for index in judged_indices(dialogue, *choice)
        ]

    def get(self, episode_idx: int, entry_idx: int = 0) -> Message:
        """
        Return an utterance with the earlier ones as its ``context``.
        """
        dialogue, index = self.items[episode_idx]
        utterance = dialogue.utterances[index]
        return Message(
            text=utterance.text,
            context=list(dialogue.texts[:index]),
            later=list(dialogue.texts[index + 1 :]),
            speakers=list(dialogue.speakers),
            speaker=utterance.speaker,
            dialogue_id=dialogue.id,
            utterance_index=index,
            labels=[''],  # without a label teachers.py:541 collects no metrics
            episode_done=True,
        )
