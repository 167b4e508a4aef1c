"""
What the engine asks of an encoder-decoder: nothing twice, nothing for padding.
"""

import math

import numpy as np
import pytest
import torch

from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder


class Uniform:
    """
    A model that finds all tokens equally likely, and records its inputs.
    """

    null, start, vocabulary, device = 0, (1,), 10, torch.device('cpu')

    def __init__(self, dtype=torch.float32, room=10**9):
        self.dtype = dtype
        self.room = room
        self.encoded, self.decoded, self.rows = [], [], 0

    def encode(self, xs, keys_values):
        if xs.numel() > self.room:
            raise torch.OutOfMemoryError('CUDA out of memory')
        self.encoded.extend(xs.tolist())
        return xs

    def select(self, encoded, rows):
        return encoded[rows]

    def decode(self, encoded, ys, depths, mask):
        self.decoded.append((ys.tolist(), depths.tolist(), mask.tolist()))
        return torch.zeros(*ys.shape, 1, dtype=self.dtype)

    def logits(self, hidden):
        self.rows += len(hidden)
        return torch.zeros(len(hidden), self.vocabulary, dtype=self.dtype)


@pytest.mark.parametrize(
    ('dtype', 'tolerance'),
    [
        *((dtype, 1e-6) for dtype in (torch.float16, torch.bfloat16, torch.float32)),
        (torch.float64, 1e-15),
    ],
)
def test_logits_are_normalised_in_float32_or_float64(dtype, tolerance):
    # log(1/10) = -2.3025851; the nearest half-precision number is -2.3027344
    judge = EncoderDecoder(Uniform(dtype), None, '')
    [answer] = judge.answer([Question((1,), ((2,),))])
    number = answer.continuations[0][0]
    assert number == pytest.approx(-math.log(10), rel=0, abs=tolerance)


def test_each_different_context_is_encoded_once():
    model = Uniform()
    contexts = [(1, 1), (2, 2), (1, 1), (3, 3), (2, 2)]
    asked = [Question(c, ((1,), (2,), (i, 2))) for i, c in enumerate(contexts)]
    EncoderDecoder(model, None, '', Budget(10)).answer(asked)
    assert sorted(model.encoded) == [[1, 1], [2, 2], [3, 3]]


def test_a_tree_is_read_as_it_should_be():
    model = Uniform()
    asked = [Question((9,), ((5, 6, 2), (5, 7, 2), (2,)))]
    EncoderDecoder(model, None, '').answer(asked)
    # 1 (start) is followed by 5, and 5 by 6 and 7; 2 ends each, and is no node
    [([ys], [at], [mask])] = model.decoded
    assert [ys, at] == [[1, 5, 6, 7], [0, 1, 2, 2]]
    assert np.array(mask).astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 0, 1],
    ]


def test_the_output_layer_sees_no_padding_and_nothing_twice():
    model = Uniform()
    first = Question((9, 9), ((5, 6, 2), (5, 7, 2), (2,)))  # 1, 5, 6, 7
    other = Question((8,), ((2,),))  # 1
    EncoderDecoder(model, None, '').answer([first, other])
    assert model.rows == 5


def test_memory_that_runs_out_changes_no_answer():
    asked = [Question((4,) * n, ((5, 2), (6, 2))) for n in range(1, 9)]
    budget = Budget(1000)
    model = Uniform(room=16)
    found = EncoderDecoder(model, None, '', budget).answer(asked)
    assert found == EncoderDecoder(Uniform(), None, '').answer(asked)
    assert budget.tokens < 1000
    kept = [tuple(t for t in row if t) for row in model.encoded]
    assert sorted(kept, key=len) == [question.context for question in asked]
