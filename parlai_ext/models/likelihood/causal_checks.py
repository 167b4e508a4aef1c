"""
Checks that a causal model reads a tree of tokens as it reads plain text.
"""

from __future__ import annotations

import math
import random
from typing import Any

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.models.likelihood.causal import Causal
from parlai_ext.models.likelihood.prefix_packs import (
    TokenQuestion,
    TreeCosts,
    pack_questions,
)
from parlai_ext.systems.hub import POSITIONS
from parlai_ext.systems.torch_memory import is_out_of_memory

# mean difference of log-probabilities that rounding explains; a wrong mask gives more
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3}
HALF = 0.1
# the tree is longer than the local attention of models that take no mask for it
BRANCHES, DEPTH = 24, 14
CACHE_BRANCHES, CACHE_PASSES = 5, 3


def check_causal(judge: Causal) -> Causal:
    """
    Return the judge if its model gives the same log-probabilities for a random tree as
    for plain text. If it does not when it reads the tree in several passes, the judge
    is told to read every tree in one.

    :raises UserError: if it does not.
    """
    name = type(judge.model).__name__
    try:
        difference = tree_difference(judge)
    except Exception as e:
        if isinstance(e, UserError) or is_out_of_memory(e):
            raise
        problem = ' '.join(str(e).split())[:120]
        raise UserError(
            f'{name} cannot read a tree of continuations ({type(e).__name__}: '
            f'{problem}); use a model that takes position ids and a mask'
        ) from e
    if not difference <= TOLERANCE.get(judge.model.dtype, HALF):
        raise UserError(
            f'{name} reads a tree of continuations in another way than plain text '
            f'(log-probabilities differ by {difference:.2g}); use a model whose '
            'attention follows the mask that it is given'
        )
    try:
        difference = tree_difference(judge, CACHE_BRANCHES, CACHE_PASSES)
    except Exception as e:
        if is_out_of_memory(e):
            raise
        difference = math.inf
    judge.takes_cache = difference <= TOLERANCE.get(judge.model.dtype, HALF)
    return judge


def tree_difference(
    judge: Causal, n_branches: int = BRANCHES, n_passes: int = 1
) -> float:
    """
    Return by how much log-probabilities from a tree and from plain passes differ, on
    average over some tokens.

    :param n_passes: in how many passes the tree is read.
    """
    rng = random.Random(0)
    size = judge.model.get_input_embeddings().weight.shape[0]

    def some(n: int) -> tuple[int, ...]:
        return tuple(rng.randrange(size) for _ in range(n))

    shared = some(2)
    branches = tuple(sorted(shared + some(DEPTH - 2) for _ in range(n_branches)))
    asked = TokenQuestion(some(6), branches)
    [pack] = pack_questions([asked], TreeCosts(10**9, 10**9), with_context=False)
    [answers] = judge._compute([pack], n_passes)
    differences = [
        abs(ours - plain)
        for k in (0, 1, n_branches - 1)
        for ours, plain in zip(
            answers[0, k],
            plain_logprobs(judge, asked.context, branches[k]),
            strict=True,
        )
    ]
    return math.fsum(differences) / len(differences)


def plain_logprobs(
    judge: Causal, context: tuple[int, ...], continuation: tuple[int, ...]
) -> list[float]:
    """
    Return the log-probabilities of a continuation from a plain forward pass.
    """
    ids = torch.tensor([context + continuation], device=judge.device)
    with torch.inference_mode():
        logits = judge.model(input_ids=ids).logits[0].double()
    rows = torch.log_softmax(logits[len(context) - 1 : -1], dim=1)
    at = ids[0, len(context) :, None].to(rows.device)
    logprobs: list[float] = rows.gather(1, at)[:, 0].tolist()
    return logprobs


def max_positions(config: Any) -> int | None:
    """
    Return how many tokens a model reads at most; `None` if its config does not say.

    If rotary positions change beyond some length, it is that length: otherwise a number
    would depend on the other texts of its batch.
    """
    text = config.get_text_config()
    named = [getattr(text, name, None) for name in POSITIONS]
    rope = getattr(text, 'rope_parameters', None) or {}
    for parameters in (rope, *rope.values()):
        if isinstance(parameters, dict) and parameters.get('rope_type') == 'longrope':
            named.append(parameters.get('original_max_position_embeddings'))
            named.append(getattr(text, 'original_max_position_embeddings', None))
    return min((n for n in named if isinstance(n, int) and n > 0), default=None)
