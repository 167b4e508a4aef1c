"""
Runs and packs that the tests of this folder share and do not change.
"""

import fnmatch
import shutil

import pytest

from parlai_ext.store import RunFolder
from tests.support.published_runs import (
    files_in,
    forge_json,
    forge_shard,
    import_chats,
    make_run,
    publish,
    write_forged,
)


@pytest.fixture(scope='session')
def runs(tmp_path_factory):
    """
    Runs of one target each and one run of both, made apart.
    """
    folder = tmp_path_factory.mktemp('runs')
    names = {
        'generic': ['generic'],
        'talker': ['talker'],
        'both': ['generic', 'talker'],
    }
    return {name: make_run(folder / name, targets) for name, targets in names.items()}


@pytest.fixture(scope='session')
def packs(runs, tmp_path_factory):
    """
    The packs of these runs.
    """
    folder = tmp_path_factory.mktemp('packs')
    return {
        name: publish(run, folder / f'{name}.zip').path for name, run in runs.items()
    }


@pytest.fixture(scope='session')
def imported(tmp_path_factory):
    """
    The pack of imported chats of a person: 60 with one system, 2 with another.
    """
    folder = tmp_path_factory.mktemp('imported')
    rows = [
        f'{name} {n},{speaker},{text}'
        for name, size in (('ours', 60), ('theirs', 2))
        for n in range(size)
        for speaker, text in (('me', 'Hello.'), (name, f'Hi {n}.'), ('me', 'And?'))
    ]
    run = import_chats(folder, rows)
    return publish(run, folder / 'imported.zip').path


@pytest.fixture
def copy_of(runs, tmp_path):
    """
    Return a function that copies a run, for a test that changes it.
    """

    def copy_of(name, change=None, shard='scores/*/talker*/00000.jsonl'):
        root = shutil.copytree(runs[name].root, tmp_path / f'copy of {name}')
        if change is not None:
            path = next(root.glob(shard))
            path.write_bytes(forge_shard(path.read_bytes(), change))
        return RunFolder.existing(root)

    return copy_of


@pytest.fixture
def published(tmp_path):
    """
    Return a function that publishes a run and returns the path of the pack.
    """
    return lambda run, **about: publish(run, tmp_path / 'p.zip', **about).path


@pytest.fixture
def forged(packs, tmp_path):
    """
    Return a function that writes a pack with a change in the first file that fits a
    pattern, its checksum and those of the index made anew.
    """

    def forged(pattern, change, pack='both'):
        files = files_in(packs[pack])
        name = min(fnmatch.filter(files, pattern))
        forge = forge_shard if 'jsonl' in name else forge_json
        files[name] = forge(files[name], change)
        return write_forged(tmp_path / 'p.zip', files)

    return forged
