"""
A tree of token sequences, in which each distinct prefix is there once.

In preorder the descendants of a node follow it without a gap, so that two numbers of a
node, its index and the end of its descendants, give the attention mask. For the same
reason a tree can be cut between any two nodes: all that the nodes after the cut see
before it are the ancestors of the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

ROOT = -1


@dataclass(frozen=True)
class TreeSize:
    """
    The number of nodes of a tree, and the sum of their depths: how many ancestors each
    of them has.
    """

    n_nodes: int = 0
    total_depth: int = 0

    def __add__(self, other: TreeSize) -> TreeSize:
        return TreeSize(
            self.n_nodes + other.n_nodes, self.total_depth + other.total_depth
        )

    def __sub__(self, other: TreeSize) -> TreeSize:
        return TreeSize(
            self.n_nodes - other.n_nodes, self.total_depth - other.total_depth
        )


class PrefixTree:
    """
    A growing tree of tokens; a node's parent comes before it.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.parents: list[int] = []
        self._total_depth = 0
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def size(self) -> TreeSize:
        """
        The number of nodes and the sum of their depths.
        """
        return TreeSize(len(self.tokens), self._total_depth)

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
                self._total_depth += depth
            nodes.append(node)
            depth += 1
        return nodes

    def shared_size(self, other: PrefixTree) -> TreeSize:
        """
        Return the size of what this tree and another have in common.
        """
        here: dict[int, int] = {ROOT: ROOT}
        for node, (parent, token) in enumerate(
            zip(other.parents, other.tokens, strict=True)
        ):
            if parent in here and (here[parent], token) in self._children:
                here[node] = self._children[here[parent], token]
        depths = [other.depths[node] for node in here if node != ROOT]
        return TreeSize(len(depths), sum(depths))

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

    def passes(self, n_passes: int) -> list[TreePass]:
        """
        Return the tree in passes of about equal size.
        """
        n = len(self.tokens)
        bounds = [n * i // n_passes for i in range(n_passes + 1)]
        return [
            TreePass(first, last, [i for i in range(first) if self.ends[i] > first])
            for first, last in pairwise(bounds)
        ]


@dataclass(frozen=True)
class TreePass:
    """
    The nodes of a tree from ``first`` to before ``last``, which are read in one pass,
    and those before them that they see: the ancestors of the first.
    """

    first: int
    last: int
    ancestors: list[int]

    @property
    def visible(self) -> list[int]:
        """
        The nodes whose keys and values are there during this pass, in order.
        """
        return [*self.ancestors, *range(self.first, self.last)]


def tree_mask(
    ends: torch.Tensor,
    depths: torch.Tensor,
    part: TreePass,
    window: int | None = None,
) -> torch.Tensor:
    """
    Return the mask of a pass (batch, 1, nodes of the pass, visible nodes): a node sees
    its ancestors and itself.

    :param ends: (batch, nodes), the index after a node's last descendant; no other node
        sees padding.
    :param window: a node sees no further back than this many tokens, itself included.
    """
    reading = torch.arange(part.first, part.last, device=ends.device)
    visible = torch.tensor(part.visible, device=ends.device)
    later = reading[:, None] >= visible[None, :]
    seen = later & (reading[None, :, None] < ends[:, None, visible])
    if window is not None:
        seen &= depths[:, reading, None] - depths[:, None, visible] < window
    return seen.unsqueeze(1)
