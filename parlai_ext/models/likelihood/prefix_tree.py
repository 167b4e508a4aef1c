"""
A tree of token sequences, in which each distinct prefix is there once.

In preorder the descendants of a node follow it without a gap, so that two numbers of a
node, its index and the end of its descendants, give the attention mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

ROOT = -1


class PrefixTree:
    """
    A growing tree of tokens; a node's parent comes before it.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.parents: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, ids: Sequence[int], node: int = ROOT) -> list[int]:
        """
        Return the nodes of tokens that follow ``node``; missing ones are added.
        """
        nodes = []
        depth = 0 if node == ROOT else self.depths[node] + 1
        for token in ids:
            parent, node = node, self._children.get((node, token), ROOT)
            if node == ROOT:
                node = self._children[parent, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(parent)
                self.depths.append(depth)
            nodes.append(node)
            depth += 1
        return nodes

    def count_shared(self, other: PrefixTree) -> int:
        """
        Return how many nodes of another tree are in this one too.
        """
        here: dict[int, int] = {ROOT: ROOT}
        for node, (parent, token) in enumerate(
            zip(other.parents, other.tokens, strict=True)
        ):
            if parent in here and (here[parent], token) in self._children:
                here[node] = self._children[here[parent], token]
        return len(here) - 1

    def preorder(self) -> Preorder:
        """
        Return the nodes in preorder, siblings by token.
        """
        below: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            below.setdefault(parent, []).append(node)
        for some in below.values():
            some.sort(key=lambda node: -self.tokens[node])
        order: list[int] = []
        waiting = list(below.get(ROOT, ()))
        while waiting:
            order.append(waiting.pop())
            waiting += below.get(order[-1], ())
        sizes = [1] * len(order)
        for node in reversed(range(len(order))):
            if self.parents[node] != ROOT:
                sizes[self.parents[node]] += sizes[node]
        places = [0] * len(order)
        for place, node in enumerate(order):
            places[node] = place
        return Preorder(
            [self.tokens[node] for node in order],
            [self.depths[node] for node in order],
            [place + sizes[node] for place, node in enumerate(order)],
            places,
        )


@dataclass(frozen=True)
class Preorder:
    """
    A finished tree: tokens, depths, and where the descendants of each node end.

    ``places[i]`` is the index of node ``i`` of the growing tree.
    """

    tokens: list[int]
    depths: list[int]
    ends: list[int]
    places: list[int]


def tree_mask(
    ends: torch.Tensor, depths: torch.Tensor, window: int | None = None
) -> torch.Tensor:
    """
    Return the mask (batch, 1, nodes, nodes): a node sees its ancestors and itself.

    :param ends: (batch, nodes), the index after a node's last descendant; no other node
        sees padding.
    :param window: a node sees no further back than this many tokens, itself included.
    """
    place = torch.arange(ends.shape[1], device=ends.device)
    later = place[:, None] >= place[None, :]
    seen = later & (place[None, :, None] < ends[:, None, :])
    if window is not None:
        seen &= depths[:, :, None] - depths[:, None, :] < window
    return seen.unsqueeze(1)
