"""
The trainer, on models too small to learn anything.
"""

import dataclasses
import json
import shutil

import pytest
import torch
from parlai.core.agents import create_agent_from_model_file

from benchmarks.mini_training.corpus import batches
from benchmarks.mini_training.recipe import JOBS, SMALL, Job
from benchmarks.mini_training.train import build_agent, learn_tokenizer, record, train

TINY = {**SMALL, 'embedding_size': 8, 'ffn_size': 8, 'n_heads': 1}
JOB = Job({'early': 1, 'late': 3}, (('judge-easy', 2), ('chat', 1)), seed=7, opt=TINY)


@pytest.fixture(scope='module')
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp('bpe')
    learn_tokenizer(folder, seed=0)
    return folder


@pytest.fixture(scope='module')
def trained(tokenizer, tmp_path_factory):
    out = tmp_path_factory.mktemp('zoo')
    return out, train(JOB, 0, str(out), str(tokenizer))


def load(out, name):
    return create_agent_from_model_file(
        str(out / name / 'model'), {'interactive_mode': True, 'datatype': 'valid'}
    )


def test_each_kept_step_is_a_model(trained):
    out, facts = trained
    assert {name: one['updates'] for name, one in facts.items()} == JOB.keep
    assert sorted(path.name for path in out.iterdir()) == ['early', 'late']


def test_a_shipped_model_is_the_trained_one_wherever_it_lies(trained, tmp_path):
    shutil.copytree(trained[0] / 'late', tmp_path / 'elsewhere')
    loaded = load(tmp_path, 'elsewhere').model.state_dict()
    shipped = torch.load(trained[0] / 'late' / 'model', weights_only=True)['model']
    assert loaded.keys() == shipped.keys()
    assert all(torch.equal(loaded[name], shipped[name].float()) for name in loaded)


def test_the_dictionary_writes_any_text(trained):
    words = load(trained[0], 'late').dict
    text = 'Zoë paid 5 € — “why?” 你好'
    assert words.vec2txt(words.txt2vec(text)) == text


def test_a_newline_between_utterances_is_one_token(trained):
    assert len(load(trained[0], 'late').dict.txt2vec('\n')) == 1


def test_same_seed_same_examples(tokenizer):
    agent = build_agent(JOB, 0, tokenizer)
    first, second = (
        [[list(one['text_vec']) for one in batch] for batch in found]
        for found in (batches(agent, 'chat', 'train', 1, 4, 3) for _ in range(2))
    )
    assert first == second and len(first) == 3


def test_the_judge_and_its_control_differ_in_lessons_only():
    jobs = {name: job for job in JOBS for name in job.keep}
    judge, control = jobs['judge'], jobs['judge-no-reactions']
    assert judge.lessons != control.lessons
    same = dataclasses.replace(control, keep=judge.keep, lessons=judge.lessons)
    assert same == judge
    assert sum(n for _, n in judge.lessons) == sum(n for _, n in control.lessons)


def test_facts_about_other_models_stay_in_the_file(tmp_path):
    path = tmp_path / 'training.json'
    record({'a': {'loss': 1.0}}, path)
    record({'b': {'loss': 2.0}}, path)
    assert json.loads(path.read_text()) == {'a': {'loss': 1.0}, 'b': {'loss': 2.0}}
