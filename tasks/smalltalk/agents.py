"""
Our generator of small talk as a ParlAI teacher: nothing to download.
"""

from collections.abc import Iterator
from typing import Any

from parlai.core.opt import Opt
from parlai.core.teachers import DialogTeacher

from parlai_ext.core import FOLDS, DeclaresOptions, frozen, option
from parlai_ext.mini.smalltalk import make_dialogue, make_reaction_example

Entry = tuple[tuple[str, str], bool]


@frozen
class SmalltalkOptions:
    """
    Which small talk, how much of it, and in which form.
    """

    title = 'Small talk'
    smalltalk_seed: int = option(0, low=0, help='which talk')
    smalltalk_dialogues: int = option(1000, help='number of dialogues in each fold')
    smalltalk_reactions: bool = option(
        False,
        help='end each dialogue at a good or spoilt turn, answered by what a '
        'partner says of it (praise, complaint): the training data of a judge',
    )


class DefaultTeacher(DeclaresOptions, DialogTeacher):
    """
    Each dialogue from its second speaker's side: the first act is its opening pair.
    """

    declares = (SmalltalkOptions,)

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        self.id = 'smalltalk'
        word = opt['datatype'].split(':')[0]  # of `train:stream`
        self.fold = word if word in FOLDS else 'train'
        opt['datafile'] = self.fold
        super().__init__(opt, shared)

    def setup_data(self, datafile: str) -> Iterator[Entry]:
        seed = self.opt.get('smalltalk_seed', 0)
        for index in range(self.opt.get('smalltalk_dialogues', 1000)):
            if self.opt.get('smalltalk_reactions'):
                example = make_reaction_example(datafile, seed, index)
                yield ('\n'.join(example.context), example.reply), True
            else:
                texts = [turn.text for turn in make_dialogue(datafile, seed, index)]
                for i in range(0, len(texts) - 1, 2):
                    yield (texts[i], texts[i + 1]), i == 0
