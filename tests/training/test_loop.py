"""
The loop of a training: what a saved state is, and that one which is damaged or of
another training is refused.
"""

import random

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from parlai_ext.core import UserError
from parlai_ext.training.trainings import STATE, Training
from tests.support.interrupted import interrupted
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
