"""
Trainings: what a saved state is, and that one which is damaged or of another training
is refused.

Adaptation: what is learned and written, and that an interrupted training ends as one
that was not. Training a judge: what a step learns from, what is written, and that a
training which was interrupted ends as one that was not.
"""

import math
import random
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
)

from parlai_ext.commands.train_judge import TrainJudge
from parlai_ext.core import UserError
from parlai_ext.scoring.llm_judges import (
    CARD,
    JudgedResponse,
    LabelTokens,
    PairEval,
    pair_template,
)
from parlai_ext.training import trainings
from parlai_ext.training.options import JudgeTrainingOptions, TrainingOptions
from parlai_ext.training.pairs import ResponsePair, pair_accuracies
from parlai_ext.training.trainings import (
    IGNORED,
    STATE,
    Training,
    adapt,
    masked_words,
    train_judge,
)
from tests.support.causal_models import SIZES
from tests.support.family_hf import make_model, make_tokenizer
from tests.support.fed_samples import END, gpt2
from tests.support.interrupted import interrupted
from tests.support.on_cpu import models_on_cpu
from tests.support.planted_labels import FRAME
from tests.support.tiny_models import WORDS, sentences
from tests.support.tiny_trained import ENCODER, make_encoder
from tests.support.user_error import user_error
from tests.support.written import json_in, written


class Line(Training):
    """
    A line that is fitted to random points; the seed of a step draws its point.
    """

    def __init__(self, folder, seed=0):
        torch.manual_seed(0)
        self.model = torch.nn.Linear(3, 2)
        super().__init__(self.model, folder, {'seed': seed, 'base': 'line'}, lr=0.1)

    def update(self, step):
        point = torch.randn(3, generator=torch.Generator().manual_seed(step))
        loss = (self.model(point) - point[:2]).square().sum()
        loss.backward()
        return loss.item()


@pytest.fixture
def begun(tmp_path):
    """
    Return a training that was interrupted before its sixth step.
    """
    training = Line(tmp_path)
    with interrupted(Line, 'update', 5):
        training.run(8, save_every=100)
    return training


def test_a_step_that_was_not_finished_is_not_saved(begun, tmp_path):
    intact = begun.file.read_bytes()
    resumed = Line(tmp_path)
    resumed.resume()
    with interrupted(resumed.optimizer, 'step'):
        resumed.run(8, save_every=100)
    assert begun.file.read_bytes() == intact


def test_more_steps_than_are_asked_for_are_refused(begun):
    with user_error('has 5 steps, and 4 are'):
        begun.run(4, save_every=1)


OTHER = torch.zeros(7)


@pytest.mark.parametrize(
    'tensors, facts',
    [
        ({}, {'facts': '[' * 10**5}),
        ({}, {}),
        # a tensor of another shape, or none
        *(({name: OTHER}, None) for name in ('weight.bias', 'exp_avg.bias')),
        *(({name: None}, None) for name in ('weight.bias', 'step.bias')),
    ],
)
def test_a_damaged_state_is_one_line(begun, tensors, facts):
    with safe_open(begun.file, 'pt') as state:
        kept = state.metadata()
    tensors = {**load_file(begun.file), **tensors}
    tensors = {name: one for name, one in tensors.items() if one is not None}
    save_file(tensors, begun.file, kept if facts is None else facts)
    with user_error(rf'{STATE} is damaged: [^\n]+$'):
        begun.resume()


def test_cut_and_flipped_bytes_are_one_line_or_no_harm(begun):
    intact = begun.file.read_bytes()
    rng = random.Random(0)
    for _ in range(20):
        begun.file.write_bytes(intact[: rng.randrange(len(intact))])
        with user_error(f'{STATE} is damaged'):
            begun.resume()
        data = bytearray(intact)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        begun.file.write_bytes(data)
        try:
            begun.resume()
        except UserError as error:
            assert '\n' not in str(error)


# === Adaptation =======================================================================

CPU = torch.device('cpu')
DIALOGUES = [tuple(sentences(3, seed)) for seed in range(24)]
OPTIONS = TrainingOptions(
    steps=12, held_out=4, tokens=24, learning_rate=1e-3, head_steps=4
)


def make_masked_encoder(folder):
    """
    Write an encoder without a head, whose tokenizer knows a mask.
    """
    tokenizer = make_tokenizer(WORDS)
    tokenizer.add_special_tokens({'mask_token': '<mask>'})
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=len(tokenizer), **ENCODER)
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope='module')
def bases(module_folder, gpt2_folder):
    return {
        'mlm': make_masked_encoder(module_folder),
        'lm': Path(gpt2_folder),
    }


def adapt_base(kind, bases, folder, options=OPTIONS, save_every=100):
    return adapt(
        kind, bases[kind], DIALOGUES, folder, options, device=CPU, save_every=save_every
    )


def weights(folder):
    return load_file(folder / 'model.safetensors')


@pytest.mark.parametrize('kind', ['mlm', 'lm'])
def test_the_held_out_loss_falls(kind, bases, tmp_path):
    adapted = adapt_base(kind, bases, tmp_path / 'out', replace(OPTIONS, steps=40))
    assert adapted.after < adapted.before
    assert (adapted.head is None) == (kind == 'lm')
    assert not any('cls' in name for name in weights(tmp_path / 'out'))  # no head


