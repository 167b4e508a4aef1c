"""
Writes imported dialogues as a run folder, either whole or not at all.

The folder is written beside its final place and renamed when everything is on the disk,
so that an import that is killed leaves no half-written run.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path

from parlai_ext.collect.plan import protocol_record, signed_manifest
from parlai_ext.core import (
    FEWEST_TURNS,
    IMPORTED,
    Dialogue,
    JsonObject,
    Pairing,
    Protocol,
    UserError,
    Utterance,
    chunks,
    content_id,
    utterance_json,
)
from parlai_ext.data.chat_logs import SourceDialogue
from parlai_ext.data.imported_dialogues import ImportedDialogues
from parlai_ext.isolation.policy import SCORER, note_parts
from parlai_ext.store import (
    MANIFEST,
    Manifest,
    RunFolder,
    load_manifest,
    merge_manifests,
    named_pairing,
    numbered_id,
    staged_folder,
)
from parlai_ext.view.progress import bar_of

SHARD = 64
DialoguesByPairing = dict[str, list[Dialogue]]


def group_by_pairing(
    imported: Sequence[SourceDialogue],
) -> tuple[list[Pairing], DialoguesByPairing]:
    """
    Return the pairings by name, and the dialogues of each in the order of the files.

    A dialogue keeps the id of its file; without one, its id is a hash of its content.
    """
    pairings: dict[tuple[str, str], Pairing] = {}
    by_pairing: DialoguesByPairing = defaultdict(list)
    numbers: defaultdict[frozenset[str], count[int]] = defaultdict(count)
    alike: defaultdict[str, count[int]] = defaultdict(partial(count, 1))
    for source in imported:
        names = source.names
        # of systems of which only the names are known
        digest = content_id('pairing', IMPORTED, *names)
        pairing = pairings[names] = named_pairing(*names, IMPORTED, digest)
        utterances = tuple(
            Utterance(turn.speaker, turn.text, turn.given, turn.references)
            for turn in source.turns
        )
        content = content_id(pairing.id, [utterance_json(u) for u in utterances])
        number = next(alike[content])
        name = source.id or content_id(IMPORTED, content, number)
        opener = numbered_id(next(numbers[frozenset(names)]))
        by_pairing[pairing.id].append(Dialogue(name, pairing.id, opener, utterances))
    return [pairings[names] for names in sorted(pairings)], by_pairing


def import_manifest(
    imports: ImportedDialogues,
    protocol: Protocol,
    pairings: Sequence[Pairing],
    dialogues: DialoguesByPairing,
    options: JsonObject,
) -> Manifest:
    """
    Return the manifest of the run; what is unknown is named so.
    """
    people = imports.humans
    largest = max(map(len, dialogues.values()))
    # a protocol asks for three turns at least, and imported dialogues may have two
    longest = max(FEWEST_TURNS, *(len(one.turns) for one in imports.dialogues))
    about = {**protocol_record(protocol), 'num_turns': longest}
    for unknown in ('num_dialogues', 'openers', 'seed'):
        del about[unknown]
    return signed_manifest(
        {
            'protocol': about,
            'targets': {n: {'identity': ''} for n in imports.names if n not in people},
            'partners': {name: {'identity': ''} for name in sorted(people)},
            'systems': {name: {} for name in imports.names},
            'pairings': pairings,
            'openers': [],
            'shard_size': -(-largest // -(-largest // SHARD)),  # equal shards
            'asked': dict(options),
            IMPORTED: import_record(
                imports, [d for pairing in pairings for d in dialogues[pairing.id]]
            ),
        }
    )


def import_record(
    imports: ImportedDialogues, dialogues: Sequence[Dialogue]
) -> dict[str, object]:
    """
    Return how dialogues were imported, as an `ImportRecord` reads it.
    """
    num_of_pair = Counter(frozenset(d.names) for d in imports.dialogues)
    return {
        'format': imports.format,
        'dialogues': len(dialogues),
        'content': content_id([content_id(asdict(d)) for d in dialogues]),
        'files': imports.files,
        'dialogues_a_pair': max(num_of_pair.values()),
        'left_out': imports.n_left_out,
        'bad_rows': len(imports.problems),
        'people_only': imports.n_people,
        'silent': imports.silent,
    }


def write_run(
    root: Path,
    imports: ImportedDialogues,
    protocol: Protocol,
    options: JsonObject,
) -> bool:
    """
    Write the run at ``root``, and note that its scorer is the user's. Return True if
    anything was written.

    :param protocol: its name and its scorer, ranking and seed of the intervals.
    :param options: the options of the import that are not the default.
    :raises UserError: when something else is there, or another import is at work.
    """
    pairings, dialogues = group_by_pairing(imports.dialogues)
    new = import_manifest(imports, protocol, pairings, dialogues, options)
    if (root / MANIFEST).exists():
        old = load_manifest(root)
        if old.imported is None:
            raise UserError(
                f'{root} holds a run of protocol {old.protocol.name}, not imported '
                'dialogues; use another --run-dir'
            )
        merge_manifests(old, new, root)
        run = RunFolder(root, old)
        with run.lock():  # for shards that were deleted
            run.restore_metadata()
            written = _write(run, dialogues)
    elif root.is_dir() and any(root.iterdir()):
        raise UserError(f'{root} is not empty and no run; use another --run-dir')
    else:
        with staged_folder(root) as staging:
            run = RunFolder.new(staging, new)
            written = _write(run, dialogues)
    # the options of now may name another scorer than the run has
    if run.manifest.protocol.scorer == new.protocol.scorer:
        note_parts(run.manifest, [SCORER])
    return written


def _write(run: RunFolder, dialogues: DialoguesByPairing) -> bool:
    """
    Write the missing shards. Return True if there were any.
    """
    written, size = False, run.manifest.shard_size
    total = sum(map(len, dialogues.values()))
    with bar_of('write', total, delay=1) as bar:
        for pairing in run.pairings:
            own = dialogues[pairing.id]
            for index, part in enumerate(chunks(own, size)):
                shard = run.shard(pairing.id, index)
                if not run.has_dialogues(shard):
                    run.write_dialogues(shard, part)
                    written = True
                bar.update(len(part))
    return written
