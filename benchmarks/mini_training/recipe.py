"""
The models of the mini zoo: options, training data and the updates at which each is
saved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RETRIEVER = 'parlai_ext.agents.mini_retriever.mini_retriever:MiniRetrieverAgent'

# about 0.9 million parameters with a vocabulary of 1,404
MEDIUM: Mapping[str, Any] = {
    'model': 'transformer/generator',
    'embedding_size': 128,
    'n_heads': 4,
    'n_encoder_layers': 2,
    'n_decoder_layers': 2,
    'ffn_size': 256,
    'variant': 'prelayernorm',
    'activation': 'gelu',
    # the latest word first: the most important part is always in the same position
    'history_reversed': True,
    'n_positions': 128,
    'dropout': 0.0,
    'text_truncate': 96,
    'label_truncate': 32,
    'beam_min_length': 1,
    'beam_size': 1,
    'inference': 'greedy',
    'skip_generation': True,  # while training
    'optimizer': 'adam',
    'learningrate': 2e-3,
    'lr_scheduler': 'invsqrt',
    'warmup_updates': 100,
    'invsqrt_lr_decay_gamma': 1000,
    'gradient_clip': 1.0,
    'split_lines': True,
}
# the judge looks at the last utterance and three before it
JUDGE = {**MEDIUM, 'history_size': 4}
SMALL = {**MEDIUM, 'embedding_size': 64, 'ffn_size': 192, 'n_encoder_layers': 1}
POLY = {
    key: value
    for key, value in MEDIUM.items()
    if not key.startswith(('beam', 'inference', 'skip', 'n_enc', 'n_dec'))
} | {
    'model': RETRIEVER,
    'embedding_size': 96,
    'n_layers': 2,
    'polyencoder_type': 'codes',
    'poly_n_codes': 8,
    'reduction_type': 'mean',
    'share_encoders': False,
    'candidates': 'batch',
    'eval_candidates': 'batch',
    'output_scaling': 1.0,
    'learningrate': 1e-3,
}


@dataclass(frozen=True)
class Job:
    """
    One training run: `keep` maps the name of a shipped model to its update count.

    `lessons` are pairs of a source of examples and its number of updates.
    """

    keep: Mapping[str, int]
    lessons: tuple[tuple[str, int], ...]
    seed: int
    opt: Mapping[str, Any] = field(default_factory=lambda: MEDIUM)
    batchsize: int = 32
    candidates: int = 0  # dialogues that a retriever's own replies are taken from


LADDER = {
    'step-50': 50,
    'step-150': 150,
    'step-450': 450,
    'step-1350': 1350,
    'step-4050': 4050,
}

# longest first, so that two processes end together
JOBS = (
    Job({'judge': 6000}, (('judge-easy', 1200), ('judge', 4800)), seed=2, opt=JUDGE),
    Job({'judge-no-reactions': 6000}, (('chat', 6000),), seed=2, opt=JUDGE),
    Job(LADDER, (('chat', 4050),), seed=1),
    Job({'other-seed': 2500}, (('chat', 2500),), seed=3),
    Job({'retrieval': 1500}, (('chat', 1500),), seed=5, opt=POLY, candidates=400),
    Job({'smaller': 2500}, (('chat', 2500),), seed=4, opt=SMALL),
    Job({'judge-untrained': 0}, (('judge', 0),), seed=2, opt=JUDGE),
)
