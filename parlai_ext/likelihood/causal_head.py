"""
The output layer of a causal model: logits of the rows that are asked, by slices.

Logits are the widest numbers of a language model, so they are never there all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

LOGITS = 2**23  # numbers that are written at once


class Head:
    """
    The log-probabilities of tokens, given what stands before a model's output layer.

    Some models change their logits behind that layer (Gemma caps, Cohere scales). What
    they do cannot be known from outside, so that theirs are made in one go.
    """

    def __init__(self, model: Any):
        self.model = model
        self.layer = model.get_output_embeddings()
        self._plain: bool | None = None

    def logprobs(
        self, inputs: dict[str, Any], rows: Sequence[int], tokens: Sequence[int]
    ) -> list[float]:
        """
        Return log P(``tokens[i]``) at ``rows[i]``, of all nodes of a batch in a line.

        :param inputs: what the model is called with.
        """
        asked = sorted(set(rows))
        place = {row: i for i, row in enumerate(asked)}
        at = torch.tensor([place[row] for row in rows])
        ids = torch.tensor(tokens)
        with torch.inference_mode():
            if not self.plain:
                with _rows(self.layer, asked):
                    logits = self.model(**inputs).logits[0]
                return _picked(logits, at, ids).tolist()
            with _rows(self.layer, asked, let=1) as kept:
                self.model(**inputs)
            return self._sliced(kept[0], at, ids).tolist()

    def _sliced(
        self, hidden: torch.Tensor, at: torch.Tensor, ids: torch.Tensor
    ) -> torch.Tensor:
        """
        Return the log-probabilities of ``ids`` at rows ``at`` of ``hidden``.
        """
        at, order = at.sort(stable=True)
        size = max(1, LOGITS // self.layer.weight.shape[0])
        starts = range(0, len(hidden), size)
        bounds = torch.searchsorted(at, torch.tensor([*starts, len(hidden)])).tolist()
        parts = [
            _picked(
                self.layer(hidden[start : start + size]),
                at[first:last] - start,
                ids[order[first:last]],
            )
            for start, first, last in zip(starts, bounds, bounds[1:], strict=False)
        ]
        found = torch.cat(parts)
        return torch.empty_like(found).scatter_(0, order.to(found.device), found)

    @property
    def plain(self) -> bool:
        """
        Whether the model's logits are what its output layer says, and no more.
        """
        if self._plain is None:
            probe = torch.zeros(
                1,
                2,
                dtype=torch.long,
                device=self.model.get_input_embeddings().weight.device,
            )
            with _rows(self.layer, [0, 1]) as kept:
                whole = self.model(input_ids=probe, use_cache=False).logits[0]
            self._plain = torch.equal(whole, self.layer(kept[0]))
        return self._plain


def _picked(logits: torch.Tensor, at: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """
    Return the log-probability of ``ids[i]`` in ``logits[at[i]]``.

    Half precision is widened before it is normalised: it would round -10 to the next
    1/128.
    """
    wide = torch.promote_types(logits.dtype, torch.float32)
    logprobs = torch.log_softmax(logits, dim=-1, dtype=wide)
    return logprobs[at.to(logits.device), ids.to(logits.device)]


@contextmanager
def _rows(
    layer: torch.nn.Module, rows: Sequence[int], let: int | None = None
) -> Iterator[list[torch.Tensor]]:
    """
    Let a layer see these rows only, of all nodes of a batch in a line; what it would
    have seen is handed out.

    :param let: how many of them it really sees.
    """
    kept: list[torch.Tensor] = []

    def pick(_: Any, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden = given[0].flatten(0, -2)
        kept.append(hidden[torch.tensor(rows, device=hidden.device)])
        return (kept[0][:let].unsqueeze(0), *given[1:])

    hook = layer.register_forward_pre_hook(pick)
    try:
        yield kept
    finally:
        hook.remove()
