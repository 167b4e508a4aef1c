"""
Runs and packs that the tests of this folder share and do not change.
"""

import os

import pytest

from tests.support.published_runs import make_run, publish


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


@pytest.fixture(autouse=True, scope='session')
def no_fsync():
    """
    Skip fsync, which only a power cut would miss.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, 'fsync', lambda handle: None)
        yield
