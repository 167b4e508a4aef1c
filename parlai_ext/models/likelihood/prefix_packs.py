"""
Questions put together into trees of tokens, each tree one row of a forward pass.

Questions whose contexts are prefixes of one another, as those of a dialogue's turns
are, share a tree where that saves more than it costs: in a tree every token is
multiplied with every other, also with those that it does not see. For the same reason
very many continuations are better off in several trees, each with the context in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from parlai_ext.models.likelihood.prefix_tree import PrefixTree
from parlai_ext.models.likelihood.prefixes import common

CONTEXT = -1  # stands for the place of a continuation
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """
    A question as token ids; `cut` context tokens were left out before them.
    """

    context: Ids
    continuations: tuple[Ids, ...]
    cut: int = 0


@dataclass(frozen=True)
class Part:
    """
    A question, or some of it: continuations with their places.

    `tells` when the context's own log-probabilities are asked.
    """

    question: int
    context: Ids
    replies: tuple[tuple[int, Ids], ...]
    tells: bool = False


@dataclass(frozen=True)
class Costs:
    """
    What a tree costs, in multiples of what one token costs for each other token.

    :param token: what a token costs by itself. In a transformer of width d a layer
        multiplies a token with some 12 d² weights, and with 2 d numbers for each other
        token: 6 d.
    :param tokens: the most nodes of a tree with more than one sequence.
    """

    token: int
    tokens: int

    def of(self, nodes: int) -> int:
        """
        Return the cost of a tree of so many nodes.
        """
        return nodes * (self.token + nodes)

    def room(self, context: int) -> int:
        """
        Return how many nodes after so long a context make a tree of their own best.

        (c + n)(w + c + n) / n, the cost of a node, is least where n² = c (w + c).
        """
        best = math.isqrt(context * (self.token + context))
        return max(1, min(best, self.tokens - context))


@dataclass
class Pack:
    """
    One tree, and where its answers are.

    `edges` numbers the wanted (node, next token) pairs; `rows` says, by question and
    place, which of them make up a sequence.
    """

    tree: PrefixTree = field(default_factory=PrefixTree)
    edges: dict[tuple[int, int], int] = field(default_factory=dict)
    rows: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)

    def add(self, part: Part) -> None:
        """
        Take a part in.
        """
        self.parts.append(part)
        read = part.context if part.replies else part.context[:-1]
        nodes = self.tree.add(read)
        if part.tells:
            self._ask((part.question, CONTEXT), nodes, part.context[1:])
        for place, ids in part.replies:
            path = [nodes[-1], *self.tree.add(ids[:-1], nodes[-1])]
            self._ask((part.question, place), path, ids)

    def _ask(self, key: tuple[int, int], nodes: Iterable[int], ids: Ids) -> None:
        # the last node of a context that is told predicts none of its tokens
        pairs = zip(nodes, ids, strict=False)
        self.rows[key] = [self.edges.setdefault(p, len(self.edges)) for p in pairs]


def packed(asked: Sequence[Asked], costs: Costs, with_context: bool) -> list[Pack]:
    """
    Return trees that together answer all questions.

    What lies in a tree depends on the questions alone, not on their order.
    """
    parts = [
        Part(
            q,
            one.context,
            tuple((k, ids) for k, ids in enumerate(one.continuations) if ids),
            with_context and len(one.context) > 1,
        )
        for q, one in enumerate(asked)
    ]
    return packs_of([part for part in parts if part.replies or part.tells], costs)


def packs_of(parts: Iterable[Part], costs: Costs) -> list[Pack]:
    """
    Return trees of these parts: divided where a tree would be too large, then put
    together with their neighbours as long as that is cheaper.
    """
    packs: list[Pack] = []
    for part in sorted(parts, key=lambda p: (p.context, sorted(p.replies), p.tells)):
        for piece in divided(part, costs):
            alone = Pack()
            alone.add(piece)
            if packs and _cheaper(packs[-1], alone, costs):
                packs[-1].add(piece)
            else:
                packs.append(alone)
    return packs


def _cheaper(pack: Pack, other: Pack, costs: Costs) -> bool:
    """
    Return whether two trees are cheaper as one.
    """
    if pack.tree.tokens[:1] != other.tree.tokens[:1]:
        return False
    one, two = len(pack.tree), len(other.tree)
    both = one + two - pack.tree.shared(other.tree)
    fits = both <= max(costs.tokens, one)
    return fits and costs.of(both) <= costs.of(one) + costs.of(two)


def divided(part: Part, costs: Costs) -> Iterator[Part]:
    """
    Yield a part in pieces, each with a tree of about the best size.
    """
    replies = sorted(part.replies, key=lambda reply: reply[1])
    inner = [ids[:-1] for _, ids in replies]
    size = sum(
        len(ids) - common(before, ids)
        for before, ids in zip([(), *inner], inner, strict=False)
    )
    most = max(1, costs.tokens - len(part.context))
    room = costs.room(len(part.context))
    pieces = max(1, round(size / room), -(-size // most))
    longest = max(map(len, inner), default=0)
    limit = min(most, size if pieces == 1 else size // pieces + longest)
    tells = part.tells
    for first, last in _runs(inner, limit):
        yield replace(part, replies=tuple(replies[first:last]), tells=tells)
        tells = False


def _runs(inner: Sequence[Ids], limit: int) -> Iterator[tuple[int, int]]:
    """
    Yield the bounds of runs of sorted sequences with at most so many prefixes.
    """
    first, held = 0, 0
    for i, ids in enumerate(inner):
        new = len(ids) - (common(inner[i - 1], ids) if i > first else 0)
        if i > first and held + new > limit:
            yield first, i
            first, held, new = i, 0, len(ids)
        held += new
    yield first, len(inner)
