"""
A small run without models: what each system says is a function of the opener.
"""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parlai_ext.core.nouns import (
    Dialogue,
    Opener,
    Pairing,
    Roster,
    Score,
    ScoredDialogue,
    System,
    Utterance,
    content_id,
)
from parlai_ext.store import RunFolder
from parlai_ext.store.manifest import Manifest, read_manifest
from parlai_ext.worlds.schedule import blocks, dialogue_id, pairings

PARTNERS = ('p1', 'p2')
OPENERS = tuple(
    Opener.from_utterances([f'hello {n}', f'hi {n}'], 'sample') for n in range(3)
)
SHARD_SIZE = 2
SIGNATURE = 'length|v:1'


def sample_manifest(
    targets: Iterable[str] = ('a', 'b'),
    partners: Iterable[str] = PARTNERS,
    **collect: Any,
) -> Manifest:
    """
    Return the manifest of a bipartite run of these targets.
    """
    targets, partners = list(targets), list(partners)
    roster = Roster(tuple(map(System, targets)), tuple(map(System, partners)))
    identities = {name: content_id(name) for name in (*targets, *partners)}
    settings = {'pairing': 'bipartite', 'openers': 'sample', 'num_dialogues': 3}
    settings |= {'num_turns': 5, 'seed': 0}
    settings |= {key: collect[key] for key in settings if key in collect}
    data = {
        'protocol': {'name': 'sample', **settings},
        'collect': {**settings, **collect},
        'score': {'scorer': 'length'},
        'targets': {name: {'identity': identities[name]} for name in targets},
        'partners': {name: {'identity': identities[name]} for name in partners},
        'pairings': [asdict(one) for one in pairings(roster, 'bipartite', identities)],
        'openers': [asdict(one) for one in OPENERS],
        'systems': {name: {} for name in (*targets, *partners)},
        'shard_size': SHARD_SIZE,
        'batchsize': 64,
        'versions': {'parlai_ext': '0.1.0'},
        'signature': 'sample',
    }
    return read_manifest(data)


def sample_dialogue(pairing: Pairing, opener: Opener) -> Dialogue:
    """
    Return a dialogue of five utterances.
    """
    said = [Utterance(pairing.first, opener.utterances[0], True)]
    said += [Utterance(pairing.second, opener.utterances[1], True)]
    for turn, speaker in enumerate((pairing.first, pairing.second, pairing.first)):
        said.append(Utterance(speaker, f'{speaker} says {turn} to {opener.id}'))
    return Dialogue(
        dialogue_id(pairing.id, opener.id), pairing.id, opener.id, tuple(said)
    )


def sample_scores(dialogue: Dialogue) -> ScoredDialogue:
    """
    Return scores with fractions that binary floats do not hold exactly.
    """
    scores = [
        Score(dialogue.id, at, one.speaker, 'length', len(one.text) / 7)
        for at, one in enumerate(dialogue.utterances)
        if not one.given
    ]
    scores.append(Score(dialogue.id, None, 'a', 'length', None, 'not judged'))
    evidence = {12: (-0.1, None), 3: (1 / 3, 5e-324)}
    return ScoredDialogue(dialogue.id, tuple(scores), evidence)


def play(run: RunFolder) -> None:
    """
    Collect and score what is missing, as the commands do.
    """
    pairing_of = {one.id: one for one in run.pairings}
    scores = run.scores(SIGNATURE)
    for block in blocks(run.pairings, len(run.openers), 4, lambda _: False, SHARD_SIZE):
        for shard in block.shards:
            where = shard.pairing_id, shard.index
            if not run.has_dialogues(*where):
                over = run.openers[shard.start : shard.stop]
                pairing = pairing_of[shard.pairing_id]
                run.write_dialogues(*where, [sample_dialogue(pairing, o) for o in over])
    for shard in run.dialogue_shards():
        where = shard.pairing_id, shard.index
        if not scores.has(*where):
            scores.write(*where, [sample_scores(d) for d in run.read_dialogues(*where)])
    run.write_json('ranking.json', {'n': len(list(run.iter_dialogues()))})


def whole_run(root: Path, partners: Iterable[str] = PARTNERS) -> None:
    """
    A run of one target, extended by a second.
    """
    for targets in (['a'], ['a', 'b']):
        run = RunFolder.open(root, sample_manifest(targets, partners))
        with run.lock():
            play(run)


def files_under(root: Path) -> dict[str, bytes]:
    """
    Return every file under a folder by its name.
    """
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob('*'))
        if path.is_file()
    }
