"""
A scored run without models whose scores are planted pair by pair.
"""

from parlai_ext.core.nouns import (
    Opener,
    Roster,
    Score,
    ScoredDialogue,
    System,
)
from tests.support.dialogues import spoken
from tests.support.plans import open_run


def planted_run(
    root,
    worth,
    targets,
    partners=(),
    num_openers=6,
    **protocol,
):
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
        dialogues = [
            spoken(pairing, opener, [*opener.utterances, 'one two', 'yes'])
            for opener in openers
        ]
        run.write_dialogues(run.shard(pairing.id, 0), dialogues)
        names = (pairing.first, pairing.second)
        for scorer, score in worth.items():
            scored = []
            for n, one in enumerate(dialogues):
                value = score(*names, n)
                scores = (Score(one.id, 2, names[0], 'Overall', value),)
                scored.append(ScoredDialogue(one.id, scores))
            run.scores(f'scorer:{scorer}|v:1').write(run.shard(pairing.id, 0), scored)
    for scorer in worth:
        store = run.scores(f'scorer:{scorer}|v:1')
        first = scorer == next(iter(worth))
        config = {} if first else {'name': scorer}
        store.write_about({'signature': store.signature, 'config': config})
    return run
