"""
Tiny real ParlAI models with random weights, written to a folder as ParlAI writes them.

Their weights are drawn wide, so that what they say depends on what they heard; nothing
they say means anything.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from parlai.core.agents import create_agent
from parlai.core.params import ParlaiParser
from parlai.core.torch_agent import TorchAgent
from parlai.core.torch_ranker_agent import TorchRankerAgent

from parlai_ext import compat

WORDS = [
    *('i', 'you', 'we', 'they', 'tea', 'rain', 'book', 'song', 'hill', 'boat', 'bread'),
    *('garden', 'train', 'winter', 'cat', 'like', 'made', 'saw', 'want', 'lost', 'old'),
    *('warm', 'blue', 'loud', 'quiet', 'happy', 'slowly', 'again', 'there', 'today'),
]

SIZES: dict[str, Any] = {
    'n_layers': 2,
    'n_heads': 2,
    'embedding_size': 16,
    'ffn_size': 32,
    'n_positions': 128,
    'truncate': 128,
    'variant': 'xlm',
    'dict_tokenizer': 'space',
    'datatype': 'valid',
    'no_cuda': True,
}


def sentences(n: int, seed: int = 0) -> list[str]:
    """
    Return ``n`` different sentences of the tiny models' words.
    """
    rng = random.Random(f'sentences:{seed}')
    found: dict[str, None] = {}
    while len(found) < n:
        found[' '.join(rng.choice(WORDS) for _ in range(rng.randint(3, 7)))] = None
    return list(found)


def make_generator(folder: Path, name: str = 'tiny', seed: int = 0, **opt: Any) -> str:
    """
    Write a TransformerGenerator and return its model file.

    :param opt: options that go into its `.opt` file (``inference``, ``beam_size``, …).
    """
    more = {'label_truncate': 8, 'beam_block_ngram': 1, **opt}
    return _make(folder, name, seed, {'model': 'transformer/generator', **more})


def make_ranker(
    folder: Path,
    name: str = 'tinyranker',
    seed: int = 0,
    candidates: Sequence[str] = (),
    **opt: Any,
) -> str:
    """
    Write a poly-encoder with its fixed candidates and return its model file.
    """
    path = folder / f'{name}.candidates.txt'
    lines = candidates or sentences(40, seed)
    path.write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')
    ours = {
        'model': 'transformer/polyencoder',
        'fixed_candidates_path': str(path),
        'eval_candidates': 'fixed',
        'poly_n_codes': 4,
        'poly_attention_num_heads': 2,
        'codes_attention_num_heads': 2,
        'reduction_type': 'mean',
    }
    return _make(folder, name, seed, {**ours, **opt})


def _make(folder: Path, name: str, seed: int, opt: dict[str, Any]) -> str:
    """
    Build a model from options, draw its weights, and save it.
    """
    compat.apply()
    path = folder / name
    words = ''.join(f'{word}\t{100 - i}\n' for i, word in enumerate(WORDS))
    dictionary = folder / f'{name}.dict'
    dictionary.write_text(words, encoding='utf-8')
    files = {'model_file': str(path), 'dict_file': str(dictionary)}
    agent = create_agent(ParlaiParser(True, True).parse_kwargs(**SIZES, **files, **opt))
    draw_weights(agent.model, seed)
    agent.save(str(path))
    for stale in (*folder.glob(f'{name}.*.vecs'), *folder.glob(f'{name}.*.encs')):
        stale.unlink()  # ParlAI encoded the candidates before the weights were drawn
    return str(path)


def draw_weights(model: torch.nn.Module, seed: int) -> None:
    """
    Draw weights wide enough that different contexts give different replies.

    Positions are drawn widest: output and input embeddings are one matrix, so that
    without them a model would say its last word again.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                width = 1.0 if 'position' in name else 3.0 * weight.shape[-1] ** -0.5
                weight.normal_(0, width, generator=generator)
            if name.endswith('embeddings.weight') and 'position' not in name:
                weight[:4] = 0.0  # padding, start, end, unknown: hardly ever said


def in_float64(agent: TorchAgent) -> TorchAgent:
    """
    Turn an agent's model (and a ranker's encoded candidates) to float64, in place.
    """
    agent.model.double()
    if isinstance(agent, TorchRankerAgent) and agent.fixed_candidate_encs is not None:
        encs = agent._make_candidate_encs(agent.fixed_candidate_vecs)
        agent.fixed_candidate_encs = encs
    return agent
