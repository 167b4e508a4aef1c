"""
How much goes through a model at once: a number of tokens, padding counted.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.systems.torch_memory import give_back, is_out_of_memory

T = TypeVar('T')
TOKENS = 16384


class Budget:
    """
    Runs items through a model in groups of like width.

    When memory runs out, `tokens` is halved for good and the work goes on. Memory that
    is free is given back to the system each time that so many tokens are done.
    """

    def __init__(self, tokens: int = TOKENS):
        if tokens < 1:
            raise UserError(f'token budget {tokens}: must be 1 or more')
        self.tokens = tokens
        self._kept = 0  # tokens done since memory was given back

    def run(
        self,
        widths: Sequence[int],
        step: Callable[[list[int]], list[T]],
        progress: Callable[[int], object] | None = None,
    ) -> list[T]:
        """
        Return one result for each item, in the order of ``widths``.

        Groups depend on the widths and `tokens` alone; the widest items come first, so
        that memory runs out at the start or not at all.

        :param step: takes the places of the items of a group, returns their results.
        :param progress: called with the number of items of each finished group.
        :raises UserError: when a single item is too much for the memory.
        """
        order = sorted(range(len(widths)), key=lambda i: (-widths[i], i))
        found: dict[int, T] = {}
        while len(found) < len(order):
            group = first_group(order, len(found), widths, self.tokens)
            done = self._tried(group, widths, step)
            if done is not None:
                found.update(zip(group, done, strict=True))
                if progress is not None:
                    progress(len(group))
        self._kept += sum(widths)
        if self._kept >= self.tokens:
            self._kept = 0
            give_back()
        return [found[i] for i in range(len(widths))]

    def _tried(
        self,
        group: list[int],
        widths: Sequence[int],
        step: Callable[[list[int]], list[T]],
    ) -> list[T] | None:
        """
        Return the group's results; `None` if memory ran out and `tokens` is smaller.
        """
        width = max(1, widths[group[0]])
        try:
            return step(group)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(group) == 1:
                raise UserError(
                    f'out of memory with a single item of {width} tokens; a smaller '
                    'model, a lower precision or a larger GPU would do'
                ) from None
        # outside the handler, whose traceback would hold the step's tensors
        while self.tokens >= len(group) * width:
            self.tokens //= 2
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None


def first_group(
    order: Sequence[int], start: int, widths: Sequence[int], tokens: int
) -> list[int]:
    """
    Return the items from ``start`` whose count times widest is within ``tokens``.

    Items come widest first. A single wider item is a group of its own.
    """
    width = max(1, widths[order[start]])
    return list(order[start : start + max(1, tokens // width)])
