"""
Time checking, ranking and reporting of a made-up run, up to the size of a paper's.

    python -m benchmarks.paper_size [--openers 20] [--folder FOLDER]

The run is made up: 11 targets, 24 partners, dialogues of 12 utterances of random words,
5 of them with scores on 4 dimensions and 13 numbers of evidence. `--openers 600` is the
paper's own size: 158,400 dialogues, 0.9 GB, some minutes. The page's dialogues are read
twice, which counts for more in a small run. CPU seconds.
"""

import argparse
import json
import random
import resource
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.support.measures import cpu_seconds, start
from parlai_ext.collect.manifest import build_manifest
from parlai_ext.collect.resolved import ResolvedProtocol
from parlai_ext.core.nouns import (
    Dialogue,
    Opener,
    Pairing,
    Roster,
    Score,
    ScoredDialogue,
    System,
    Utterance,
)
from parlai_ext.core.protocol import Protocol
from parlai_ext.report.write import write_report
from parlai_ext.results.rank import rank_run
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder
from parlai_ext.store.lines import decode, encode
from parlai_ext.worlds.schedule import dialogue_id, pairings, shards

SHARD = 64
SIGNATURE = 'scorer:made-up'
DIMENSIONS = ('Fluency', 'Specificity', 'Sensibleness', 'Overall')
FOLLOWUPS = 13


def random_text(rng: random.Random) -> str:
    """
    Return an utterance of random words.
    """
    letters = 'etaoinshrdlu'
    sizes = [rng.randint(1, 9) for _ in range(rng.randint(6, 24))]
    return ' '.join(''.join(rng.choices(letters, k=size)) for size in sizes)


def random_dialogue(rng: random.Random, pair: Pairing, opener: Opener) -> Dialogue:
    """
    Return a dialogue of twelve utterances.
    """
    names = (pair.first, pair.second) * 6
    texts = [*opener.utterances, *(random_text(rng) for _ in range(10))]
    turns = tuple(Utterance(names[i], text, i < 2) for i, text in enumerate(texts))
    return Dialogue(dialogue_id(pair.id, opener.id), pair.id, opener.id, turns)


def random_scores(rng: random.Random, dialogue: Dialogue) -> ScoredDialogue:
    """
    Return scores of the first speaker's own utterances.
    """
    places = range(2, 12, 2)
    scores = tuple(
        Score(dialogue.id, i, dialogue.utterances[i].speaker, d, rng.gauss(25, 3))
        for i in places
        for d in DIMENSIONS
    )
    evidence = {i: tuple(rng.gauss(-8, 1) for _ in range(FOLLOWUPS)) for i in places}
    return ScoredDialogue(dialogue.id, scores, evidence)


def make_run(root: Path, num_openers: int) -> RunFolder:
    """
    Write a scored run of the paper's roster.
    """
    rng = random.Random(0)
    roster = Roster(
        tuple(System(f'target-{i}') for i in range(11)),
        tuple(System(f'partner-{i}') for i in range(24)),
    )
    names = {s.name: s.name for s in roster.targets + roster.partners}
    protocol = Protocol('made-up', num_dialogues=num_openers, roster=roster)
    openers = [
        Opener.from_utterances([random_text(rng), random_text(rng)], str(i))
        for i in range(num_openers)
    ]
    pairs = pairings(roster, 'bipartite', names)
    size = min(SHARD, num_openers)
    manifest = build_manifest(ResolvedProtocol(protocol, names), pairs, openers, size)
    run = RunFolder.open(root, manifest)
    for pair in pairs:
        for key in shards(pair.id, num_openers, size):
            dialogues = [
                random_dialogue(rng, pair, o) for o in openers[key.start : key.stop]
            ]
            run.write_dialogues(key, dialogues)
            scored = [random_scores(rng, one) for one in dialogues]
            run.scores(SIGNATURE).write(key, scored)
    return run


def lines_of(run: RunFolder, kind: str) -> Iterator[bytes]:
    """
    Yield the lines of the first shards.
    """
    for path in sorted((run.root / kind).rglob('*.jsonl'))[:40]:
        yield from path.read_bytes().split(b'\n')[:-1]


def print_line_costs(run: RunFolder) -> None:
    """
    Print the cost of checking a line, of reading its JSON alone and of writing it.
    """
    for kind in ('dialogues', 'scores'):
        lines = list(lines_of(run, kind))
        records = [decode(line) for line in lines]
        jobs = {
            'read as JSON': (json.loads, lines),
            'read and checked': (decode, lines),
            'written': (encode, records),
        }
        each = {
            name: min(cpu_seconds(partial(list, map(job, of))) for _ in range(3))
            for name, (job, of) in jobs.items()
        }
        print(
            f'a line of {kind}: '
            + ', '.join(f'{n} {1e6 * s / len(lines):.0f} us' for n, s in each.items())
            + f'; checked / JSON {each["read and checked"] / each["read as JSON"]:.2f}'
        )


def main(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(args.folder or Path(folder) / 'run', args.openers)
        n = len(run.pairings) * args.openers
        print(f'{n:,} dialogues')
        print_line_costs(run)
        rankings: list[Ranking] = []
        rank = cpu_seconds(lambda: rankings.append(rank_run(run, SIGNATURE)))
        report = cpu_seconds(lambda: write_report(run, rankings[0]))
        for name, spent in (('rank', rank), ('report', report)):
            print(f'{name}: {spent:.1f} s, {1e6 * spent / n:.0f} us a dialogue')
        page = (run.root / 'report.html').stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f'report.html {page / 1e6:.2f} MB; peak memory {peak:.0f} MiB')


if __name__ == '__main__':
    start(main, __doc__, openers=20, folder=Path)
