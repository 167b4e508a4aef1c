"""
Trees of continuations, in which common beginnings are there once.

A decoder reads the tree as one sequence in which every token sees only the tokens that
it follows. So it computes shared beginnings once, and nothing for padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Tree:
    """
    The tree of some continuations after the tokens a decoder starts with.

    `tokens`, `depths` and `parents` (-1 for the root) are those of its nodes, a parent
    before its children. The probability of `targets[i]` is read at `nodes[i]`: all
    tokens of all `continuations`, one after the other. A continuation's last
    token is a target and no node: nothing follows it.
    """

    continuations: tuple[Tokens, ...]
    tokens: tuple[int, ...]
    depths: tuple[int, ...]
    parents: tuple[int, ...]
    nodes: np.ndarray
    targets: np.ndarray

    def visible(self) -> np.ndarray:
        """
        Return ``[n, n]``: True where a node sees another, itself or one it follows.
        """
        visible = np.eye(len(self.tokens), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                visible[node] |= visible[parent]
        return visible


def build_tree(continuations: Sequence[Tokens], start: Tokens) -> Tree:
    """
    Return the tree of these continuations.

    :param start: the tokens that the decoder reads first; the last of them predicts a
        continuation's first token.
    """
    tokens, parents = list(start), list(range(-1, len(start) - 1))
    depths = list(range(len(start)))
    children: dict[tuple[int, int], int] = {}
    nodes: list[int] = []
    for ids in continuations:
        node = len(start) - 1
        for t, token in enumerate(ids):
            nodes.append(node)
            if t + 1 < len(ids):
                if (node, token) not in children:
                    children[node, token] = len(tokens)
                    tokens.append(token)
                    parents.append(node)
                    depths.append(depths[node] + 1)
                node = children[node, token]
    targets = [token for ids in continuations for token in ids]
    return Tree(
        tuple(continuations),
        tuple(tokens),
        tuple(depths),
        tuple(parents),
        np.array(nodes, dtype=np.int64),
        np.array(targets, dtype=np.int64),
    )


def build_trees(
    continuations: Sequence[Tokens], start: Tokens, limit: int
) -> tuple[Tree, ...]:
    """
    Return trees of at most about ``limit`` nodes that together hold every continuation.

    The cost of attention grows with the square of a tree's size. A single continuation
    that is longer is a tree of its own.
    """
    return tuple(build_tree(some, start) for some in _runs(continuations, limit))


def _runs(continuations: Sequence[Tokens], limit: int) -> Iterator[list[Tokens]]:
    """
    Yield the sorted continuations, of which neighbours share most, in runs.
    """
    run: list[Tokens] = []
    size = 0
    for ids in sorted(set(continuations)):
        new = len(ids) - (common_length(run[-1], ids) if run else 0)
        if run and size + new > limit:
            yield run
            run, size, new = [], 0, len(ids)
        run.append(ids)
        size += new
    if run:
        yield run


def common_length(first: Tokens, second: Tokens) -> int:
    """
    Return the length of the common beginning of two continuations.
    """
    n = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        n += 1
    return n
