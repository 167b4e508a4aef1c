"""
A run of whole dialogues, each with utterances of its own, for what people are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parlai_ext.core.nouns import Dialogue, Opener, Roster, System, Utterance
from parlai_ext.store import RunFolder
from parlai_ext.worlds.schedule import dialogue_id
from tests.support.plans import open_run


def rated_run(
    folder: Path,
    targets: Sequence[str],
    partners: Sequence[str] = ('mary', 'hugo'),
    num_openers: int = 8,
    num_turns: int = 6,
) -> RunFolder:
    """
    Make a bipartite run in which no two utterances are the same, but for the openers.
    """
    openers = [
        Opener.from_utterances([f'opener {k}', f'reply {k}'], 'made up')
        for k in range(num_openers)
    ]
    roster = Roster(*(tuple(map(System, names)) for names in (targets, partners)))
    run = open_run(folder, roster, openers, num_openers, num_turns=num_turns)
    for place, pair in enumerate(run.pairings):
        dialogues = []
        for k, opener in enumerate(openers):
            turns = [*opener.utterances]
            turns += [f'turn {t} of {place}-{k}' for t in range(2, num_turns)]
            speakers = (pair.first, pair.second) * num_turns
            said = tuple(
                Utterance(speaker, text, t < 2)
                for t, (speaker, text) in enumerate(zip(speakers, turns, strict=False))
            )
            name = dialogue_id(pair.id, opener.id)
            dialogues.append(Dialogue(name, pair.id, opener.id, said))
        run.write_dialogues(pair.id, 0, dialogues)
    return run
