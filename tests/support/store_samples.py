"""
A small run without models: what each system says is a function of the opener.
"""

from parlai_ext.core import Opener, Roster, Score, ScoredDialogue, System, content_id
from parlai_ext.store import RunFolder, pairings, read_manifest, sealed_text
from tests.support.dialogues import spoken

PARTNERS = ('p1', 'p2')
OPENERS = tuple(
    Opener.from_utterances([f'hello {n}', f'hi {n}'], 'sample') for n in range(3)
)
SHARD_SIZE = 2
SIGNATURE = 'length|v:1'


def sample_manifest(targets=('a', 'b'), partners=PARTNERS, **changed):
    """
    Return the manifest of a bipartite run of these targets.

    :param changed: other settings; what the protocol has not is of the first partner.
    """
    targets, partners = list(targets), list(partners)
    roster = Roster(tuple(map(System, targets)), tuple(map(System, partners)))
    identities = {name: content_id(name) for name in (*targets, *partners)}
    settings = {'pairing': 'bipartite', 'openers': 'sample', 'num_dialogues': 3}
    settings |= {'num_turns': 5, 'seed': 0, 'scorer': {'name': 'length'}}
    of_partner = {key: value for key, value in changed.items() if key not in settings}
    protocol = {'name': 'sample', **settings, **changed}
    data = {
        'protocol': {k: v for k, v in protocol.items() if k not in of_partner},
        'targets': {name: {'identity': identities[name]} for name in targets},
        'partners': {name: {'identity': identities[name]} for name in partners},
        'pairings': pairings(roster, 'bipartite', identities),
        'openers': OPENERS,
        'systems': {name: {} for name in (*targets, *partners)},
        'shard_size': SHARD_SIZE,
        'batchsize': 64,
        'versions': {'parlai_ext': '0.1.0'},
        'signature': 'sample',
    }
    if of_partner:
        data['partners'][partners[0]]['options'] = of_partner
    return read_manifest(data)


def save(folder, data):
    (folder / 'manifest.json').write_text(sealed_text(data))


def sample_run(folder, *targets, **changed):
    """
    Open the folder of such a run.
    """
    return RunFolder.open(folder, sample_manifest(*targets, **changed))


def first_shard(run, place=0):
    """
    Return a shard of the first pairing.
    """
    return run.shard(run.pairings[0].id, place)


def sample_dialogue(pairing, opener):
    """
    Return a dialogue of five utterances.
    """
    names = (pairing.first, pairing.second, pairing.first)
    said = [f'{name} says {turn} to {opener.id}' for turn, name in enumerate(names)]
    return spoken(pairing, opener, [*opener.utterances, *said])


def sample_scores(dialogue):
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


def play(run):
    """
    Collect and score what is missing, as the commands do.
    """
    scores = run.scores(SIGNATURE)
    for pairing in run.pairings:
        for shard in run.planned_shards(pairing.id):
            if not run.has_dialogues(shard):
                over = run.openers[shard.start : shard.stop]
                run.write_dialogues(shard, [sample_dialogue(pairing, o) for o in over])
    for shard in run.dialogue_shards():
        if not scores.has(shard):
            scores.write(shard, [sample_scores(d) for d in run.read_dialogues(shard)])
    run.write_json('ranking.json', {'n': len(list(run.iter_dialogues()))})


def whole_run(root, partners=PARTNERS):
    """
    A run of one target, extended by a second.
    """
    for targets in (['a'], ['a', 'b']):
        run = sample_run(root, targets, partners)
        with run.lock():
            play(run)


def write_files(root, files):
    """
    Write files by their names under a folder.
    """
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def files_under(root):
    """
    Return every file under a folder by its name.
    """
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob('*'))
        if path.is_file()
    }
