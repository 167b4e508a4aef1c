"""
ParlAI's data folder, and where a model of its zoo lies in it.
"""

from __future__ import annotations

import os
from pathlib import Path

ZOO_PREFIXES = ('zoo:', 'models:')


def data_folder(datapath: str | None) -> str:
    """
    Return ParlAI's data folder: the one given, or ParlAI's own choice.
    """
    if datapath:
        return datapath
    if os.environ.get('PARLAI_DATAPATH'):
        return os.environ['PARLAI_DATAPATH']
    from parlai.core.params import ParlaiParser

    inferred = ParlaiParser(False, False)._infer_datapath({})['datapath']
    del os.environ['PARLAI_DATAPATH']  # which that call sets
    return str(inferred)


def is_zoo_path(path: str) -> bool:
    """
    True if a model path names a model of ParlAI's zoo.
    """
    return path.startswith(ZOO_PREFIXES)


def local_path(path: str, datapath: str | None) -> Path:
    """
    Return where a model file is; one of the zoo, where it is after its download.
    """
    if not is_zoo_path(path):
        return Path(path)
    return Path(data_folder(datapath), 'models', path.partition(':')[2])
