"""
Whether a scorer can be had: asked before days of dialogues, not after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from parlai_ext.core.errors import SystemFailed, UserError
from parlai_ext.core.nouns import System
from parlai_ext.scoring.registry import find_scorer


class _Enough(Exception):
    """
    Everything but the judge is there.
    """


def judge_of(section: Mapping[str, Any]) -> System | None:
    """
    Return the model inside the scorer of a ``scorer:`` section, if it has one.
    """
    from parlai_ext.models.judge_names import judge_system

    path = find_scorer(section.get('name') or 'fed').judge_file(section)
    return judge_system(path) if path else None


def check_scorer(section: Mapping[str, Any], datapath: str | None = None) -> None:
    """
    Refuse a scorer that could not be built; its judge is fetched and not loaded.

    :raises UserError: for what building it would raise: an unknown name, key or set of
        follow-ups, a judge that is not there or cannot be downloaded.
    """
    from parlai_ext.systems.downloads import download_systems
    from parlai_ext.systems.resolve import DOWNLOAD, MISSING, resolve

    def enough(model_file: str) -> NoReturn:
        raise _Enough

    with suppress(_Enough):
        find_scorer(section.get('name') or 'fed').from_config(section, enough, datapath)
    judge = judge_of(section)
    if judge is None:
        return
    found = resolve(judge, datapath)
    if found.status == MISSING:
        raise SystemFailed('judge', found.reason or 'it is missing')
    if found.status == DOWNLOAD:
        for came in download_systems([judge], datapath):
            if came.reason:
                raise UserError(came.reason)
