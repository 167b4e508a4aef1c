"""
What a causal model must be, so that a tree gives the numbers that it gives by itself.
"""

from __future__ import annotations

import math
import random
from typing import Any

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.models.likelihood.causal import Causal
from parlai_ext.models.likelihood.prefix_packs import Asked, Costs, packed
from parlai_ext.systems.torch_memory import is_out_of_memory

# what a config calls the number of positions that a model was made for
POSITIONS = ('max_position_embeddings', 'n_positions', 'max_seq_len', 'n_ctx')
# mean difference of log-probabilities that rounding explains; a wrong mask gives more
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3}
HALF = 0.1
# the trial's tree is longer than the local attention of models that take no mask for it
BRANCHES, DEPTH = 24, 14


def checked(judge: Causal) -> Causal:
    """
    Return the judge if, on a trial, its model reads a tree as it reads plain text.

    :raises UserError: when it does not, in one line.
    """
    name = type(judge.model).__name__
    try:
        differs = trial(judge)
    except Exception as e:
        if isinstance(e, UserError) or is_out_of_memory(e):
            raise
        why = ' '.join(str(e).split())[:120]
        raise UserError(
            f'{name} cannot read a tree of continuations ({type(e).__name__}: {why}); '
            'one with position ids and a mask of its own would do'
        ) from e
    if not differs <= TOLERANCE.get(judge.model.dtype, HALF):
        raise UserError(
            f'{name} reads a tree of continuations in another way than plain text '
            f'(log-probabilities differ by {differs:.2g}); one whose attention follows '
            'the mask that it is given would do'
        )
    return judge


def trial(judge: Causal) -> float:
    """
    Return by how much a tree and plain passes differ, on average over some tokens.
    """
    rng = random.Random(0)
    size = judge.model.get_input_embeddings().weight.shape[0]

    def some(n: int) -> tuple[int, ...]:
        return tuple(rng.randrange(size) for _ in range(n))

    shared = some(2)
    branches = tuple(sorted(shared + some(DEPTH - 2) for _ in range(BRANCHES)))
    asked = Asked(some(6), branches)
    [pack] = packed([asked], Costs(10**9, 10**9), with_context=False)
    [found] = judge._pass([pack])
    differences = [
        abs(ours - plain)
        for k in (0, 1, BRANCHES - 1)
        for ours, plain in zip(
            found[0, k], one_pass(judge, asked.context, branches[k]), strict=True
        )
    ]
    return math.fsum(differences) / len(differences)


def one_pass(
    judge: Causal, context: tuple[int, ...], continuation: tuple[int, ...]
) -> list[float]:
    """
    Return the log-probabilities of a continuation, as the model says them by itself.
    """
    ids = torch.tensor([context + continuation], device=judge.device)
    with torch.inference_mode():
        logits = judge.model(input_ids=ids).logits[0].double()
    own = torch.log_softmax(logits[len(context) - 1 : -1], dim=1)
    at = ids[0, len(context) :, None].to(own.device)
    found: list[float] = own.gather(1, at)[:, 0].tolist()
    return found


def positions(config: Any) -> int | None:
    """
    Return how many tokens a model reads at most; `None` where nothing says so.

    Where rotary positions change once a text grows beyond a length, that length: else a
    number would depend on what else is in its batch.
    """
    text = config.get_text_config()
    named = [getattr(text, name, None) for name in POSITIONS]
    rope = getattr(text, 'rope_parameters', None) or {}
    for one in (rope, *rope.values()):
        if isinstance(one, dict) and one.get('rope_type') == 'longrope':
            named.append(one.get('original_max_position_embeddings'))
            named.append(getattr(text, 'original_max_position_embeddings', None))
    return min((n for n in named if isinstance(n, int) and n > 0), default=None)
