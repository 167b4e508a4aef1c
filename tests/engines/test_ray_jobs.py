"""
What the driver of a cluster makes of replies; Ray itself is not needed.
"""

import sys
from types import SimpleNamespace

import pytest

from parlai_ext.engines import Machine
from parlai_ext.engines.engine import Job, Place, RayEngine, Worker, _Hand, _JobRun
from parlai_ext.view.progress import bar_of


@pytest.fixture(autouse=True)
def replies_are_answers(monkeypatch):
    errors = SimpleNamespace(RayTaskError=KeyError, RayError=LookupError)
    ray = SimpleNamespace(get=lambda reply: reply, exceptions=errors)
    monkeypatch.setitem(sys.modules, 'ray', ray)


def test_a_worker_that_began_the_job_before_is_no_worker_of_this_one(tmp_path):
    # it was slow to begin; the others had done all tasks of that job by then
    place = Place('node', 'host', 0, 0.0, 1.0)
    hand = _Hand(place, None, stage='begin', has_begun=True, key='first')
    job = Job(Worker, lambda share: Worker(), 'steps', 'second')
    with bar_of('test', 1, False) as bar:
        engine = RayEngine(tmp_path, 1, 60.0, Machine())
        run = _JobRun(engine, job, (), tmp_path, bar)
        run._take(hand, None)
    assert hand.key == 'first'
