"""
Systems that cannot go on in the middle of a run: their own pairs stop, nobody else's,
and what did not run is written down.
"""

from unittest.mock import Mock
from weakref import WeakSet

import pytest
import torch
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.collect import not_run
from parlai_ext.core import Roster, System, UserError
from parlai_ext.systems import model_cache
from tests.support.plans import collected, open_run, says, some_openers


class Line(Agent):
    """
    A system behind a line that is cut once it has replied `Line.left` times.
    """

    left = 0

    def act(self):
        if type(self).left == 0:
            raise UserError('remote_url: http://127.0.0.1:9 cannot be reached')
        type(self).left -= 1
        return Message(id='line', text=f'still here {self.left}', episode_done=False)


def run_of(root, partners):
    """
    Open a bipartite run of two targets: shards of 2, 4 dialogues a pair.
    """
    roster = Roster((says('a'), says('b')), tuple(partners))
    return open_run(root, roster, some_openers(4), 2, batchsize=2, num_turns=4)


LINE = System('line', {'model': f'{__name__}:Line'})
CUT = "system 'line': remote_url: http://127.0.0.1:9 cannot be reached"


def test_a_line_cut_in_mid_run_stops_its_own_pairs_only(tmp_path, monkeypatch):
    # of a's 4 dialogues with it, 1 reply each: the first shard of 2 comes through
    monkeypatch.setattr(Line, 'left', 3)
    run = run_of(tmp_path, [LINE, says('yes')])
    assert collected(run).problems == (CUT,)
    assert not_run.missing_by_pair(run) == {('a', 'line'): 2, ('b', 'line'): 4}
    assert not_run.missing_by_target(run, run.plan) == {'a': 2, 'b': 4}
    assert not_run.not_run_notes(run) == [
        '10 of 16 planned dialogues are collected',
        f'did not run: {CUT}',
        'pairs that lack dialogues (how many): a – line (2), b – line (4)',
    ]

    # what is missing follows when the line is back
    assert 'test-incomplete-with-1-partners|' in not_run.played_signature(run)
    monkeypatch.setattr(Line, 'left', 100)
    assert collected(run).n_played == 6
    assert (not_run.not_run_notes(run), not_run.read_problems(run)) == ([], {})
    assert not_run.missing_by_target(run, run.plan) == {}
    assert not_run.played_signature(run) == run.manifest.signature


class Large(Agent):
    """
    A system that asks the CPU for more than any has, and torch's own words for that.
    """

    def act(self):
        torch.empty(10**15)


class TooLarge(Agent):
    """
    A system for whose weights a GPU has no memory.
    """

    def __init__(self, opt, shared=None):
        raise torch.OutOfMemoryError('CUDA out of memory')


@pytest.mark.parametrize(
    'kind, when', [('Large', ''), ('TooLarge', ' while it was loaded')]
)
def test_too_little_memory_stops_the_system_and_not_one_dialogue(tmp_path, kind, when):
    large = System('large', {'model': f'{__name__}:{kind}'})
    run = run_of(tmp_path, [large, says('yes')])
    [problem] = collected(run).problems
    assert problem.startswith(f"system 'large': model: out of memory{when}")
    assert not_run.missing_by_pair(run) == {('a', 'large'): 4, ('b', 'large'): 4}


def test_memory_that_runs_out_is_made_by_dropping_others():
    there = WeakSet()

    def load(system):
        if len(there) == 2:
            error = UserError(f'system {system.name!r}: it cannot be built')
            raise error from MemoryError()
        player = Mock(n_bytes=1, agent=None)
        there.add(player)
        return player

    cast = model_cache.ModelCache(load, budget=10**9)
    one, two, three = (System(name) for name in 'abc')
    assert list(cast.load_all([one])) == ['a']
    assert list(cast.load_all([two, three])) == ['b', 'c']
    assert cast.problems == {}


def test_a_given_limit_can_only_lower_the_machines_own(monkeypatch, caplog):
    monkeypatch.setattr(model_cache, 'free_memory', lambda: 10 * 10**9)
    assert model_cache.memory_for_weights(True, 2.5) == 2_500_000_000
    assert caplog.messages == []
    assert model_cache.memory_for_weights(True, 100) == 6_000_000_000
    assert caplog.messages == [
        '--max-gpu-memory: 100 GB lowered to 6.0, which is 60 % of what is free'
    ]
