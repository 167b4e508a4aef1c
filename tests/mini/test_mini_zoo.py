"""
The shipped mini zoo: its files, how ParlAI finds them, and that its judge can judge.
"""

import errno
import json
import random
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from parlai.core.build_data import modelzoo_path
from parlai.core.opt import Opt

import parlai_ext.mini
from benchmarks.mini_training.recipe import LADDER
from parlai_ext import zoo_configs
from parlai_ext.commands import plugin
from parlai_ext.core.machine import data_in
from parlai_ext.core.nouns import Question, System
from parlai_ext.mini.corruptions import HELD_OUT, Corrupted
from parlai_ext.mini.smalltalk import make_dialogue
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.systems.resolve import resolve

ZOO = Path(parlai_ext.mini.__file__).parent / 'zoo'
MODELS = sorted(path.parent.name for path in ZOO.glob('*/model'))


@pytest.fixture(scope='module')
def datapath(tmp_path_factory):
    plugin.register()
    folder = str(tmp_path_factory.mktemp('data'))
    with data_in(folder):
        yield folder


def test_all_weights_together_stay_below_twenty_megabytes():
    assert sum(one.stat().st_size for one in ZOO.rglob('*') if one.is_file()) < 20e6


@pytest.mark.parametrize('name', MODELS)
def test_a_model_is_portable_halved_and_found_by_its_zoo_name(name, datapath):
    opt = Opt.load(str(ZOO / name / 'model.opt'))
    assert not [v for v in opt.values() if isinstance(v, str) and v.startswith('/')]
    states = torch.load(ZOO / name / 'model', weights_only=True)
    assert set(states) == {'model'}  # without an optimizer
    assert {w.dtype for w in states['model'].values()} <= {torch.float16, torch.int64}
    found = Path(modelzoo_path(datapath, f'zoo:mini/{name}/model'))
    assert found.read_bytes() == (ZOO / name / 'model').read_bytes()


def test_a_damaged_copy_is_replaced(tmp_path):
    from parlai_ext.mini.zoo_hook.mini.build import download

    download.cache_clear()
    copy = tmp_path / 'models' / 'mini' / 'judge' / 'model.opt'
    copy.parent.mkdir(parents=True)
    copy.write_text('broken')
    download(str(tmp_path))
    assert copy.read_bytes() == (ZOO / 'judge' / 'model.opt').read_bytes()
    assert not list(tmp_path.rglob('.*'))  # no temporary file is left


def test_a_data_folder_of_somebody_else_is_told_with_the_way_out(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(errno.EACCES, 'Permission denied', str(tmp_path))

    monkeypatch.setattr(shutil, 'copyfile', refuse)
    monkeypatch.setenv('PARLAI_DATAPATH', str(tmp_path))
    found = resolve(System('a', {'model_file': 'zoo:mini/judge/model'}))
    assert found.status == 'missing'
    assert f'; {tmp_path} ' in found.reason and '--datapath' in found.reason


def test_every_model_of_the_roster_is_shipped():
    roster = load_protocol_file('demo').protocol.roster
    asked = {
        str(one.opt['model_file']).split('/')[1]
        for one in roster.targets + roster.partners
        if 'model_file' in one.opt
    }
    assert asked <= set(MODELS)


def test_the_planted_order_is_that_of_the_updates():
    text = zoo_configs.path('protocols', 'demo').read_text(encoding='utf-8')
    planted = yaml.safe_load(text)['reference']['Overall']
    order = sorted(planted, key=planted.get)
    assert order == sorted(LADDER, key=LADDER.get)
    # which is the order of held-out perplexity: each has less loss than the one before
    home = Path(parlai_ext.mini.__file__).parent
    trained = json.loads((home / 'zoo' / 'training.json').read_text())
    losses = [trained[name]['loss'] for name in order]
    assert all(a > b for a, b in zip(losses, losses[1:], strict=False))


def test_no_target_is_a_partner_too():
    roster = load_protocol_file('demo').protocol.roster
    files = [
        {s.opt.get('model_file') for s in side}
        for side in (roster.targets, roster.partners)
    ]
    assert not files[0] & files[1]


@pytest.fixture(scope='module')
def judge(datapath):
    from parlai_ext.models.parlai_likelihood import load_judge

    return load_judge('zoo:mini/judge/model')


@pytest.mark.parametrize('kind', sorted(HELD_OUT))
def test_the_judge_finds_unseen_corruptions_worse(kind, judge):
    # twins: the same context with its good last turn and with a spoilt one. A judge
    # that cannot tell prefers the good one in half of them; 60 coin tosses give 42 or
    # more heads once in a thousand times
    text = zoo_configs.path('followups', 'default').read_text(encoding='utf-8')
    negative = tuple(yaml.safe_load(text)['dimensions']['Overall']['negative'])
    contexts = []
    for i in range(60):
        turns = make_dialogue('test', 5, i)[:4]
        bad = HELD_OUT[kind](Corrupted(random.Random(i), turns, turns))
        start = tuple(turn.text for turn in turns[:-1])
        contexts += [(*start, turns[-1].text), (*start, bad)]
    answers = judge.answer([Question(one, negative) for one in contexts])
    fed = [-sum(sum(c) / len(c) for c in one.continuations) for one in answers]
    better = sum(good > bad for good, bad in zip(fed[::2], fed[1::2], strict=True))
    assert better >= 42
