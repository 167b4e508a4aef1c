"""
Tiny real ParlAI models with random weights, written to a folder as ParlAI writes them.

Their weights are drawn wide, so that what they say depends on what they heard; nothing
they say means anything.
"""

import random

import torch
from parlai.core.agents import create_agent
from parlai.core.params import ParlaiParser
from parlai.core.torch_ranker_agent import TorchRankerAgent

from parlai_ext.commands import plugin
from tests.support.written import changed_json

WORDS = [
    'i',
    'you',
    'we',
    'they',
    'tea',
    'rain',
    'book',
    'song',
    'hill',
    'boat',
    'bread',
    'garden',
    'train',
    'winter',
    'cat',
    'like',
    'made',
    'saw',
    'want',
    'lost',
    'old',
    'warm',
    'blue',
    'loud',
    'quiet',
    'happy',
    'slowly',
    'again',
    'there',
    'today',
]

SIZES = {
    'n_layers': 2,
    'n_heads': 2,
    'embedding_size': 16,
    'ffn_size': 32,
    'n_positions': 128,
    'truncate': 128,
    'variant': 'xlm',
}


POLYENCODER = 'transformer/polyencoder'
POLY = {
    'poly_n_codes': 4,
    'poly_attention_num_heads': 2,
    'codes_attention_num_heads': 2,
    'reduction_type': 'mean',
}


def sentences(n, seed=0):
    """
    Return ``n`` different sentences of the tiny models' words.
    """
    rng = random.Random(f'sentences:{seed}')
    found = {}
    while len(found) < n:
        found[' '.join(rng.choice(WORDS) for _ in range(rng.randint(3, 7)))] = None
    return list(found)


def make_generator(folder, name='tiny', seed=0, **opt):
    """
    Write a TransformerGenerator and return its model file.

    :param opt: options that go into its `.opt` file (``inference``, ``beam_size``, …).
    """
    more = {'label_truncate': 8, 'beam_block_ngram': 1, **opt}
    return make_model(
        folder, name, seed, {**SIZES, 'model': 'transformer/generator', **more}
    )


def make_ranker(
    folder,
    name='tinyranker',
    seed=0,
    candidates=(),
    **opt,
):
    """
    Write a poly-encoder with its fixed candidates and return its model file.
    """
    path = folder / f'{name}.candidates.txt'
    lines = candidates or sentences(40, seed)
    path.write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')
    fixed = {'eval_candidates': 'fixed', 'fixed_candidates_path': str(path)}
    ours = {**POLY, **fixed, 'model': POLYENCODER}
    return make_model(folder, name, seed, {**SIZES, **ours, **opt})


def stock_agent(**opt):
    """
    Return an agent as ParlAI builds it from these options, on the CPU.
    """
    given = {**opt, 'datatype': 'valid', 'no_cuda': True}
    return create_agent(ParlaiParser(True, True).parse_kwargs(**given))


def make_model(folder, name, seed, opt, words=True):
    """
    Build a model from options, draw its weights, and save it.

    :param words: write a dictionary of `WORDS`; without, the options bring their own.
    """
    plugin.register()
    path = folder / name
    given = {**opt, 'model_file': str(path), 'datatype': 'valid', 'no_cuda': True}
    if words:
        dictionary = folder / f'{name}.dict'
        lines = ''.join(f'{word}\t{100 - i}\n' for i, word in enumerate(WORDS))
        dictionary.write_text(lines, encoding='utf-8')
        given |= {'dict_file': str(dictionary), 'dict_tokenizer': 'space'}
    parsed = ParlaiParser(True, True).parse_kwargs(**given)
    parsed['converting'] = True  # BART: there is nothing to download and start from
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # for what `draw_weights` leaves as it is
        agent = create_agent(parsed)
    del agent.opt['converting']
    draw_weights(agent.model, seed)
    agent.save(str(path))
    for stale in (*folder.glob(f'{name}.*.vecs'), *folder.glob(f'{name}.*.encs')):
        stale.unlink()  # ParlAI encoded the candidates before the weights were drawn
    return str(path)


def draw_weights(model, seed):
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


def in_float64(agent):
    """
    Turn an agent's model (and a ranker's encoded candidates) to float64, in place.
    """
    agent.model.double()
    if isinstance(agent, TorchRankerAgent) and agent.fixed_candidate_encs is not None:
        encs = agent._make_candidate_encs(agent.fixed_candidate_vecs)
        agent.fixed_candidate_encs = encs
    return agent


def with_options(path, **more):
    """
    Change the options beside a model.
    """
    changed_json(f'{path}.opt', **more)
    return path
