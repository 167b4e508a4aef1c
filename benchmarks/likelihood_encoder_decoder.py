"""
Time the engine for encoder-decoders against ParlAI's own ranking of candidates.

    python -m benchmarks.likelihood_encoder_decoder
    python -m benchmarks.likelihood_encoder_decoder --shape blender_3B --device cuda
    python -m benchmarks.likelihood_encoder_decoder --shape blender_9B --device cuda \
        --dtype bf16 --followups 8 --contexts 512 --engine-only

Random weights of a Blender shape, contexts of 128 tokens, 12 follow-ups of 5 to 10
tokens that share no beginning. Both sides are run in turn; times are medians. Torch
counts the operations of matrix products while each side runs: their ratio is the bound
of the speed-up. On a machine that others use too, ``--clock cpu`` tells more than the
clock on the wall.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from parlai.agents.transformer.modules import TransformerGeneratorModel
from parlai.core.torch_generator_agent import TorchGeneratorAgent
from parlai.utils.torch import padded_tensor

from benchmarks.support.likelihood_sides import compare_sides
from benchmarks.support.measures import CLOCKS, start
from parlai_ext import compat
from parlai_ext.core import Question
from parlai_ext.models.parlai_models import CrossAttention

DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16, 'fp16': torch.float16}


@dataclass(frozen=True)
class Shape:
    """
    The sizes of a model.
    """

    n_encoder_layers: int
    n_decoder_layers: int
    embedding_size: int
    ffn_size: int
    n_heads: int
    vocabulary: int
    variant: str


SHAPES = {
    'blender_90M': Shape(8, 8, 512, 2048, 16, 54944, 'xlm'),
    'blender_3B': Shape(2, 24, 2560, 10240, 32, 8008, 'prelayernorm'),
    'blender_9B': Shape(4, 32, 4096, 16384, 32, 8008, 'prelayernorm'),
}


class SizedDictionary:
    """
    A stand-in for a model's dictionary that knows its size only.
    """

    null_token, start_token, end_token, unk_token = range(4)

    def __init__(self, size: int):
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, token: int) -> int:
        return token


def build(shape: Shape, device: str, dtype: torch.dtype) -> TransformerGeneratorModel:
    """
    Return a model of this shape with random weights.
    """
    sizes = {k: v for k, v in vars(shape).items() if k != 'vocabulary'}
    rest = {'n_layers': 2, 'n_positions': 512, 'activation': 'gelu', 'truncate': 128}
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = TransformerGeneratorModel(
                {**sizes, **rest}, SizedDictionary(shape.vocabulary)
            )
    finally:
        torch.set_default_dtype(before)
    return model.to(device).requires_grad_(False).eval()


def stock(model: TransformerGeneratorModel, questions: Sequence[Question]) -> list[Any]:
    """
    Return the sorted losses of ParlAI's own `rank_eval_label_candidates`.
    """
    device = model.START.device
    vectors = [[torch.tensor(c) for c in q.continuations] for q in questions]
    batch = SimpleNamespace(
        text_vec=torch.tensor([q.context for q in questions], device=device),
        candidate_vecs=vectors,
        candidates=[q.continuations for q in questions],
    )
    agent: Any = SimpleNamespace(
        model=model,
        NULL_IDX=0,
        _encoder_input=lambda batch: (batch.text_vec,),
        _pad_tensor=lambda rows, is_label: padded_tensor(rows, pad_idx=0),
    )
    rank = TorchGeneratorAgent.rank_eval_label_candidates
    with torch.no_grad():
        return rank(agent, batch, len(questions))[1]


def largest_difference(
    answers: Sequence[Any], losses: Sequence[Sequence[float]]
) -> float:
    """
    Return the largest difference between a loss of one side and of the other.
    """
    ours = [
        sorted(-sum(row) / len(row) for row in answer.continuations)
        for answer in answers
    ]
    pairs = zip(sum(ours, []), sum(map(list, losses), []), strict=True)
    return max(abs(a - b) for a, b in pairs)


def make_questions(shape: Shape, opt: argparse.Namespace) -> list[Question]:
    """
    Return contexts of random tokens, all with the same follow-ups.
    """
    draw = torch.Generator().manual_seed(0)

    def some(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(4, shape.vocabulary, (n,), generator=draw).tolist())

    followups = tuple((*some(4 + i % 6), 2) for i in range(opt.followups))
    return [Question(some(opt.length), followups) for _ in range(opt.contexts)]


def main(opt: argparse.Namespace) -> None:
    """
    Print counts, times and their ratios.
    """
    compat.apply()
    torch.set_num_threads(opt.threads)
    shape = SHAPES[opt.shape]
    questions = make_questions(shape, opt)
    model = build(shape, opt.device, DTYPES[opt.dtype])
    engine = CrossAttention(model, None, '', opt.tokens)
    sides: dict[str, Callable[[], Any]] = {
        'stock': lambda: stock(model, questions),
        'engine': lambda: engine.answer(questions),
    }
    if opt.engine_only:
        del sides['stock']
    results = compare_sides(f'{len(questions)} contexts, {opt.shape}', sides, opt)
    if 'stock' in results:
        difference = largest_difference(results['engine'], results['stock'])
        print(f'largest difference of a mean log-probability: {difference:.1e}')


if __name__ == '__main__':
    start(
        main,
        __doc__,
        choices={'shape': SHAPES, 'dtype': DTYPES, 'clock': CLOCKS},
        shape='blender_90M',
        device='cpu',
        dtype='fp32',
        contexts=8,
        length=128,
        followups=12,
        repeats=5,
        tokens=16384,
        clock='wall',
        threads=2,
        engine_only=False,
    )
