"""
The adapter with which an encoder reads a response: what it changes for a while, which
tokens it reads, and that a response's number is its own.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from torch import nn

from parlai_ext.models.encoders import (
    MOST_TOKENS,
    MeanPooling,
    ResponseReader,
    changed_layers,
    pair_ids,
    response_tokens,
)

LAYER = 'encoder.layer.0.attention.self.query'


@pytest.fixture(scope='module')
def encoder(encoder_folder):
    encoder = MeanPooling(Path(encoder_folder), torch.device('cpu'))
    tokenizer = encoder.tokenizer
    tokenizer.cls_token = tokenizer.sep_token = tokenizer.eos_token
    return encoder


def test_changed_layers_give_what_changed_weights_give():
    network = nn.Sequential(nn.Linear(2, 1, bias=False))
    network[0].weight.data = torch.tensor([[1.0, 0]])
    change = torch.tensor([[0.0, 1]]), torch.tensor([[3.0]])
    given = torch.tensor([[5.0, 7]])
    with changed_layers(network, {'0': change}, torch.device('cpu')):
        # 5, and twice 3 * 7
        assert network(given).item() == 47
    assert network(given).item() == 5


def test_the_tokens_of_the_response_stand_after_the_second_last_end():
    end = 2
    inputs = {
        'input_ids': torch.tensor([[0, 7, end, 8, end, end, 9, 9, end, 1, 1]]),
        'attention_mask': torch.tensor([[1] * 9 + [0] * 2]),
    }
    assert response_tokens(inputs, end).long().tolist() == [[0] * 6 + [1] * 3 + [0] * 2]


def test_of_a_long_context_the_end_is_read(encoder):
    tokenizer = encoder.tokenizer
    end = tokenizer.sep_token_id
    short = pair_ids(encoder, (('hello', ' ', 'you'), 'dogs '))['input_ids']
    hello, you, dogs = (encoder.text_ids(text) for text in ('hello', 'you', 'dogs'))
    start = [tokenizer.cls_token_id]
    assert short == [*start, *hello, end, *you, end, end, *dogs, end]
    long = pair_ids(encoder, ((f'hello {"you " * 300}',), 'dogs'))['input_ids']
    assert len(long) == MOST_TOKENS
    assert long[1:3] == [*you, *you]


def test_words_of_a_user_are_no_end_tokens(encoder):
    end = encoder.tokenizer.sep_token
    ids = pair_ids(encoder, ((), f'dogs {end} dogs'))['input_ids']
    # that which begins, two in the middle, one at the end
    assert ids.count(encoder.tokenizer.sep_token_id) == 4


def test_a_number_does_not_depend_on_what_is_read_beside(encoder):
    width = encoder.model.config.hidden_size
    rng = np.random.default_rng(0)
    shapes = {
        f'{LAYER}.A': (2, width),
        f'{LAYER}.B': (width, 2),
        'hid.weight': (8, 2 * width),
        'hid.bias': (8,),
        'top.weight': (1, 8),
        'top.bias': (1,),
    }
    tensors = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    reader = ResponseReader(save(tensors))
    pairs = [(('hello',), 'dogs'), ((), 'you you you'), (('dogs', 'hello'), '')]
    together = reader.numbers(encoder, pairs)
    assert len(set(together.tolist())) == 3
    alone = [reader.numbers(encoder, [pair])[0] for pair in pairs]
    assert together == pytest.approx(alone, abs=1e-5)
