"""
A run's dialogues as people are shown them: whose turns are judged, and over what.

A run is read twice, so that only the dialogues that are shown lie in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from parlai_ext.store import RunFolder
from parlai_ext.worlds.pairings import SCHEMES


@dataclass(frozen=True, slots=True)
class DialogueReference:
    """
    One judged side of a dialogue, and where the dialogue is.

    :param conditions: what two dialogues share that can be compared: the opener, the
        partner, and whether the judged system began. In self-play there is no partner.
    """

    dialogue_id: str
    system: str
    conditions: tuple[str, str, bool]
    pairing_id: str
    shard: int

    @property
    def opener_id(self) -> str:
        """
        The opener of the dialogue.
        """
        return self.conditions[0]

    @property
    def other_side(self) -> DialogueReference:
        """
        The same dialogue as that of the partner.
        """
        opener, partner, began = self.conditions
        conditions = (opener, self.system, not began)
        return replace(self, system=partner, conditions=conditions)


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """
    One utterance on the page: of the judged system or not, given or not.
    """

    own: bool
    given: bool
    text: str


def judged_dialogues(
    run: RunFolder, systems: Collection[str] = ()
) -> tuple[list[DialogueReference], int]:
    """
    Return every dialogue of a run once for each judged target, and how many are left
    out because somebody broke them off.

    :param systems: of these targets only; empty: of all.
    """
    plan = run.plan
    targets = {system.name for system in plan.roster.targets}
    wanted = targets & set(systems) if systems else targets
    references, num_broken = [], 0
    for shard in run.dialogue_shards():
        sides = [
            side
            for side in plan.judged_sides(run.pairing(shard.pairing_id))
            if side.first in wanted
        ]
        if not sides:
            continue
        for dialogue in run.read_dialogues(shard):
            if dialogue.ended_by is not None:
                num_broken += 1
                continue
            began = [u.speaker for u in dialogue.utterances[:1]]
            for side in sides:
                name = side.first
                partner = '' if name == side.second else side.second
                conditions = (dialogue.opener_id, partner, began == [name])
                place = (dialogue.pairing_id, shard.index)
                references.append(
                    DialogueReference(dialogue.id, name, conditions, *place)
                )
    return references, num_broken


def beginning_speakers(
    references: Iterable[DialogueReference],
) -> list[DialogueReference]:
    """
    Return each dialogue of two systems once, as that of the one who begins.
    """
    dialogues: dict[str, DialogueReference] = {}
    for one in references:
        opener, partner, began = one.conditions
        first = one if began else one.other_side
        if partner:
            dialogues.setdefault(first.dialogue_id, first)
    return list(dialogues.values())


def read_turns(
    run: RunFolder, references: Collection[DialogueReference]
) -> dict[DialogueReference, tuple[ShownTurn, ...]]:
    """
    Return the turns of these dialogues, all of them in memory.
    """
    return dict(stream_turns(run, references))


def stream_turns(
    run: RunFolder, references: Collection[DialogueReference]
) -> Iterator[tuple[DialogueReference, tuple[ShownTurn, ...]]]:
    """
    Yield each of these dialogues with its turns, shard by shard.
    """
    by_shard: dict[tuple[str, int], list[DialogueReference]] = {}
    for reference in references:
        key = (reference.pairing_id, reference.shard)
        by_shard.setdefault(key, []).append(reference)
    for key, here in sorted(by_shard.items()):
        pairing = run.pairing(key[0])
        scheme = SCHEMES[pairing.scheme]
        self_play = scheme.is_self_play(pairing.first, pairing.second)
        dialogues = {
            dialogue.id: dialogue for dialogue in run.read_dialogues(run.shard(*key))
        }
        for reference in here:
            turns = []
            for place, one in enumerate(dialogues[reference.dialogue_id].utterances):
                own = one.speaker == reference.system and not (self_play and place % 2)
                turns.append(ShownTurn(own, one.given, one.text))
            yield reference, tuple(turns)
