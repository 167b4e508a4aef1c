"""
A scored run without models whose scores are planted pair by pair.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from parlai_ext.core.nouns import (
    Dialogue,
    Opener,
    Roster,
    Score,
    ScoredDialogue,
    System,
    Utterance,
)
from parlai_ext.store import RunFolder
from parlai_ext.worlds.schedule import dialogue_id
from tests.support.plans import open_run

Worth = Callable[[str, str, int], float]


def planted_run(
    root: Path,
    worth: Mapping[str, Worth],
    targets: Sequence[str],
    partners: Sequence[str] = (),
    num_openers: int = 6,
    **protocol: Any,
) -> RunFolder:
    """
    Return a run scored by made-up scorers.

    :param worth: by the name of a scorer, what a dialogue of the first system with the
        second over the n-th opener scores.
    """
    openers = [
        Opener.from_utterances([f'Hello {n}.', f'Hi {n}.'], 'test')
        for n in range(num_openers)
    ]
    roster = Roster(
        tuple(System(name, {'model': name}) for name in targets),
        tuple(System(name, {'model': name}) for name in partners),
    )
    run = open_run(root, roster, openers, num_openers, num_turns=4, **protocol)
    for pairing in run.pairings:
        speakers = (pairing.first, pairing.second)
        dialogues = [
            Dialogue(
                dialogue_id(pairing.id, opener.id),
                pairing.id,
                opener.id,
                tuple(
                    Utterance(speakers[i % 2], text, i < 2)
                    for i, text in enumerate([*opener.utterances, 'one two', 'yes'])
                ),
            )
            for opener in openers
        ]
        run.write_dialogues(pairing.id, 0, dialogues)
        for scorer, score in worth.items():
            scored = [
                ScoredDialogue(
                    dialogue.id,
                    (
                        Score(
                            dialogue.id, 2, speakers[0], 'Overall', score(*speakers, n)
                        ),
                    ),
                )
                for n, dialogue in enumerate(dialogues)
            ]
            run.scores(f'scorer:{scorer}|v:1').write(pairing.id, 0, scored)
    for scorer in worth:
        store = run.scores(f'scorer:{scorer}|v:1')
        first = scorer == next(iter(worth))
        config = {} if first else {'name': scorer}
        store.write_about({'signature': store.signature, 'config': config})
    return run
