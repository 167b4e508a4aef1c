"""
The shipped mini zoo, the small talk that its models learnt from, and their trainer.
"""

import dataclasses
import errno
import itertools
import os
import random
import re
from pathlib import Path

import pytest
import torch
import yaml
from parlai.core.agents import create_agent_from_model_file
from parlai.core.build_data import modelzoo_path
from parlai.core.opt import Opt

from benchmarks.mini_training.corpus import batches
from benchmarks.mini_training.recipe import JOBS, LADDER, SMALL, Job
from benchmarks.mini_training.train import build_agent, learn_tokenizer, train
from parlai_ext import zoo_configs
from parlai_ext.agents.mini_floor.mini_floor import MiniFloorAgent
from parlai_ext.commands import plugin
from parlai_ext.core import Question, System
from parlai_ext.engines import data_in
from parlai_ext.mini import SHIPPED
from parlai_ext.mini.smalltalk import (
    FAMILIES,
    GENERIC,
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
from tests.support.talk import answers
from tests.support.written import json_in
from tests.systems.test_task_data import teacher

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


# ---- The trainer, on models too small to learn anything; the task and the floors of
# the demo.

TINY = {**SMALL, 'embedding_size': 8, 'ffn_size': 8, 'n_heads': 1}
JOB = Job({'early': 1, 'late': 3}, (('judge-easy', 2), ('chat', 1)), seed=7, opt=TINY)


@pytest.fixture(scope='module')
def tokenizer(module_folder):
    folder = module_folder / 'bpe'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('benchmarks.mini_training.train.TOKENIZER_DIALOGUES', 60)
        learn_tokenizer(folder, seed=0)
    return folder


@pytest.fixture(scope='module')
def trained(tokenizer, module_folder):
    out = module_folder / 'zoo'
    return out, train(JOB, 0, str(out), str(tokenizer))


def load(out, name):
    return create_agent_from_model_file(
        str(out / name / 'model'), {'interactive_mode': True, 'datatype': 'valid'}
    )


def test_each_kept_step_is_a_model(trained):
    out, facts = trained
    assert {name: one['updates'] for name, one in facts.items()} == JOB.keep
    assert sorted(path.name for path in out.iterdir()) == ['early', 'late']


def test_the_dictionary_writes_any_text(trained):
    words = load(trained[0], 'late').dict
    text = 'Zoë paid 5 € — “why?” 你好'
    assert words.vec2txt(words.txt2vec(text)) == text
    assert len(words.txt2vec('\n')) == 1  # as between utterances


def test_same_seed_same_examples(tokenizer):
    agent = build_agent(JOB, 0, tokenizer)
    first, second = (list(batches(agent, 'chat', 'train', 1, 4, 3)) for _ in range(2))
    assert str(first) == str(second) and len(first) == 3


def test_the_judge_and_its_control_differ_in_lessons_only():
    jobs = {name: job for job in JOBS for name in job.keep}
    judge, control = jobs['judge'], jobs['judge-no-reactions']
    assert judge.lessons != control.lessons
    same = dataclasses.replace(control, keep=judge.keep, lessons=judge.lessons)
    assert same == judge
    assert sum(n for _, n in judge.lessons) == sum(n for _, n in control.lessons)


TASK = 'parlai_ext.tasks.smalltalk.agents'


def smalltalk(**more):
    return teacher(TASK, datatype='valid', smalltalk_dialogues=5, **more)


def floor(kind):
    return MiniFloorAgent(Opt({'floor_kind': kind}))


def test_the_first_act_is_the_opening_pair():
    act = smalltalk().act()
    turns = make_dialogue('valid', 0, 0)
    assert act['text'] == turns[0].text
    assert act['eval_labels'] == (turns[1].text,)
    assert smalltalk(smalltalk_seed=1).act()['text'] != act['text']


def test_a_dialogue_is_an_episode_and_reactions_come_after_a_whole_one():
    one = smalltalk(smalltalk_reactions=True)
    assert one.num_examples() == smalltalk().num_episodes() == 5


@pytest.mark.parametrize('kind', ['generic_reply', 'word_salad'])
def test_a_floor_depends_on_what_it_heard_only(kind):
    lines = ['Hi!', 'Do you like tea?', 'Why?']
    before, other = floor(kind), floor(kind)
    answers(other, ['Something else.'])
    clone = other.clone()
    other.reset()
    assert answers(before, lines) == answers(other, lines) == answers(clone, lines)


def test_the_generic_floor_says_generic_things():
    assert set(answers(floor('generic_reply'), ['Hi!', 'Oh?', 'No.'])) <= set(GENERIC)
