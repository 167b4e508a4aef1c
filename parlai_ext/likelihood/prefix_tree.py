"""
Token sequences as one tree, in which each distinct prefix is there once.

Sequences come in lexicographic order, so nodes come in preorder: the descendants of a
node follow it without a gap, and two numbers a node, its place and where its
descendants end, say who may look at whom.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


class PrefixTree:
    """
    A growing tree of tokens, one node for each distinct prefix but the empty one.

    The last token of a sequence is no node, since nothing looks at it. `ends[i]` is the
    place after the last descendant of node ``i``, once `close` was called.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.ends: list[int] = []
        self._last: Sequence[int] = ()
        self._path: list[int] = []

    def __len__(self) -> int:
        return len(self.tokens)

    def missing(self, ids: Sequence[int], known: int = 0) -> int:
        """
        Return how many nodes `add` would create.

        :param known: how many first tokens the last sequence is likely to share.
        """
        return max(0, len(ids) - 1 - self.shared(ids, known))

    def shared(self, ids: Sequence[int], known: int = 0) -> int:
        """
        Return how many first tokens are nodes of the last sequence.
        """
        n = known if ids[:known] == self._last[:known] else 0
        end = min(len(ids), len(self._last))
        while n < end and ids[n] == self._last[n]:
            n += 1
        return min(n, len(self._path))

    def add(self, ids: Sequence[int], known: int = 0) -> list[int]:
        """
        Return the nodes of all tokens but the last.

        :param ids: not before the last sequence in lexicographic order.
        """
        inner = len(ids) - 1
        kept = min(self.shared(ids, known), inner)
        self._leave(kept)
        for token in ids[kept:inner]:
            self._path.append(len(self.tokens))
            self.depths.append(len(self._path) - 1)
            self.tokens.append(token)
            self.ends.append(0)
        self._last = ids
        return list(self._path)

    def close(self) -> None:
        """
        Say that nothing more comes.
        """
        self._leave(0)

    def _leave(self, kept: int) -> None:
        for node in self._path[kept:]:
            self.ends[node] = len(self.tokens)
        del self._path[kept:]


def tree_mask(
    ends: torch.Tensor, depths: torch.Tensor, window: int | None = None
) -> torch.Tensor:
    """
    Return who sees whom, (batch, 1, nodes, nodes): a node sees its ancestors and itself.

    :param ends: (batch, nodes); padding ends right behind itself and is seen by nobody.
    :param window: a node sees no further back than this many tokens, itself included.
    """
    place = torch.arange(ends.shape[1], device=ends.device)
    later = place[:, None] >= place[None, :]
    seen = later & (place[None, :, None] < ends[:, None, :])
    if window is not None:
        seen &= depths[:, :, None] - depths[:, None, :] < window
    return seen.unsqueeze(1)
