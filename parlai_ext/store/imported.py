"""
A run whose dialogues were imported, and how it differs from a collected one.

Its openers, decoding and seeds are unknown, and either speaker may be judged. The
dialogues of two systems are numbered, whichever began. The number stands where other
runs have the opener; no opener is behind it: intervals take dialogues to be
independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Pairing, Roster, ScoredDialogue
from parlai_ext.store import RunFolder
from parlai_ext.store.manifest_check import IMPORTED

NAME = IMPORTED
UNKNOWN = (
    'imported dialogues: which versions of the systems made them, from what openers, '
    'with what decoding and seeds, is not known'
)


def refuse_collecting(manifest: Mapping[str, Any], root: Any) -> None:
    """
    Refuse to collect dialogues in a run whose dialogues were imported.
    """
    if NAME in manifest:
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
    return run if run and NAME in run.manifest else None


def met_systems(roster: Roster, pairings: tuple[Pairing, ...]) -> tuple[str, ...]:
    """
    Return the systems that talked with a judged system, in the roster's order; a judged
    system that talked with itself is among them.
    """
    judged = {system.name for system in roster.targets}
    partners = {p.second for p in pairings if p.first in judged}
    partners |= {p.first for p in pairings if p.second in judged}
    everybody = roster.targets + roster.partners
    return tuple(system.name for system in everybody if system.name in partners)


def judged_sides(pairing: Pairing) -> tuple[Pairing, ...]:
    """
    Return a pairing once for each speaker who is judged, with that speaker first.

    Both are judged in an imported run only.
    """
    if pairing.scheme != NAME or pairing.first == pairing.second:
        return (pairing,)
    return pairing, replace(pairing, first=pairing.second, second=pairing.first)


def without_people(
    manifest: Mapping[str, Any], scored: list[ScoredDialogue]
) -> list[ScoredDialogue]:
    """
    Return scores without those of people, who are not judged: they are the partners of
    an imported run.
    """
    if NAME not in manifest or not manifest['partners']:
        return scored
    people = manifest['partners']
    return [
        replace(
            dialogue, scores=tuple(s for s in dialogue.scores if s.system not in people)
        )
        for dialogue in scored
    ]


def own_utterances(
    dialogue: Dialogue, judged: Pairing
) -> tuple[list[str], list[list[str]]]:
    """
    Return the utterances that the first system of ``judged`` produced itself, and for
    each the turns of the other speaker before it.
    """
    turns = dialogue.utterances
    if judged.scheme != NAME and judged.first == judged.second:
        own = list(range(0, len(turns), 2))
    else:
        own = [i for i, turn in enumerate(turns) if turn.speaker == judged.first]
    others = sorted({*range(len(turns))} - {*own})
    produced = [i for i in own if not turns[i].given]
    heard = [[turns[j].text for j in others if j < i] for i in produced]
    return [turns[i].text for i in produced], heard


def import_notes(manifest: Mapping[str, Any]) -> list[str]:
    """
    Return the notes on the import for a reader of the ranking.
    """
    about = manifest.get(NAME)
    if about is None:
        return []
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
