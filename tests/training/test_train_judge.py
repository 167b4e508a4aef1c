"""
Training a judge: what a step learns from, what is written, and that a training which
was interrupted ends as one that was not.
"""

import math
import random
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
)

from parlai_ext.commands.train_judge import TrainJudge
from parlai_ext.scoring.llm_judges import (
    CARD,
    JudgedResponse,
    LabelTokens,
    PairEval,
    pair_template,
)
from parlai_ext.training import trainings
from parlai_ext.training.options import JudgeTrainingOptions
from parlai_ext.training.pairs import ResponsePair, pair_accuracies
from parlai_ext.training.trainings import STATE, train_judge
from tests.support.causal_models import SIZES
from tests.support.family_hf import make_tokenizer
from tests.support.interrupted import interrupted
from tests.support.on_cpu import models_on_cpu
from tests.support.planted_labels import FRAME
from tests.support.user_error import user_error
from tests.support.written import json_in, written

pytest.importorskip('peft')
TOPICS = [('tea', 'cup'), ('rain', 'coat'), ('book', 'page'), ('boat', 'sail')]
FAST = {
    'learning_rate': 1e-2,
    'lora_modules': 'all-linear',
    'lora_alpha': 32,
    'context_turns': 1,
}


def make_pairs(number, seed=0):
    """
    Return pairs whose good response answers its context's topic and whose bad one
    answers another topic.
    """
    rng = random.Random(seed)
    pairs = []
    for _ in range(number):
        (asked, right), (other, _), (_, wrong) = rng.sample(TOPICS, 3)
        good = JudgedResponse((asked,), right)
        bad = JudgedResponse((other,), wrong)
        pairs.append(ResponsePair(good, bad, 'random'))
    return pairs


def make_easy_pairs(number, seed=0):
    """
    Return pairs whose good responses are other words than the bad ones, whatever the
    context is: what two layers with random weights can learn.
    """
    rng = random.Random(seed)

    def candidate(words):
        return JudgedResponse((rng.choice(['tea', 'rain', 'boat']),), rng.choice(words))

    return [
        ResponsePair(candidate(['cup', 'page']), candidate(['coat', 'sail']), 'random')
        for _ in range(number)
    ]


@pytest.fixture(scope='module')
def base(module_folder):
    """
    Return the folder of a tiny model with random weights.
    """
    tokenizer = make_tokenizer([*FRAME.split(), *(w for pair in TOPICS for w in pair)])
    tokenizer.save_pretrained(module_folder)
    torch.manual_seed(0)
    wide = {'hidden_size': 64, 'num_key_value_heads': 4, 'initializer_range': 0.1}
    config = LlamaConfig(**{**SIZES, **wide, 'vocab_size': len(tokenizer)})
    LlamaForCausalLM(config).save_pretrained(module_folder)
    return str(module_folder)


def options_of(**values):
    return JudgeTrainingOptions(**{**FAST, **values})


def train(base, out, pairs, **values):
    return train_judge(base, pairs, Path(out), options_of(**values), no_cuda=True)


@pytest.mark.parametrize('method', ['paireval', 'directeval'])
def test_the_loss_is_that_of_the_labels_alone(base, tmp_path, method):
    # new LoRA matrices change nothing: the first loss is the base model's
    pairs = make_pairs(8)
    result = train(base, tmp_path / 'out', pairs, method=method, tokens_per_pass=90)
    model = AutoModelForCausalLM.from_pretrained(base).eval()
    tokens = LabelTokens(AutoTokenizer.from_pretrained(base))
    losses = []  # one prompt after the other
    for place, pair in enumerate(pairs):
        for prompt, right in trainings.label_prompts(
            pair, place, options_of(method=method)
        ):
            ids = torch.tensor([tokens.prompt_ids(prompt)])
            with torch.no_grad():
                logits = model(ids).logits[0, -1]
            label = tokens.label_ids(prompt.labels)[right]
            losses.append(-float(logits.log_softmax(-1)[label]))
    assert result.losses[0] == pytest.approx(np.mean(losses), rel=1e-4)


def test_both_orders_are_drawn_and_the_label_says_where_the_good_response_is():
    right = []
    for place, pair in enumerate(make_pairs(200)):
        [(prompt, label)] = trainings.label_prompts(pair, place, options_of())
        shown = f'Response {"AB"[label]}\nQ: {pair.good.response}'
        assert shown in prompt.question
        right.append(label)
    assert abs(sum(right) - 100) < 35


