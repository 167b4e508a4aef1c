"""
The output layer of a causal model: logits of the rows that are asked, by slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from parlai_ext.models.likelihood.logprobs import picked, sliced

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
                return picked(logits, at, ids).tolist()
            with _rows(self.layer, asked, let=1) as kept:
                self.model(**inputs)
            size = max(1, LOGITS // self.layer.weight.shape[0])
            return sliced(self.layer, kept[0], at, ids, size).tolist()

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
