"""
Trainings: what a saved state is, and that one which is damaged or of another training
is refused. Adaptation: what is learned and written, and that an interrupted training
ends as one that was not.
"""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from parlai_ext.core import UserError
from parlai_ext.training import trainings
from parlai_ext.training.options import TrainingOptions
from parlai_ext.training.trainings import IGNORED, STATE, Training, adapt, masked_words
from tests.support.family_hf import make_model, make_tokenizer
from tests.support.fed_samples import END, gpt2
from tests.support.interrupted import interrupted
from tests.support.tiny_models import WORDS, sentences
from tests.support.tiny_trained import ENCODER, make_encoder
from tests.support.user_error import user_error


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


# Adaptation


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


def train(kind, bases, folder, options=OPTIONS, save_every=100):
    return adapt(
        kind, bases[kind], DIALOGUES, folder, options, device=CPU, save_every=save_every
    )


def weights(folder):
    return load_file(folder / 'model.safetensors')


@pytest.mark.parametrize('kind', ['mlm', 'lm'])
def test_the_held_out_loss_falls(kind, bases, tmp_path):
    adapted = train(kind, bases, tmp_path / 'out', replace(OPTIONS, steps=40))
    assert adapted.after < adapted.before
    assert (adapted.head is None) == (kind == 'lm')
    assert not any('cls' in name for name in weights(tmp_path / 'out'))  # no head


def test_the_loss_of_a_language_model_is_that_of_transformers(bases, tmp_path):
    options = replace(OPTIONS, steps=1, learning_rate=1e-12, tokens=128)
    adapted = train('lm', bases, tmp_path / 'out', options)
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
    whole = train(kind, bases, tmp_path / 'whole')
    update = trainings.Trainer.update
    steps = []

    def dies(self, step):
        steps.append(step)
        if len(steps) == 9:
            raise Killed
        return update(self, step)

    monkeypatch.setattr(trainings.Trainer, 'update', dies)
    with pytest.raises(Killed):
        train(kind, bases, tmp_path / 'parts', save_every=3)
    adapted = train(kind, bases, tmp_path / 'parts', save_every=3)
    assert steps[9] == 6  # the last saving before the ninth update
    first, second = weights(tmp_path / 'whole'), weights(tmp_path / 'parts')
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert adapted.before == whole.before


def test_a_model_is_not_written_over(bases):
    with user_error('--out'):
        train('lm', bases, bases['lm'])


def test_a_finished_training_is_not_done_again_and_not_taken_for_another(
    bases, tmp_path, monkeypatch
):
    first = train('lm', bases, tmp_path)
    monkeypatch.setattr(trainings, 'Trainer', None)
    assert train('lm', bases, tmp_path) == first
    with user_error('differs in seed'):
        train('lm', bases, tmp_path, replace(OPTIONS, seed=1))


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
        train('lm', bases, tmp_path, replace(OPTIONS, held_out=24))


@pytest.mark.parametrize(
    'kind, build',
    [('lm', lambda folder: make_model(folder, 'bart')), ('mlm', make_encoder)],
)
def test_a_model_of_another_kind_is_refused(kind, build, tmp_path):
    with user_error(f'--kind {kind}'):
        train(kind, {kind: Path(build(tmp_path))}, tmp_path / 'out')


@pytest.mark.parametrize('text', ['', '[]', '{"steps": NaN}', '[' * 100_000])
def test_a_damaged_record_of_a_training_is_one_line(bases, tmp_path, text):
    (tmp_path / trainings.RECORD).write_text(text)
    with user_error(rf'{trainings.RECORD}: cannot be read .* \(--out\)'):
        train('lm', bases, tmp_path)
