"""
The trainer, on models too small to learn anything; the task and the floors of the demo.
"""

import dataclasses

import pytest
from parlai.core.agents import create_agent_from_model_file
from parlai.core.opt import Opt

from benchmarks.mini_training.corpus import batches
from benchmarks.mini_training.recipe import JOBS, SMALL, Job
from benchmarks.mini_training.train import build_agent, learn_tokenizer, train
from parlai_ext.agents.mini_floor.mini_floor import MiniFloorAgent
from parlai_ext.mini.smalltalk import GENERIC, make_dialogue
from tests.support.talk import answers
from tests.systems.test_openers_task import teacher

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
