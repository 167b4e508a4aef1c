"""
Questions put together into trees of tokens, each tree one row of a forward pass.

Questions whose contexts are prefixes of one another, as those of a dialogue's turns are,
share a tree as long as that saves more than it costs: in a tree every token is
multiplied with every other, also with those that it does not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from parlai_ext.likelihood.prefix_tree import PrefixTree

CONTEXT = -1  # stands for the place of a continuation


@dataclass(frozen=True)
class Asked:
    """
    A question as token ids; `cut` context tokens were left out before them.
    """

    context: tuple[int, ...]
    continuations: tuple[tuple[int, ...], ...]
    cut: int = 0


@dataclass(frozen=True)
class Wanted:
    """
    One sequence of tokens: ``ids[read:]`` is asked, what is before is only read.

    `key` is the number of the question and that of its continuation, or `CONTEXT`.
    """

    ids: tuple[int, ...]
    read: int
    key: tuple[int, int]


@dataclass(frozen=True)
class Costs:
    """
    What a tree costs, in multiples of what one token costs for each other token.

    :param token: what a token costs by itself. In a transformer of width d a layer
        multiplies a token with some 12 d² weights, and with 2 d numbers for each other
        token: 6 d.
    :param tokens: the most nodes of a tree that several sequences share.
    """

    token: int
    tokens: int

    def of(self, nodes: int) -> int:
        """
        Return the cost of a tree of so many nodes.
        """
        return nodes * (self.token + nodes)


@dataclass
class Pack:
    """
    One tree, and where its answers are.

    `edges` numbers the wanted (node, next token) pairs; `rows` says, by key, which of
    them make up a sequence.
    """

    tree: PrefixTree = field(default_factory=PrefixTree)
    edges: dict[tuple[int, int], int] = field(default_factory=dict)
    rows: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def add(self, one: Wanted) -> None:
        """
        Take a sequence in, which is not before the last one in lexicographic order.
        """
        nodes = self.tree.add(one.ids, one.read)
        pairs = zip(nodes[one.read - 1 :], one.ids[one.read :], strict=True)
        self.rows[one.key] = [self.edges.setdefault(p, len(self.edges)) for p in pairs]

    def takes(self, one: Wanted, costs: Costs) -> bool:
        """
        Return whether a sequence is cheaper in this tree than in one of its own.
        """
        if not self.tree.shared(one.ids, one.read):
            return False
        nodes, more = len(self.tree), self.tree.missing(one.ids, one.read)
        if more and nodes + more > costs.tokens:
            return False
        alone = costs.of(len(one.ids) - 1)
        return costs.of(nodes + more) - costs.of(nodes) <= alone


def packed(asked: Sequence[Asked], costs: Costs, with_context: bool) -> list[Pack]:
    """
    Return trees that together answer all questions.

    What lies in a tree depends on the questions alone, not on their order.
    """
    packs: list[Pack] = []
    for one in wanted(asked, with_context):
        if not packs or not packs[-1].takes(one, costs):
            packs.append(Pack())
        packs[-1].add(one)
    for pack in packs:
        pack.tree.close()
    return packs


def wanted(asked: Sequence[Asked], with_context: bool) -> list[Wanted]:
    """
    Return all sequences with something to be asked, in lexicographic order.

    A context's first token has no probability: there is nothing before it.
    """
    found = []
    for q, one in enumerate(asked):
        if with_context and len(one.context) > 1:
            found.append(Wanted(one.context, 1, (q, CONTEXT)))
        for k, ids in enumerate(one.continuations):
            if ids:
                found.append(Wanted(one.context + ids, len(one.context), (q, k)))
    return sorted(found, key=lambda w: (w.ids, w.key))
