"""
The part that damages files holds on the real commands and notices a planted bug.
"""

import pytest

from parlai_ext.store.folder import ScoreStore
from parlai_ext.store.manifest import ScorerRecord
from torture import flips
from torture.figure import Settings, try_all


def tried(settings):
    with flips.flips(settings) as (count, trial):
        return try_all('flips', '', count, trial, settings)


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path, share=0.001, progress=False)


def test_every_damage_is_named_or_mended(settings):
    figure = tried(settings)
    assert figure.failures == () and figure.held == figure.tried == 10


def test_a_reader_that_overlooks_damage_is_counted(settings, monkeypatch):
    def trusting(store):
        try:
            return about(store)
        except Exception:
            return ScorerRecord(config={'name': 'length'})

    about = ScoreStore.about
    monkeypatch.setattr(ScoreStore, 'about', trusting)
    monkeypatch.setattr(flips, 'TRIALS', 60)
    names = []
    damage = flips.damage

    def only_scorer_files(data, rng):
        names.append(data)
        return damage(data, rng) if b'evidence_labels' in data[:300] else data

    monkeypatch.setattr(flips, 'damage', only_scorer_files)
    figure = tried(Settings(settings.folder, share=1.0, progress=False))
    assert figure.held < figure.tried
    assert all('scorer.json' in line for line in figure.failures)
