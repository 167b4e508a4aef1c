"""
A run whose dialogues were imported, and how it differs from a collected one.

Its openers, decoding and seeds are unknown, and either speaker may be judged. The
dialogues of two systems are numbered, whichever began. The number stands where other
runs have the opener; no opener is behind it: intervals take dialogues to be
independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.store import RunFolder
from parlai_ext.worlds.pairings import IMPORTED, SCHEMES

UNKNOWN = (
    'imported dialogues: which versions of the systems made them, from what openers, '
    'with what decoding and seeds, is not known'
)


def is_played(manifest: Mapping[str, Any]) -> bool:
    """
    True if the dialogues of a run are collected and not imported.
    """
    return SCHEMES[manifest['protocol']['pairing']].is_played


def refuse_collecting(manifest: Mapping[str, Any], root: Any) -> None:
    """
    Refuse to collect dialogues in a run whose dialogues were imported.
    """
    if not is_played(manifest):
        raise UserError(
            f'{root} holds imported dialogues: nothing can be collected there; '
            'score_dialogues, rank_systems, report_run and, without --config, '
            'validate_scorer take it as it is'
        )


def imported_run(root: str | None) -> RunFolder | None:
    """
    Return the run in this folder if its dialogues were imported.
    """
    run = RunFolder.existing_or_none(root)
    return run if run and not is_played(run.manifest) else None


def people_of(manifest: Mapping[str, Any]) -> frozenset[str]:
    """
    Return the people of an imported run, its partners, who are not judged; nobody for
    any other run.
    """
    return frozenset(() if is_played(manifest) else manifest['partners'])


def import_notes(manifest: Mapping[str, Any]) -> list[str]:
    """
    Return the notes on the import for a reader of the ranking.
    """
    if is_played(manifest):
        return []
    about = manifest[IMPORTED]
    notes = [UNKNOWN]
    if about['left_out']:
        notes.append(
            f'{about["left_out"]} dialogues were left out at the import, for '
            f'{about["bad_rows"]} unreadable rows'
        )
    if about['people_only']:
        notes.append(f'{about["people_only"]} dialogues of people only are left out')
    if about['silent']:
        counts = ', '.join(f'{name} {n}' for name, n in about['silent'].items())
        notes.append(f'empty turns, which are not judged: {counts}')
    if manifest['partners']:
        notes.append(f'people, not judged: {", ".join(manifest["partners"])}')
    return notes
