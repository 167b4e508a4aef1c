"""
A limit on the tokens that go through a model at once, padding counted.
"""

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
    Runs items through a model in groups of similar width.

    When memory runs out, `tokens` is halved for good and the work goes on. Free memory
    is given back to the system after every `tokens` tokens.
    """

    def __init__(self, tokens: int = TOKENS):
        if tokens < 1:
            raise UserError(f'token budget {tokens}: must be 1 or more')
        self.tokens = tokens
        self._since_release = 0  # tokens done since memory was given back

    def run(
        self,
        widths: Sequence[int],
        step: Callable[[list[int]], list[T]],
    ) -> list[T]:
        """
        Return one result for each item, in the order of ``widths``.

        Groups depend on the widths and `tokens` alone; the widest items come first, so
        that memory runs out at the start or not at all.

        :param step: takes the indices of the items of a group, returns their results.
        :raises UserError: if a single item is too much for the memory.
        """
        order = sorted(range(len(widths)), key=lambda i: (-widths[i], i))
        results: dict[int, T] = {}
        while len(results) < len(order):
            rest = order[len(results) :]
            # a single item that is wider is a group of its own
            group = rest[: max(1, self.tokens // max(1, widths[rest[0]]))]
            done = self._try_group(group, widths, step)
            if done is not None:
                results.update(zip(group, done, strict=True))
        self._since_release += sum(widths)
        if self._since_release >= self.tokens:
            self._since_release = 0
            give_back()
        return [results[i] for i in range(len(widths))]

    def _try_group(
        self,
        group: list[int],
        widths: Sequence[int],
        step: Callable[[list[int]], list[T]],
    ) -> list[T] | None:
        """
        Return the group's results, or `None` after memory ran out and `tokens` was
        lowered.
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
                    'model, a lower precision or a larger GPU helps'
                ) from None
        # outside the handler, whose traceback would hold the step's tensors
        while self.tokens >= len(group) * width:
            self.tokens //= 2
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None
