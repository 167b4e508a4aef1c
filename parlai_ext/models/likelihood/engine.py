"""
What the engines for causal models and for encoder-decoders share: a limit on the tokens
that go through a model at once, contexts and continuations as token ids, and
log-probabilities from an output layer.

Logits take more memory than anything else in a language model, so they are never all
there at once.
"""

import gc
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.trees import Rows, Tokens
from parlai_ext.models.watch import NO_WATCH
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


class Vectorizer(Protocol):
    """
    Turns contexts and continuations into a model's token ids.
    """

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of a history, and how many were cut.
        """
        ...

    def continuation(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply, its end token included.
        """
        ...


class LikelihoodEngine:
    """
    A model with its vectorizer, signature and budget.

    :param network: what has the weights.
    :param vectorizer: `None` where contexts and continuations are token ids.
    :param tokens: the most tokens of a forward pass, padding counted.
    :ivar watch: is told of finished work, and keeps it.
    :ivar greedy: the call under way asks for greedy tokens.
    """

    def __init__(
        self, network: Any, vectorizer: Vectorizer | None, signature: str, tokens: int
    ):
        self.network, self.vectorizer = network, vectorizer
        self.signature = signature
        self.budget = Budget(tokens)
        self.watch = NO_WATCH
        self.greedy = False

    @property
    def num_parameters(self) -> int:
        """
        How many weights the model has.
        """
        return sum(weight.numel() for weight in self.network.parameters())

    def reply_ids(self, question: Question) -> tuple[Tokens, ...]:
        """
        Return the token ids of each continuation; those that are ids stay as they are.
        """
        ids = []
        for reply in question.continuations:
            if isinstance(reply, str):
                assert self.vectorizer is not None, 'texts need a vectorizer'
                reply = self.vectorizer.continuation(reply)
            ids.append(tuple(reply))
        return tuple(ids)

    def logprobs(
        self,
        layer: Callable[[torch.Tensor], torch.Tensor],
        hidden: torch.Tensor,
        at: torch.Tensor,
        ids: torch.Tensor,
        size: int,
    ) -> torch.Tensor:
        """
        Return the log-probability of ``ids[i]`` after row ``at[i]`` of ``hidden``.

        :param layer: makes ``[n, vocabulary]`` logits of ``[n, features]``.
        :param at: on the CPU, like ``ids``.
        :param size: how many rows go through the layer at once.
        """
        at, order = at.sort(stable=True)
        starts = range(0, len(hidden), size)
        bounds = torch.searchsorted(at, torch.tensor([*starts, len(hidden)])).tolist()
        parts = [
            self.pick(
                layer(hidden[start : start + size]),
                at[first:last] - start,
                ids[order[first:last]],
            )
            for start, first, last in zip(starts, bounds, bounds[1:], strict=False)
        ]
        logprobs = torch.cat(parts)
        places = order.to(logprobs.device)
        return torch.empty_like(logprobs).scatter_(0, places, logprobs)

    def pick(
        self, logits: torch.Tensor, at: torch.Tensor, ids: torch.Tensor
    ) -> torch.Tensor:
        """
        Return the log-probability of ``ids[i]`` in ``logits[at[i]]``; in a greedy call
        1 where no other token is likelier there, else 0.

        Half precision is widened before it is normalised: it would round -10 to the
        next 1/128.
        """
        at, ids = at.to(logits.device), ids.to(logits.device)
        if self.greedy:
            return (logits[at, ids] == logits.max(-1).values[at]).to(torch.float32)
        wide = torch.promote_types(logits.dtype, torch.float32)
        return torch.log_softmax(logits, dim=-1, dtype=wide)[at, ids]

    def kept_rows(self, key: str, compute: Callable[[], list[Rows]]) -> list[Rows]:
        """
        Return the log-probabilities of a batch, computed now or kept from before.
        """
        return self.watch.results(
            key,
            compute,
            lambda rows: [list(row.items()) for row in rows],
            lambda kept: [{tuple(k): tuple(v) for k, v in pairs} for pairs in kept],
        )


def distinct_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Return the different rows in order, one at the least, and the place of each in them.
    """
    distinct, places = rows.unique(return_inverse=True)
    return distinct if len(distinct) else rows.new_zeros(1), places
