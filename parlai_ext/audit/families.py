"""
Which systems are akin: as rosters declare it, else as options and models tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parlai_ext.core.nouns import System
from parlai_ext.store import RunFolder

ZOO = 'zoo:'


def system_families(
    run: RunFolder, names: Sequence[str], datapath: str | None = None
) -> dict[str, str]:
    """
    Return the family of each system: the one that its roster declares (`family:`), else
    the name with which its model's own begins, its architecture, its agent without a
    model file, or its model file. A system of which nothing is known is a family of its
    own.
    """
    declared = run.manifest.families
    systems = run.manifest.systems
    return {
        name: declared.get(name) or derived_family(name, systems.get(name), datapath)
        for name in names
    }


def derived_family(
    name: str, opt: Mapping[str, Any] | None, datapath: str | None = None
) -> str:
    """
    Return the family of a system that no roster declares one of.
    """
    from parlai_ext.systems.model_origin import model_origin

    if not opt:  # imported systems have none
        return name
    origin = model_origin(System(name, opt), datapath)
    file = str(opt.get('model_file') or '')
    # models of the embedded zoo share a maker and nothing else
    if file.startswith(ZOO) and origin.name == 'mini':
        return file.removeprefix(ZOO).rpartition('/')[0]
    agent = str(opt.get('model') or '').rpartition(':')[2]
    return origin.name or origin.model_type or file or agent or name


def siblings(families: Mapping[str, str], names: Sequence[str]) -> list[str | None]:
    """
    Return the family of each system that is not alone in it, else `None`.
    """
    all_names = [families[name] for name in names]
    return [f if all_names.count(f) > 1 else None for f in all_names]
