"""
A run of whole dialogues, each with utterances of its own, for what people are shown.
"""

from parlai_ext.core.nouns import Opener, Roster, System
from tests.support.dialogues import spoken
from tests.support.plans import open_run


def rated_run(
    folder,
    targets,
    partners=('mary', 'hugo'),
    num_openers=8,
    num_turns=6,
):
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
        dialogues = [
            spoken(
                pair,
                opener,
                [*opener.utterances]
                + [f'turn {t} of {place}-{k}' for t in range(2, num_turns)],
            )
            for k, opener in enumerate(openers)
        ]
        run.write_dialogues(run.shard(pair.id, 0), dialogues)
    return run
