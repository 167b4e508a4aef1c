"""
Runs and packs that the tests of this folder share and do not change.
"""

import shutil

import pytest

from parlai_ext.store import RunFolder
from tests.support.published_runs import forge_shard, make_run, publish


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
