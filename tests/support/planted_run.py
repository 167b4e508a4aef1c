"""
Runs without models whose dialogues and scores are made up, pair by pair.
"""

from parlai_ext.core import Opener, Roster, Score, ScoredDialogue, System
from parlai_ext.store.manifest import ScorerRecord
from tests.support.dialogues import spoken
from tests.support.plans import open_run


def played_run(
    root,
    openers,
    targets,
    partners,
    play,
    scores,
    options=lambda name: {'model': name},
    /,
    **protocol,
):
    """
    Write a run of one file a pair.

    :param play: makes the dialogue of a pair over the n-th opener.
    :param scores: by signature, makes the scores of a dialogue of a pair over the n-th
        opener.
    :param options: those of a system by its name.
    """
    sides = (tuple(System(n, options(n)) for n in side) for side in (targets, partners))
    openers = list(openers)
    run = open_run(root, Roster(*sides), openers, len(openers), **protocol)
    for pair in run.pairings:
        shard = run.shard(pair.id, 0)
        dialogues = [play(pair, opener, n) for n, opener in enumerate(openers)]
        run.write_dialogues(shard, dialogues)
        for signature, score in scores.items():
            scored = [score(pair, one, n) for n, one in enumerate(dialogues)]
            run.scores(signature).write(shard, scored)
    return run


def planted_run(root, worth, targets, partners=(), num_openers=6, **protocol):
    """
    Return a run scored by made-up scorers.

    :param worth: by the name of a scorer, what a dialogue of the first system with the
        second over the n-th opener scores.
    """

    def scored(value):
        def scored(pair, one, n):
            number = value(pair.first, pair.second, n)
            score = Score(one.id, 2, pair.first, 'Overall', number)
            return ScoredDialogue(one.id, (score,))

        return scored

    run = played_run(
        root,
        [
            Opener.from_utterances([f'Hello {n}.', f'Hi {n}.'], 'test')
            for n in range(num_openers)
        ],
        targets,
        partners,
        lambda pair, one, n: spoken(pair, one, [*one.utterances, 'one two', 'yes']),
        {f'scorer:{name}|v:1': scored(value) for name, value in worth.items()},
        num_turns=4,
        **protocol,
    )
    for place, name in enumerate(worth):
        store = run.scores(f'scorer:{name}|v:1')
        config = {'name': name} if place else {}
        store.write_about(ScorerRecord(signature=store.signature, config=config))
    return run


def rated_run(folder, targets):
    """
    Make a run of whole dialogues in which no two utterances are the same, but for the
    openers.
    """
    pairs = []

    def play(pair, opener, n):
        pairs.extend([pair.id] * (n == 0))
        own = [f'turn {t} of {len(pairs) - 1}-{n}' for t in range(2, 6)]
        return spoken(pair, opener, [*opener.utterances, *own])

    openers = [
        Opener.from_utterances([f'opener {k}', f'reply {k}'], 'made up')
        for k in range(8)
    ]
    sides = targets, ('mary', 'hugo')
    return played_run(folder, openers, *sides, play, {}, lambda name: {}, num_turns=6)
