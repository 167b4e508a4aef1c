"""
The shipped mini zoo, and the small talk that its models learnt from.
"""

import errno
import itertools
import os
import random
import re
from pathlib import Path

import pytest
import torch
import yaml
from parlai.core.build_data import modelzoo_path
from parlai.core.opt import Opt

from benchmarks.mini_training.recipe import LADDER
from parlai_ext import zoo_configs
from parlai_ext.commands import plugin
from parlai_ext.core import Question, System
from parlai_ext.engines import data_in
from parlai_ext.mini import SHIPPED
from parlai_ext.mini.smalltalk import (
    FAMILIES,
    HELD_OUT,
    LONGEST,
    SHORT,
    SHORTEST,
    TRAIN,
    Corrupted,
    as_listener_says,
    make_dialogue,
    make_reaction_example,
)
from parlai_ext.systems.identity import resolve
from tests.support.on_cpu import load_judge
from tests.support.run_python import run_python
from tests.support.written import json_in

MODELS = sorted(path.parent.name for path in SHIPPED.glob('*/model'))


def shipped(kind, name):
    return yaml.safe_load(zoo_configs.path(kind, name).read_text(encoding='utf-8'))


@pytest.fixture(scope='module')
def datapath(module_folder):
    plugin.register()
    folder = str(module_folder)
    with data_in(folder):
        yield folder


def test_all_weights_together_stay_below_twenty_megabytes():
    assert sum(one.stat().st_size for one in SHIPPED.rglob('*') if one.is_file()) < 20e6


@pytest.mark.parametrize('name', MODELS)
def test_a_model_is_portable_halved_and_found_by_its_zoo_name(name, datapath):
    opt = Opt.load(str(SHIPPED / name / 'model.opt'))
    assert not [v for v in opt.values() if isinstance(v, str) and v.startswith('/')]
    states = torch.load(SHIPPED / name / 'model', weights_only=True)
    assert set(states) == {'model'}  # without an optimizer
    assert {w.dtype for w in states['model'].values()} <= {torch.float16, torch.int64}
    found = Path(modelzoo_path(datapath, f'zoo:mini/{name}/model'))
    assert found.read_bytes() == (SHIPPED / name / 'model').read_bytes()


def test_a_damaged_copy_is_replaced(tmp_path):
    from parlai_ext.mini.zoo_hook.mini.build import download

    download.cache_clear()
    copy = tmp_path / 'models' / 'mini' / 'judge' / 'model.opt'
    copy.parent.mkdir(parents=True)
    copy.write_text('broken')
    download(str(tmp_path))
    assert copy.read_bytes() == (SHIPPED / 'judge' / 'model.opt').read_bytes()
    assert not list(tmp_path.rglob('.*'))  # no temporary file is left


def test_a_data_folder_of_somebody_else_is_told_with_the_way_out(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(errno.EACCES, 'Permission denied', str(tmp_path))

    monkeypatch.setattr(os, 'replace', refuse)
    monkeypatch.setenv('PARLAI_DATAPATH', str(tmp_path))
    found = resolve(System('a', {'model_file': 'zoo:mini/judge/model'}))
    assert found.status == 'missing'
    assert f'; {tmp_path} ' in found.reason and '--datapath' in found.reason


def test_the_planted_order_is_that_of_the_updates():
    planted = shipped('protocols', 'demo')['reference']['Overall']
    order = sorted(planted, key=planted.get)
    assert order == sorted(LADDER, key=LADDER.get)
    # which is the order of held-out perplexity: each has less loss than the one before
    trained = json_in(SHIPPED / 'training.json')
    losses = [trained[name]['loss'] for name in order]
    assert losses == sorted(losses, reverse=True)


@pytest.fixture(scope='module')
def judge(datapath):
    return load_judge('zoo:mini/judge/model')


@pytest.mark.parametrize('kind', sorted(HELD_OUT))
def test_the_judge_finds_unseen_corruptions_worse(kind, judge):
    # twins: the same context with its good last turn and with a spoilt one. A judge
    # that cannot tell prefers the good one in half of them; 60 coin tosses give 42 or
    # more heads once in a thousand times
    followups = shipped('followups', 'default')['dimensions']['Overall']
    contexts = []
    for i in range(60):
        turns = make_dialogue('test', 5, i)[:4]
        bad = HELD_OUT[kind](Corrupted(random.Random(i), turns, turns))
        start = tuple(turn.text for turn in turns[:-1])
        contexts += [(*start, turns[-1].text), (*start, bad)]
    negative = tuple(followups['negative'])
    answers = judge.answer([Question(one, negative) for one in contexts])
    fed = [-sum(sum(c) / len(c) for c in one.continuations) for one in answers]
    better = sum(good > bad for good, bad in zip(fed[::2], fed[1::2], strict=True))
    assert better >= 42


MANY = 200
DIGEST = """
import hashlib
from parlai_ext.mini.smalltalk import make_reaction_example
from parlai_ext.mini.smalltalk import make_dialogue
examples = [make_reaction_example('valid', 3, i) for i in range(50)]
told = str([[make_dialogue('valid', 3, i) for i in range(50)], examples])
print(hashlib.sha256(told.encode()).hexdigest())
"""


def sentences(pattern):
    """
    Return every sentence of a pattern.
    """
    parts = re.split(r'\[([^\]]*)\]', pattern)
    options = [part.split('|') if i % 2 else [part] for i, part in enumerate(parts)]
    return [''.join(sentence) for sentence in itertools.product(*options)]


def bare(text):
    return text.lower().rstrip('.?!')


def test_dialogues_have_six_to_twelve_turns():
    lengths = {len(make_dialogue('train', 0, i)) for i in range(MANY)}
    assert lengths == set(range(SHORTEST, LONGEST + 1))


def test_same_seed_same_talk_whatever_the_hash_seed():
    found = set()
    for hash_seed in ('1', '2'):
        env = {**os.environ, 'PYTHONHASHSEED': hash_seed}
        found.add(run_python(DIGEST, env=env).stdout)
    assert len(found) == 1 and len(found.pop().strip()) == 64


def test_folds_and_seeds_share_no_dialogue():
    talks = [
        tuple(turn.text for turn in make_dialogue(fold, seed, i))
        for fold in ('train', 'valid', 'test')
        for seed in (0, 1)
        for i in range(MANY)
    ]
    assert len(set(talks)) == len(talks)


def test_a_listener_turns_my_into_your():
    assert as_listener_says('my sister') == 'your sister'
    assert as_listener_says('it helps me relax') == 'it helps you relax'


def test_no_corruption_is_both_learned_and_held_out():
    assert not set(TRAIN) & set(HELD_OUT)


def test_only_a_spoilt_last_turn_brings_a_complaint():
    # every possible reaction, without the leads
    families = {
        name: {line for one in patterns for line in sentences(one)} | {*SHORT[name]}
        for name, patterns in FAMILIES.items()
    }
    praise = families.pop('praise')
    complaints = tuple(map(bare, set().union(*families.values()) - praise))
    for i in range(MANY):
        one = make_reaction_example('train', 0, i)
        complained = bare(one.reply).endswith(complaints)
        assert complained == (one.kind is not None), one


def test_no_shipped_follow_up_is_in_what_the_judge_learns_from():
    text = '\n'.join(
        '\n'.join((*one.context, one.reply))
        for one in (make_reaction_example('train', 2, i) for i in range(3000))
    )
    said = text.lower()
    dimensions = shipped('followups', 'default')['dimensions'].values()
    sides = [side for one in dimensions for side in one.values()]
    assert [line for side in sides for line in side if bare(line) in said] == []
