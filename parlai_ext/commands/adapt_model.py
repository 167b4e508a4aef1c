"""
Adapt a small model to dialogues: the encoder of deep AM-FM to masked words, its
language model to the next word.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.core import UserError, frozen, one_value, option, text_option
from parlai_ext.models.handle import ModelHandle, model_system
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.relevance import coherences, context_cosines, measured_scale
from parlai_ext.systems.hub import ModelOptions, checked_repository, fetch_weights
from parlai_ext.training.options import TrainingOptions
from parlai_ext.view.page import print_report

# by what is adapted, the kind of model in a scorer
KINDS = {'mlm': 'embedder', 'lm': 'likelihood'}
PAIRS = 200  # of held-out turns, from which the scale of a model is measured


@frozen
class AdaptOptions:
    """
    What is adapted, to what, and where it is written.
    """

    kind: str = option(
        choices=tuple(KINDS),
        help='mlm: an encoder, by masked words; lm: a language model, by the next word',
    )
    base: str = option(
        path=True,
        metavar='MODEL',
        help='the model to begin with: a catalogue name, a folder, or hf:REPOSITORY',
    )
    corpus: tuple[str, ...] = option(
        read=one_value,
        metavar='FILE',
        help="dialogues: DailyDialog's files, zipped or not, and all that "
        'import_dialogues reads; may be given several times',
    )
    out: str = option(metavar='FOLDER', help='where the adapted model is written')
    save_every: int = option(
        100, low=1, help='updates between savings of what is resumed'
    )


class AdaptModel(Command):
    """
    Train a model on dialogues and write a Hugging Face folder, which the options
    ``encoder`` and ``judge_model_file`` of scorers take.

    >>> AdaptModel.main(kind='mlm', base='minilm', corpus=['train.zip'], out='am')
    ... # doctest: +SKIP
    """

    usage = '--kind mlm|lm --base MODEL --corpus FILE --out FOLDER [option …]'
    declares = (
        AdaptOptions,
        TrainingOptions,
        '--datapath',
        '--no-cuda',
    )

    def run(self) -> object:
        """
        Adapt the model, print its losses and its scale in AM-FM, and return the losses.

        :raises UserError: for an option that is missing or wrong.
        """
        from parlai_ext.data.imported_dialogues import read_dialogue_texts

        given, training = self.options(AdaptOptions), self.options(TrainingOptions)
        kind, folder = given.kind, Path(given.out)
        dialogues = read_dialogue_texts(given.corpus)
        base = fetched_base(KINDS[kind], given.base)
        from parlai_ext.systems.pretrained import chosen_device
        from parlai_ext.training.trainings import adapt, split_held_out

        print_report('corpus', dialogues=dialogues, new_head=kind == 'mlm')
        adapted = adapt(
            kind,
            base,
            dialogues,
            folder,
            training,
            device=chosen_device(ModelOptions(no_cuda=self.machine.no_cuda)),
            save_every=given.save_every,
        )
        held_out, _ = split_held_out(dialogues, training)
        print_report(
            'adapted_model',
            adapted=adapted,
            kind=kind,
            folder=folder,
            training=training,
            scale=self._scale(kind, folder, training.turns, held_out),
        )
        return adapted

    def _scale(
        self, kind: str, folder: Path, turns: str, held_out: Sequence[tuple[str, ...]]
    ) -> tuple[float, float]:
        """
        Return cutoff and width of the adapted model in the scorer ``amfm``, measured on
        neighbouring turns of held-out dialogues.
        """
        models = ModelHandle(self.machine)
        items = [
            ScoringItem((first,), second)
            for dialogue in held_out
            for first, second in pairwise(dialogue)
        ][:PAIRS]
        if kind == 'mlm':
            values = context_cosines(models.embedder(str(folder)), items, 'last_turn')
        else:
            likelihood = models.likelihood(str(folder))
            values = [value for value, _ in coherences(likelihood, items, turns)]
        return measured_scale([value for value in values if value is not None])


def fetched_base(kind: str, name: str) -> Path:
    """
    Return the folder of the model to begin with, which is fetched if it is not here.

    :raises UserError: for a model that is not of Hugging Face's format.
    """
    opt = model_system(kind, name).opt
    if not opt.get('hf_model'):
        raise UserError(f'--base {name}: a Hugging Face model is needed')
    repository = checked_repository(opt['hf_model'])
    return fetch_weights(repository, text_option(opt, 'hf_revision')).parent
