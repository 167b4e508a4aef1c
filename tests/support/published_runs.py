"""
Small runs without a model, and packs of them that somebody tampers with.
"""

import json
import zipfile
from dataclasses import asdict
from pathlib import Path

from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.packs.check_pack import Checker
from parlai_ext.packs.pack import INDEX, describe_member, zip_bytes
from parlai_ext.packs.publish import publish_run
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.store import RunFolder, dumps, encode_shard
from parlai_ext.store.disk import checksum, decode_shard
from tests.collect.test_preflight import protocol
from tests.support.on_cpu import CPU
from tests.support.written import written

FLOOR = 'parlai_ext.agents.mini_floor.mini_floor:MiniFloorAgent'
SYSTEMS = {
    'generic': {'model': FLOOR, 'floor_kind': 'generic_reply'},
    'salad': {'model': FLOOR, 'floor_kind': 'word_salad'},
    'talker': {'model': 'tests.support.trial_agents:Talker'},
    'echo': {'model': FLOOR, 'floor_kind': 'word_salad'},
    'calm': {'model': FLOOR, 'floor_kind': 'generic_reply'},
}
PARTNERS = ('echo', 'calm')


def protocol_file(folder, targets, systems=None, **changed):
    """
    Write a protocol of these targets and return its path.
    """
    known = SYSTEMS | (systems or {})
    sides = [
        [{'name': name, 'opt': known[name]} for name in names]
        for names in (targets, PARTNERS)
    ]
    keys = {'name': 'tiny', 'num_dialogues': 5, 'num_turns': 5}
    keys |= {'scorer': {'name': 'length'}, 'ranking': {'bootstraps': 50}, **changed}
    folder.mkdir(parents=True, exist_ok=True)
    return protocol(folder, *sides, **keys)['config']


def make_run(root, targets, batchsize=2, flags=None, **changed):
    """
    Collect, score and rank a run of these targets.

    :param flags: more options of the command.
    :param changed: keys of the protocol.
    """
    config = protocol_file(root.parent / f'{root.name}_config', targets, **changed)
    EvaluateSystems.main(
        config=config,
        run_dir=root,
        check_sample=0,
        batchsize=batchsize,
        no_cuda=True,
        **(flags or {}),
    )
    return RunFolder.existing(root)


def import_chats(folder, rows):
    """
    Import rows of dialogue, speaker and text, in which ``me`` is a person, score them
    by their length and return the run.
    """
    chats = '\n'.join(['dialogue_id,speaker,text', *rows])
    ImportDialogues.main(
        dialogues=[written(folder, 'chats.csv', chats)],
        run_dir=folder / 'run',
        scorer='length',
        humans='me',
    )
    ScoreDialogues.main(run_dir=folder / 'run', check_sample=0)
    return RunFolder.existing(folder / 'run')


def checker_of(folder, targets, **changed):
    """
    Return somebody who has these targets, the partners and the scorer.
    """
    config = protocol_file(folder / 'mine', targets, **changed)
    return Checker(CPU, load_protocol_file(config).protocol)


def publish(run, path, **options):
    """
    Publish a run.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return publish_run(run, path, **options)


def files_in(pack):
    """
    Return the bytes of every file of a pack by its name.
    """
    with zipfile.ZipFile(pack) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_forged(path, files, honest=False):
    """
    Write files as a pack.

    :param honest: leave the checksums of the index as they are; otherwise they are made
        anew, as a forger would.
    """
    files = dict(files)
    if not honest:
        index = json.loads(files[INDEX])
        index['members'] = {
            name: asdict(describe_member(data))
            for name, data in files.items()
            if name != INDEX
        }
        files[INDEX] = (dumps(index, indent=1, sort_keys=True) + '\n').encode()
    path.write_bytes(zip_bytes(files))
    return path


def forge_json(data, change):
    """
    Return a file of JSON with a change, its checksum made anew.
    """
    record = json.loads(data)
    change(record)
    if 'checksum' in record:
        record['checksum'] = checksum(record)
    return (dumps(record, indent=1) + '\n').encode()


def forge_shard(data, change):
    """
    Return a shard with a change, the checksum of its lines made anew.
    """
    records = decode_shard(data, 0, Path('shard'))
    change(records)
    return encode_shard(records, 0)
