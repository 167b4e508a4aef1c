"""
Collection into a run folder: interrupted anywhere it ends the same, no model is loaded
twice while it fits, and what systems that cannot go on leave out is written down.
"""

import random
from collections import Counter
from pathlib import Path
from unittest.mock import Mock
from weakref import WeakSet

import pytest
import torch
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.collect import not_run
from parlai_ext.collect.collect import BlockWorker, CollectReport, collect
from parlai_ext.collect.not_run import missing_by_pair, played_signature
from parlai_ext.core import Roster, System, UserError, options_from_opt
from parlai_ext.engines import Machine
from parlai_ext.store import RunFolder
from parlai_ext.systems import model_cache
from parlai_ext.systems.parlai_agents import DistantPlayer, load_on
from parlai_ext.worlds import block_player
from tests.support.plans import collected as collected_run
from tests.support.plans import open_run, says, some_openers
from tests.support.tiny_models import make_generator
from tests.support.trusted import trusted

OPENERS = some_openers(5)
SHARD = 2
OPT = {'batchsize': SHARD, 'no_cuda': True}


@pytest.fixture(scope='module')
def draws(module_folder):
    path = make_generator(module_folder, 'draws', inference='topk', topk=20)
    with trusted(path, f'{path}.opt'):  # needs no process of its own
        yield System('draws', {'model_file': path})


@pytest.fixture(scope='module')
def roster(draws):
    targets = (System('echo', {'model': 'repeat_query'}), draws, says('one'))
    return Roster(targets, (says('yes'), says('no')))


def folder_of(root, roster, batchsize=SHARD, seed=1):
    """
    Open (or extend) a bipartite run of ``roster``: 3 shards a pair, 5 dialogues.
    """
    return open_run(
        root, roster, OPENERS, SHARD, batchsize=batchsize, num_turns=6, seed=seed
    )


def collected(root, roster, opt=OPT):
    run = folder_of(root, roster, opt['batchsize'])
    return collected_run(run, options_from_opt(Machine, opt))


def test_cut_replies_are_told_once(tmp_path, roster, monkeypatch, printed):
    used = {'echo': {'cut_replies': 1200}, 'one': {'cut_replies': 0}}
    monkeypatch.setattr(BlockWorker, 'close', lambda self: used)
    collected(tmp_path, roster)
    [line] = [x for x in printed().split('\n') if 'reply_max_tokens' in x]
    assert line.startswith('echo: 1,200 replies')


def files(root):
    paths = sorted(Path(root, 'dialogues').rglob('*.jsonl'))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def test_everything_is_collected_once(tmp_path, roster):
    # 3 targets x 2 partners x 5 openers
    assert collected(tmp_path, roster) == CollectReport(30, 0)
    assert collected(tmp_path, roster) == CollectReport(0, 30)
    run = RunFolder.existing(tmp_path)
    said = [d for d in run.iter_dialogues() if d.pairing_id.startswith('echo--no-')]
    assert [d.opener_id for d in said] == [o.id for o in OPENERS]


def test_any_missing_shard_comes_back_as_it_was_also_in_larger_batches(
    tmp_path, roster
):
    collected(tmp_path / 'whole', roster)
    whole = files(tmp_path / 'whole')
    assert len(whole) == 18
    # all pairs of a target that draws nothing are one block
    opt = {**OPT, 'batchsize': 64}
    collected(tmp_path, roster, opt)
    lost = random.Random(5).sample(sorted(whole), 7)
    for name in lost:
        (tmp_path / name).unlink()
    kept = {name: (tmp_path / name).stat().st_ino for name in {*whole} - {*lost}}
    collected(tmp_path, roster, opt)
    assert files(tmp_path) == whole
    assert {name: (tmp_path / name).stat().st_ino for name in kept} == kept


def test_random_replies_depend_on_the_seed(tmp_path, draws):
    # that equal seeds draw the same is above
    said = set()
    for seed in (1, 2):
        root, roster = tmp_path / str(seed), Roster((draws,), (says('no'),))
        run = folder_of(root, roster, seed=seed)
        collect(run, options_from_opt(Machine, OPT))
        said.add(tuple(d.utterances for d in run.iter_dialogues()))
    assert len(said) == 2


def test_a_system_that_cannot_be_loaded_stops_nobody_else(tmp_path, roster):
    gone = System('gone', {'model_file': '/no/model'})
    more = Roster((*roster.targets, gone), roster.partners)
    problem = "system 'gone': model_file: there is no file /no/model"
    assert collected(tmp_path, more) == CollectReport(30, 10, (problem,))
    run = RunFolder.existing(tmp_path)
    assert missing_by_pair(run) == {('gone', 'yes'): 5, ('gone', 'no'): 5}
    # without a target it is no other protocol
    assert played_signature(run) == run.manifest.signature
    # and when it is there again, its pairs follow
    back = Roster((*roster.targets, says('gone')), more.partners)
    assert collected(tmp_path, back) == CollectReport(10, 30)


def counted(monkeypatch):
    """
    Return how often each system is loaded, and how many are there after each loading.
    """
    loads, there, at_once = Counter(), WeakSet(), []

    def load(machine, system):
        player = load_on(machine, system)
        loads[system.name] += 1
        there.add(player)
        at_once.append(len(there))
        return player

    monkeypatch.setattr(block_player, 'load_on', load)
    return loads, at_once


def test_each_system_is_loaded_once_while_all_fit(tmp_path, roster, monkeypatch):
    loads, _ = counted(monkeypatch)
    collected(tmp_path, roster)
    assert loads == dict.fromkeys(['echo', 'draws', 'one', 'yes', 'no'], 1)
    loads.clear()
    collected(tmp_path, roster)  # nothing is left to do
    assert not loads


# in batches of 64 a block has three systems, of which two are there at a time
@pytest.mark.parametrize('batchsize', [SHARD, 64])
def test_with_room_for_two_only_the_changing_one_is_loaded(
    tmp_path, roster, monkeypatch, batchsize
):
    loads, at_once = counted(monkeypatch)
    run = folder_of(tmp_path, roster, batchsize)
    monkeypatch.setattr(model_cache, 'size_on_disk', lambda system: 5)
    for kind in (model_cache.Player, DistantPlayer):
        monkeypatch.setattr(kind, 'n_bytes', 5)
    monkeypatch.setattr(block_player, 'memory_for_weights', lambda *limits: 10)
    collect(run, options_from_opt(Machine, OPT))
    # echo-yes, echo-no, draws-no, draws-yes, one-yes, one-no: the last partner stays
    assert loads == {'echo': 1, 'draws': 1, 'one': 1, 'yes': 2, 'no': 2}
    assert max(at_once) == 2  # a dropped one is gone when another one is loaded


# Systems that cannot go on in the middle of a run: their own pairs stop, nobody else's.


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
    assert collected_run(run).problems == (CUT,)
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
    assert collected_run(run).n_played == 6
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
    [problem] = collected_run(run).problems
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
