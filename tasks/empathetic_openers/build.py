"""
Where the dialogues come from: ParlAI's own download, with one clear line when it fails.
"""

from __future__ import annotations

import os

import requests
from parlai.core.build_data import built
from parlai.tasks.empathetic_dialogues import build as source

from parlai_ext.errors import UserError

VERSION = '1.0'
SPLITS = ('train', 'valid', 'test')


def build(datapath: str, split: str) -> str:
    """
    Return the official CSV of this split, downloading it when it is not there.

    :raises UserError: when it cannot be had; names the way around.
    """
    folder = os.path.join(datapath, 'empatheticdialogues')
    if not built(folder, VERSION):
        url = source.RESOURCES[0].url
        try:
            # ParlAI would try five times, and keep an error page as the archive
            requests.head(url, allow_redirects=True, timeout=10).raise_for_status()
            source.build({'datapath': datapath})
        except (requests.RequestException, RuntimeError, AssertionError) as e:
            raise UserError(
                f'EmpatheticDialogues cannot be downloaded from {url} '
                f'({type(e).__name__}); give the dialogues with --openers-file '
                'FILE.csv (columns conv_id, utterance_idx, utterance)'
            ) from None
    return os.path.join(folder, 'empatheticdialogues', f'{split}.csv')
