"""
The two files of GPT-2's tokenizer, which BART and R2C2 need beside their model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from parlai_ext.systems.families import family_of
from parlai_ext.systems.fetch.data_folder import data_folder


def missing_urls(opt: Mapping[str, Any], datapath: str | None) -> list[str]:
    """
    Return what is to be fetched for a system's tokenizer; empty when all is here.

    :param opt: the system's options, those of its own ``.opt`` among them.
    """
    if not _wanted(opt):
        return []
    from parlai.utils.bpe import Gpt2BpeHelper

    home = _home(opt, datapath) / 'gpt2'
    urls = (Gpt2BpeHelper.DEFAULT_VOCAB_BPE, Gpt2BpeHelper.DEFAULT_ENCODER_JSON)
    present = all((home / url.rpartition('/')[2]).is_file() for url in urls)
    return [] if present else list(urls)  # ParlAI fetches both if one is not there


def fetch(opt: Mapping[str, Any], datapath: str | None) -> None:
    """
    Have ParlAI fetch them; within `trusted_downloads`, so that they are checked.
    """
    from parlai.utils.bpe import Gpt2BpeHelper

    place = SimpleNamespace(opt={'datapath': str(_home(opt, datapath))})
    vars(place).update(
        DEFAULT_VOCAB_BPE=Gpt2BpeHelper.DEFAULT_VOCAB_BPE,
        DEFAULT_ENCODER_JSON=Gpt2BpeHelper.DEFAULT_ENCODER_JSON,
    )
    Gpt2BpeHelper._build_data(place)


def _wanted(opt: Mapping[str, Any]) -> bool:
    return (opt.get('dict_tokenizer') or family_of(opt).dict_tokenizer) == 'gpt2'


def _home(opt: Mapping[str, Any], datapath: str | None) -> Path:
    return Path(data_folder(opt.get('datapath') or datapath))
