"""
Where the dialogues come from: ParlAI's own download, with one clear line when it fails.
"""

import os

from parlai.core.build_data import built
from parlai.tasks.empathetic_dialogues import build as source

from parlai_ext.core.errors import UserError
from parlai_ext.systems.fetch.checked_downloads import checked_downloads

VERSION = '1.0'
SPLITS = ('train', 'valid', 'test')


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