def test_a_prompt_of_a_file_is_learnt(base, tmp_path):
    path = tmp_path / 'prompt.txt'
    path.write_text('{history_1} {response_1} {history_2} {response_2} Answer:\n')
    [pair] = make_pairs(1)
    tokens = LabelTokens(AutoTokenizer.from_pretrained(base))
    template = pair_template(str(path))
    [[example]], _ = trainings.make_groups([pair], tokens, options_of(), template)
    [good, bad] = (f'{one.context[0]} {one.response}' for one in (pair.good, pair.bad))
    expected = {
        (*tokens.lead, *tokens.tokenizer.encode(text, add_special_tokens=False))
        for text in (f'{good} {bad} Answer:', f'{bad} {good} Answer:')
    }
    assert example.ids in expected


def test_the_merged_judge_answers_as_the_trained_one(base, tmp_path):
    train(base, tmp_path, make_pairs(64))
    from peft import PeftModel

    ids = torch.tensor([[5, 6, 7, 8]])
    model = AutoModelForCausalLM.from_pretrained(base).eval()
    merged = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        before = model(ids).logits
        adapted = PeftModel.from_pretrained(model, tmp_path / 'adapter').eval()
        expected = adapted(ids).logits
        assert torch.allclose(merged(ids).logits, expected, atol=1e-4)
        assert not torch.allclose(expected, before, atol=1e-2)
    card = json_in(tmp_path / CARD)
    assert card['method'] == 'paireval' and card['steps'] == 4


def test_an_interrupted_training_ends_with_the_same_weights(base, tmp_path):
    pairs = make_pairs(96)  # 6 steps
    whole = train(base, tmp_path / 'whole', pairs, lora_dropout=0.1)
    with interrupted(trainings.JudgeTraining, 'update', 5):
        train(base, tmp_path / 'cut', pairs, lora_dropout=0.1, save_steps=2)
    assert (tmp_path / 'cut' / STATE).is_file()
    resumed = train(base, tmp_path / 'cut', pairs, lora_dropout=0.1)
    assert resumed.losses == whole.losses
    one, other = (
        load_file(tmp_path / name / 'model.safetensors') for name in ('whole', 'cut')
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_training_is_not_gone_on_with(base, tmp_path):
    file, out = tmp_path / 'prompt.txt', tmp_path / 'out'
    file.write_text('{history_1} {response_1} {history_2} {response_2} Better:')
    asked = {'prompt': str(file)}
    with interrupted(trainings.JudgeTraining, 'update', 2):
        train(base, out, make_pairs(40), **asked)
    with user_error('differs in learning_rate'):
        train(base, out, make_pairs(40), **asked, learning_rate=1e-3)
    with user_error('differs in pairs'):
        train(base, out, make_pairs(40, seed=1), **asked)
    file.write_text('{history_1} {response_1} {history_2} {response_2} Worse:')
    with user_error('differs in prompt'):
        train(base, out, make_pairs(40), **asked)


def test_prompts_that_are_too_long_are_counted(base, tmp_path):
    pairs = make_pairs(16)
    long = ResponsePair(JudgedResponse(('tea ' * 40,), 'cup'), pairs[0].bad, 'random')
    result = train(base, tmp_path / 'out', [*pairs, long], max_tokens=60)
    assert (result.num_examples, result.num_left_out) == (16, 1)


def test_only_the_last_layers_learn(base, tmp_path):
    train(base, tmp_path, make_pairs(32), lora_layers=1)
    before = load_file(Path(base) / 'model.safetensors')
    after = load_file(tmp_path / 'model.safetensors')
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all('layers.1.' in name for name in changed)


@pytest.mark.parametrize(
    'values, key',
    [
        ({'lora_modules': 'nowhere'}, 'lora-modules'),
        ({'max_tokens': 16}, 'max-tokens'),
        ({'judge_format': 'chat'}, 'chat template'),
    ],
)
def test_what_cannot_be_trained_is_refused(base, tmp_path, values, key):
    with user_error(key):
        train(base, tmp_path / 'out', make_pairs(4), **values)


def test_a_finished_judge_is_not_overwritten(base, tmp_path):
    train(base, tmp_path / 'out', make_pairs(4))
    with user_error('--out'):
        train(base, tmp_path / 'out', make_pairs(4))


@pytest.mark.slow
def test_a_judge_learns_to_tell_held_out_pairs_apart(base, tmp_path):
    rows = [*map(asdict, make_easy_pairs(3200))]
    pairs, out = written(tmp_path, 'pairs.jsonl', rows), tmp_path / 'out'
    where = {'base': base, 'pairs': str(pairs), 'out': str(out), 'no_cuda': True}
    TrainJudge.main(**where, **FAST)
    card = json_in(out / CARD)
    assert card['losses'][-1] < 0.5 * math.log(2)

    people = written(tmp_path, 'people.jsonl', [{'dialogue': t} for t in TOPICS[:3]])
    scorer = PairEval.from_section(
        {'judge_model_file': str(out), 'comparisons': str(people), 'corpus': 'jsonl'},
        models_on_cpu(),
    )
    [_, everything] = pair_accuracies(scorer, make_easy_pairs(40, seed=1))
    assert everything.low > 0.5
