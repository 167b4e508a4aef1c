"""
Collection into a run folder: interrupted anywhere it ends the same, and no model is
loaded twice while it fits.
"""

import random
from collections import Counter
from pathlib import Path
from weakref import WeakSet

import pytest

from parlai_ext.collect.collect import BlockWorker, CollectReport, collect
from parlai_ext.collect.not_run import missing_by_pair, played_signature
from parlai_ext.core import Roster, System, options_from_opt
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