def test_the_loss_of_a_language_model_is_that_of_transformers(bases, tmp_path):
    options = replace(OPTIONS, steps=1, learning_rate=1e-12, tokens=128)
    adapted = adapt_base('lm', bases, tmp_path / 'out', options)
    model, tokenizer = gpt2(bases['lm'])
    held_out, _ = trainings.split_held_out(DIALOGUES, options)
    total = n_tokens = 0
    for dialogue in held_out:
        ids = torch.tensor([tokenizer.encode(' '.join(dialogue) + END)])
        with torch.no_grad():
            loss = model(ids, labels=ids).loss
        total += float(loss) * (ids.shape[1] - 1)
        n_tokens += ids.shape[1] - 1
    assert adapted.before == pytest.approx(total / n_tokens, rel=1e-4)


class Killed(BaseException):
    """
    The end of a process, which nothing in it may catch.
    """


@pytest.mark.parametrize('kind', ['mlm', 'lm'])
def test_a_killed_training_goes_on_to_the_same_weights(
    kind, bases, tmp_path, monkeypatch
):
    whole = adapt_base(kind, bases, tmp_path / 'whole')
    update = trainings.Trainer.update
    steps = []

    def dies(self, step):
        steps.append(step)
        if len(steps) == 9:
            raise Killed
        return update(self, step)

    monkeypatch.setattr(trainings.Trainer, 'update', dies)
    with pytest.raises(Killed):
        adapt_base(kind, bases, tmp_path / 'parts', save_every=3)
    adapted = adapt_base(kind, bases, tmp_path / 'parts', save_every=3)
    assert steps[9] == 6  # the last saving before the ninth update
    first, second = weights(tmp_path / 'whole'), weights(tmp_path / 'parts')
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert adapted.before == whole.before


def test_a_model_is_not_written_over(bases):
    with user_error('--out'):
        adapt_base('lm', bases, bases['lm'])


def test_a_finished_training_is_not_done_again_and_not_taken_for_another(
    bases, tmp_path, monkeypatch
):
    first = adapt_base('lm', bases, tmp_path)
    monkeypatch.setattr(trainings, 'Trainer', None)
    assert adapt_base('lm', bases, tmp_path) == first
    with user_error('differs in seed'):
        adapt_base('lm', bases, tmp_path, replace(OPTIONS, seed=1))


def test_only_the_head_is_trained_at_first(bases, tmp_path):
    trainer = trainings.Trainer(
        'mlm', bases['mlm'], DIALOGUES, OPTIONS, CPU, tmp_path, {}
    )
    before = {name: w.clone() for name, w in trainer.model.named_parameters()}

    def changed():
        now = trainer.model.named_parameters()
        return {name for name, w in now if not torch.equal(w, before[name])}

    trainer.run(OPTIONS.head_steps, save_every=100)
    assert changed() == trainer.new_head
    trainer.run(OPTIONS.head_steps + 1, save_every=100)
    assert 'bert.embeddings.word_embeddings.weight' in changed()


def test_what_becomes_of_masked_words(bases):
    tokenizer = AutoTokenizer.from_pretrained(bases['mlm'])
    ids = torch.randint(10, 30, (200, 100), generator=torch.Generator().manual_seed(1))
    hidden, labels = masked_words(ids, torch.ones_like(ids) > 0, tokenizer, 0.15, 5)
    chosen = labels != IGNORED
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(hidden[~chosen], ids[~chosen])
    # of 20,000 tokens 15 %, and of those 80 % masks: four standard errors
    assert chosen.float().mean() == pytest.approx(0.15, abs=0.011)
    masks = (hidden[chosen] == tokenizer.mask_token_id).float().mean()
    assert masks == pytest.approx(0.8, abs=0.03)
    unchanged = (hidden[chosen] == ids[chosen]).float().mean()
    assert unchanged == pytest.approx(0.1, abs=0.03)


def test_special_tokens_and_padding_are_never_masked(bases):
    tokenizer = AutoTokenizer.from_pretrained(bases['mlm'])
    ids = torch.tensor([[tokenizer.bos_token_id, 20, tokenizer.pad_token_id]])
    is_token = torch.tensor([[True, True, False]])
    for seed in range(20):
        _, labels = masked_words(ids, is_token, tokenizer, 0.15, seed)
        assert labels.tolist() == [[IGNORED, 20, IGNORED]]


def test_what_is_held_out_is_not_trained_on():
    twice = [*DIALOGUES, *DIALOGUES]
    held_out, training = trainings.split_held_out(twice, OPTIONS)
    assert len(held_out) == OPTIONS.held_out
    assert set(training) == set(DIALOGUES) - set(held_out)


def test_too_few_dialogues_are_refused(bases, tmp_path):
    with user_error('--held-out'):
        adapt_base('lm', bases, tmp_path, replace(OPTIONS, held_out=24))


@pytest.mark.parametrize(
    'kind, build',
    [('lm', lambda folder: make_model(folder, 'bart')), ('mlm', make_encoder)],
)
def test_a_model_of_another_kind_is_refused(kind, build, tmp_path):
    with user_error(f'--kind {kind}'):
        adapt_base(kind, {kind: Path(build(tmp_path))}, tmp_path / 'out')


@pytest.mark.parametrize('text', ['', '[]', '{"steps": NaN}', '[' * 100_000])
def test_a_damaged_record_of_a_training_is_one_line(bases, tmp_path, text):
    (tmp_path / trainings.RECORD).write_text(text)
    with user_error(rf'{trainings.RECORD}: cannot be read .* \(--out\)'):
        adapt_base('lm', bases, tmp_path)


# === Training a judge =================================================================

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
    Return the folder of a tiny model with random weights, which peft trains.
    """
    pytest.importorskip('peft')
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
