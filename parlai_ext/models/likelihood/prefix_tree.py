"""
A tree of token sequences, in which each distinct prefix is there once.

In preorder the descendants of a node follow it without a gap, so that two numbers of a
node, its index and the end of its descendants, give the attention mask. For the same
reason a tree can be cut between any two nodes: all that the nodes after the cut see
before it are the ancestors of the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

ROOT = -1
Tokens = tuple[int, ...]


@dataclass(frozen=True)
class TreeSize:
    """
    The number of nodes of a tree, and the sum of their depths: how many ancestors each
    of them has.
    """

    n_nodes: int = 0
    total_depth: int = 0


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

    def joined_size(self, other: PrefixTree) -> TreeSize:
        """
        Return the size of one tree of the sequences of this tree and another.
        """
        here: dict[int, int] = {ROOT: ROOT}
        more = []
        for node, (parent, token, depth) in enumerate(
            zip(other.parents, other.tokens, other.depths, strict=True)
        ):
            known = self._children.get((here.get(parent, ROOT - 1), token))
            if known is None:
                more.append(depth)
            else:
                here[node] = known
        return TreeSize(len(self) + len(more), self._total_depth + sum(more))

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


def run_bounds(sequences: Sequence[Tokens], limit: int) -> Iterator[tuple[int, int]]:
    """
    Yield the bounds of runs of sorted sequences; the tree of a run has at most
    ``limit`` nodes, or the run is a single sequence.
    """
    first, n_nodes = 0, 0
    for i, ids in enumerate(sequences):
        new = len(ids) - (common_length(sequences[i - 1], ids) if i > first else 0)
        if i > first and n_nodes + new > limit:
            yield first, i
            first, n_nodes, new = i, 0, len(ids)
        n_nodes += new
    yield first, len(sequences)


def common_length(first: Tokens, second: Tokens) -> int:
    """
    Return the length of the common beginning of two sequences.
    """
    n = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        n += 1
    return n
