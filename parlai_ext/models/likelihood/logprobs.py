"""
Log-probabilities of tokens from an output layer, a slice of rows at a time.

Logits take more memory than anything else in a language model, so they are never all
there at once.
"""

from collections.abc import Callable

import torch

from parlai_ext.core.watch import Watch

# of the continuations of one context or tree, by tokens or by place
Logprobs = dict[tuple[int, ...], tuple[float, ...]]
# what logits of rows tell of tokens: (logits, rows, tokens) -> numbers
Pick = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def sliced_logprobs(
    layer: Callable[[torch.Tensor], torch.Tensor],
    hidden: torch.Tensor,
    at: torch.Tensor,
    ids: torch.Tensor,
    size: int,
    pick: Pick,
) -> torch.Tensor:
    """
    Return the log-probability of ``ids[i]`` after row ``at[i]`` of ``hidden``.

    :param pick: what is told of these tokens instead (`pick_most_likely`).
    :param layer: makes ``[n, vocabulary]`` logits of ``[n, features]``.
    :param at: on the CPU, like ``ids``.
    :param size: how many rows go through the layer at once.
    """
    at, order = at.sort(stable=True)
    starts = range(0, len(hidden), size)
    bounds = torch.searchsorted(at, torch.tensor([*starts, len(hidden)])).tolist()
    parts = [
        pick(
            layer(hidden[start : start + size]),
            at[first:last] - start,
            ids[order[first:last]],
        )
        for start, first, last in zip(starts, bounds, bounds[1:], strict=False)
    ]
    logprobs = torch.cat(parts)
    places = order.to(logprobs.device)
    return torch.empty_like(logprobs).scatter_(0, places, logprobs)


def pick_logprobs(
    logits: torch.Tensor, at: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """
    Return the log-probability of ``ids[i]`` in ``logits[at[i]]``.

    Half precision is widened before it is normalised: it would round -10 to the next
    1/128.
    """
    wide = torch.promote_types(logits.dtype, torch.float32)
    logprobs = torch.log_softmax(logits, dim=-1, dtype=wide)
    return logprobs[at.to(logits.device), ids.to(logits.device)]


def pick_most_likely(
    logits: torch.Tensor, at: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """
    Return 1 where no other token is likelier than ``ids[i]`` in ``logits[at[i]]``, else
    0.
    """
    rows = at.to(logits.device)
    own = logits[rows, ids.to(logits.device)]
    return (own == logits.max(-1).values[rows]).to(torch.float32)


def pick_function(greedy: bool) -> Pick:
    """
    Return what a call of ``answer`` tells of tokens.
    """
    return pick_most_likely if greedy else pick_logprobs


def kept_logprobs(
    watch: Watch, key: str, compute: Callable[[], list[Logprobs]]
) -> list[Logprobs]:
    """
    Return the log-probabilities of a batch, computed now or kept from before.
    """
    kept = watch.get(key)
    if kept is not None:
        return [{tuple(k): tuple(v) for k, v in pairs} for pairs in kept]
    rows = compute()
    if watch.keeps:
        watch.put(key, [[[list(k), list(v)] for k, v in row.items()] for row in rows])
    return rows
