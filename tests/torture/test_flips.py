"""
The part that damages files holds on the real commands and notices a planted bug.
"""

import random

from parlai_ext.store import ScorerRecord, ScoreStore
from torture.disturbed import Flips


def failures(trials, numbers):
    made = (trials.trial(number, random.Random(number)) for number in numbers)
    return [problem for problem in made if problem]


def test_every_damage_is_named_or_mended(tmp_path):
    assert failures(Flips(tmp_path), range(0, 10_000, 999)) == []


def test_a_reader_that_overlooks_damage_is_counted(tmp_path, monkeypatch):
    def trusting(store):
        try:
            return about(store)
        except Exception:
            return ScorerRecord(config={'name': 'length'})

    about = ScoreStore.about
    trials = Flips(tmp_path)
    monkeypatch.setattr(ScoreStore, 'about', trusting)
    trials.names = [name for name in trials.names if name.endswith('/scorer.json')]
    lines = failures(trials, range(8))
    assert lines and all('scorer.json' in line for line in lines)
