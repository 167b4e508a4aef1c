"""
Openers from EmpatheticDialogues as a ParlAI teacher: one example a dialogue.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parlai.core.build_data import built
from parlai.core.opt import Opt
from parlai.core.teachers import DialogTeacher
from parlai.tasks.empathetic_dialogues import build as source

from parlai_ext.core import DeclaresOptions, Flags, UserError, option
from parlai_ext.files.openers_file import read_openers_file, report_too_short
from parlai_ext.systems.fetch.checked_downloads import checked_downloads

VERSION = '1.0'
SPLITS = ('train', 'valid', 'test')


@dataclass(frozen=True)
class OpenersOptions:
    """
    Where the openers are from.
    """

    openers_file: str | None = option(
        None,
        help='CSV with columns conv_id, utterance_idx, utterance, instead of the '
        'download',
    )
    openers_split: str | None = option(
        None,
        choices=SPLITS,
        help='which part of EmpatheticDialogues (default: that of --datatype)',
    )


class DefaultTeacher(DeclaresOptions, DialogTeacher):
    """
    The first utterance is the text, the second the label.
    """

    declares = (Flags(OpenersOptions, 'Empathetic openers'),)

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        self.id = 'empathetic_openers'
        if shared is None:
            split = opt.get('openers_split') or opt['datatype'].split(':')[0]
            given = opt.get('openers_file')
            opt['datafile'] = given or build(opt['datapath'], split)
        super().__init__(opt, shared)

    def setup_data(self, datafile: str) -> Iterator[tuple[dict[str, Any], bool]]:
        openers = read_openers_file(datafile)
        report_too_short(datafile, openers)
        for conv_id, (first, second) in openers.openers.items():
            reply = openers.replies.get(conv_id)
            yield (
                {
                    'text': first,
                    'labels': [second],
                    'conv_id': conv_id,
                    **({'reply': reply} if reply else {}),
                },
                True,
            )


def build(datapath: str, split: str) -> str:
    """
    Return the official CSV of this split, downloading it when it is not there.

    :raises UserError: when it cannot be had; names the way around.
    """
    folder = os.path.join(datapath, 'empatheticdialogues')
    if not built(folder, VERSION):
        try:
            with checked_downloads():
                source.build({'datapath': datapath})
        except (UserError, OSError) as e:
            raise UserError(
                f'EmpatheticDialogues cannot be downloaded: {e}; give the dialogues '
                'with --openers-file FILE.csv (conv_id, utterance_idx, utterance)'
            ) from None
    return os.path.join(folder, 'empatheticdialogues', f'{split}.csv')
