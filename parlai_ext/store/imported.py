"""
What is different about a run whose dialogues were imported.

Nobody knows its openers, decoding or seeds, and whoever spoke may be judged on either
side. Dialogues of two systems are numbered, whoever began; the number stands where
other runs have the opener, with no opener behind it: intervals take dialogues to be
independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Opener, Pairing, Roster, ScoredDialogue
from parlai_ext.store import RunFolder

NAME = 'imported'
UNKNOWN = (
    'imported dialogues: which versions of the systems made them, from what openers, '
    'with what decoding and seeds, is not known'
)


def slot(number: int) -> str:
    """
    Return what stands for an opener in the dialogue of this number of two systems.
    """
    return f'{NAME}-{number:06d}'


def slots(manifest: Mapping[str, Any]) -> list[Opener]:
    """
    Return the places of an imported run's dialogues; none in any other run.
    """
    about = manifest.get(NAME) or {}
    return [Opener(slot(i), (), NAME) for i in range(about.get('dialogues_a_pair', 0))]


def refuse(manifest: Mapping[str, Any], root: Any) -> None:
    """
    Refuse to let systems talk in a run whose dialogues were imported.
    """
    if NAME in manifest:
        raise UserError(
            f'{root} holds imported dialogues: nothing can be collected there; '
            'score_dialogues, rank_systems, report_run and, without --config, '
            'validate_scorer take it as it is'
        )


def existing(root: str | None) -> RunFolder | None:
    """
    Return the run in this folder if its dialogues were imported.
    """
    run = RunFolder.found(root)
    return run if run and NAME in run.manifest else None


def opponents(roster: Roster, pairings: tuple[Pairing, ...]) -> tuple[str, ...]:
    """
    Return whom the judged systems met, themselves in self-chats.
    """
    judged = {system.name for system in roster.targets}
    met = {p.second for p in pairings if p.first in judged}
    met |= {p.first for p in pairings if p.second in judged}
    everybody = roster.targets + roster.partners
    return tuple(system.name for system in everybody if system.name in met)


def sides(pairing: Pairing) -> tuple[Pairing, ...]:
    """
    Return a pairing as each speaker sees it; whoever is judged comes first.

    Only in an imported run both are.
    """
    if pairing.scheme != NAME or pairing.first == pairing.second:
        return (pairing,)
    return pairing, replace(pairing, first=pairing.second, second=pairing.first)


def judged_only(
    manifest: Mapping[str, Any], scored: list[ScoredDialogue]
) -> list[ScoredDialogue]:
    """
    Return scores without those that people, whom nobody judges, do not have.
    """
    if NAME not in manifest or not manifest['partners']:
        return scored
    people = manifest['partners']
    return [
        replace(one, scores=tuple(s for s in one.scores if s.system not in people))
        for one in scored
    ]


def said(dialogue: Dialogue, judged: Pairing) -> list[str]:
    """
    Return what the judged system (the first of ``judged``) said by itself.
    """
    turns = dialogue.utterances
    if judged.scheme != NAME and judged.first == judged.second:
        return [turn.text for turn in turns[::2] if not turn.given]
    return [t.text for t in turns if t.speaker == judged.first and not t.given]


def in_words(manifest: Mapping[str, Any]) -> list[str]:
    """
    Return what a reader of the ranking must know of the import.
    """
    about = manifest.get(NAME)
    if about is None:
        return []
    found = [UNKNOWN]
    if about['left_out']:
        found.append(
            f'{about["left_out"]} dialogues were left out at the import, for '
            f'{about["bad_rows"]} unreadable rows'
        )
    if about['people_only']:
        found.append(f'{about["people_only"]} dialogues of people only are left out')
    if about['silent']:
        counts = ', '.join(f'{name} {n}' for name, n in about['silent'].items())
        found.append(f'empty turns, which are not judged: {counts}')
    if manifest['partners']:
        found.append(f'people, not judged: {", ".join(manifest["partners"])}')
    return found
