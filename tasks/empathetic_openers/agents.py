"""
Openers from EmpatheticDialogues as a ParlAI teacher: one example a dialogue.
"""

import os
from typing import Any

from parlai.core.build_data import built
from parlai.core.opt import Opt
from parlai.tasks.empathetic_dialogues import build as source

from parlai_ext.core import FOLDS, DeclaresOptions, UserError, frozen, optional
from parlai_ext.systems.fetch.checked_downloads import checked_downloads
from parlai_ext.tasks.openers_teacher import OpenersTeacher


@frozen
class OpenersOptions:
    """
    Where the openers are from.
    """

    title = 'Empathetic openers'
    openers_file: str | None = optional(
        help='CSV with columns conv_id, utterance_idx, utterance, instead of the '
        'download',
    )
    openers_split: str | None = optional(
        choices=FOLDS,
        help='which part of EmpatheticDialogues (default: that of --datatype)',
    )


class DefaultTeacher(DeclaresOptions, OpenersTeacher):
    """
    The file that the user names, or the official one of a split.
    """

    declares = (OpenersOptions,)

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        self.id = 'empathetic_openers'
        if shared is None:
            split = opt.get('openers_split') or opt['datatype'].split(':')[0]
            opt['datafile'] = opt.get('openers_file') or build(opt['datapath'], split)
        super().__init__(opt, shared)


def build(datapath: str, split: str) -> str:
    """
    Return the official CSV of this split, downloading it when it is not there.

    :raises UserError: when it cannot be had; names the way around.
    """
    folder = os.path.join(datapath, 'empatheticdialogues')
    if not built(folder, '1.0'):  # as ParlAI marks it
        try:
            with checked_downloads():
                source.build({'datapath': datapath})
        except (UserError, OSError) as e:
            raise UserError(
                f'EmpatheticDialogues cannot be downloaded: {e}; give the dialogues '
                'with --openers-file FILE.csv (conv_id, utterance_idx, utterance)'
            ) from None
    return os.path.join(folder, 'empatheticdialogues', f'{split}.csv')
