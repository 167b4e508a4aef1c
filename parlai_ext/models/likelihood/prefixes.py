"""
Continuations as a tree of their common beginnings.

A decoder that reads the tree as one sequence, every token seeing only the tokens it
follows, computes what continuations share once, and nothing for padding.
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
    before its children. `nodes` and `targets` say which distribution is asked for which
    token: all pairs of all `continuations`, one after the other. A continuation's last
    token is a target and no node: nothing follows it.
    """

    continuations: tuple[Tokens, ...]
    tokens: tuple[int, ...]
    depths: tuple[int, ...]
    parents: tuple[int, ...]
    nodes: np.ndarray
    targets: np.ndarray

    def sees(self) -> np.ndarray:
        """
        Return which node sees which: ``[n, n]``, itself and those it follows.
        """
        found = np.eye(len(self.tokens), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                found[node] |= found[parent]
        return found


def grow(continuations: Sequence[Tokens], start: Tokens) -> Tree:
    """
    Return the tree of these continuations.

    :param start: what the decoder reads first; its last token predicts the first token.
    """
    tokens, parents = list(start), list(range(-1, len(start) - 1))
    depths = list(range(len(start)))
    known: dict[tuple[int, int], int] = {}
    nodes: list[int] = []
    for ids in continuations:
        node = len(start) - 1
        for t, token in enumerate(ids):
            nodes.append(node)
            if t + 1 < len(ids):
                if (node, token) not in known:
                    known[node, token] = len(tokens)
                    tokens.append(token)
                    parents.append(node)
                    depths.append(depths[node] + 1)
                node = known[node, token]
    targets = [token for ids in continuations for token in ids]
    return Tree(
        tuple(continuations),
        tuple(tokens),
        tuple(depths),
        tuple(parents),
        np.array(nodes, dtype=np.int64),
        np.array(targets, dtype=np.int64),
    )


def forest(
    continuations: Sequence[Tokens], start: Tokens, limit: int
) -> tuple[Tree, ...]:
    """
    Return trees of at most about ``limit`` nodes that hold every continuation.

    The cost of attention grows with the square of a tree. A single continuation that
    is longer is a tree of its own.
    """
    return tuple(grow(some, start) for some in _runs(continuations, limit))


def _runs(continuations: Sequence[Tokens], limit: int) -> Iterator[list[Tokens]]:
    """
    Cut continuations, sorted so that neighbours share most, into runs.
    """
    run: list[Tokens] = []
    size = 0
    for ids in sorted(set(continuations)):
        new = len(ids) - (common(run[-1], ids) if run else 0)
        if run and size + new > limit:
            yield run
            run, size, new = [], 0, len(ids)
        run.append(ids)
        size += new
    if run:
        yield run


def common(one: Tokens, other: Tokens) -> int:
    """
    Return how many tokens two continuations have in common at their beginning.
    """
    n = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        n += 1
    return n
