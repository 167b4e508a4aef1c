"""
Packs questions into trees of tokens; each tree is one row of a forward pass.

Questions whose contexts are prefixes of one another, as those of a dialogue's turns
are, share a tree where that saves more than it costs: in a tree every token is
multiplied with every other, also with those that it does not see. For the same reason
very many continuations are cheaper in several trees, each with the context in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from parlai_ext.models.likelihood.prefix_tree import PrefixTree
from parlai_ext.models.likelihood.prefixes import common_length

CONTEXT = -1  # in place of a continuation's index
Ids = tuple[int, ...]


@dataclass(frozen=True)
class TokenQuestion:
    """
    A question as token ids; `cut` context tokens were left out before them.
    """

    context: Ids
    continuations: tuple[Ids, ...]
    cut: int = 0


@dataclass(frozen=True)
class QuestionPart:
    """
    A question, or part of it: continuations with their indices.

    `with_context` is true if the context's own log-probabilities are wanted.
    """

    question: int
    context: Ids
    replies: tuple[tuple[int, Ids], ...]
    with_context: bool = False


@dataclass(frozen=True)
class TreeCosts:
    """
    The cost of a tree; the unit is the cost of one token attending to one other.

    :param token: the cost of a token by itself. In a transformer of width d a layer
        multiplies a token with about 12 d² weights, and with 2 d numbers for each other
        token: 6 d.
    :param tokens: the most nodes of a tree with more than one sequence.
    """

    token: int
    tokens: int

    def of_tree(self, nodes: int) -> int:
        """
        Return the cost of a tree of so many nodes.
        """
        return nodes * (self.token + nodes)

    def room(self, context: int) -> int:
        """
        Return the best number of nodes for a tree after a context of this length.

        (c + n)(w + c + n) / n, the cost of a node, is least where n² = c (w + c).
        """
        best = math.isqrt(context * (self.token + context))
        return max(1, min(best, self.tokens - context))


@dataclass
class Pack:
    """
    One tree, and the positions of its answers.

    `edges` numbers the wanted (node, next token) pairs; `rows` says, by question and
    place, which of them make up a sequence.
    """

    tree: PrefixTree = field(default_factory=PrefixTree)
    edges: dict[tuple[int, int], int] = field(default_factory=dict)
    rows: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    parts: list[QuestionPart] = field(default_factory=list)

    def add(self, part: QuestionPart) -> None:
        """
        Add a part to the tree.
        """
        self.parts.append(part)
        read = part.context if part.replies else part.context[:-1]
        nodes = self.tree.add(read)
        if part.with_context:
            self._want((part.question, CONTEXT), nodes, part.context[1:])
        for place, ids in part.replies:
            path = [nodes[-1], *self.tree.add(ids[:-1], nodes[-1])]
            self._want((part.question, place), path, ids)

    def _want(self, key: tuple[int, int], nodes: Iterable[int], ids: Ids) -> None:
        # the last node of a context that is told predicts none of its tokens
        pairs = zip(nodes, ids, strict=False)
        self.rows[key] = [self.edges.setdefault(p, len(self.edges)) for p in pairs]


def pack_questions(
    asked: Sequence[TokenQuestion], costs: TreeCosts, with_context: bool
) -> list[Pack]:
    """
    Return trees that together answer all questions.

    The trees depend on the questions alone, not on their order.
    """
    parts = [
        QuestionPart(
            q,
            question.context,
            tuple((k, ids) for k, ids in enumerate(question.continuations) if ids),
            with_context and len(question.context) > 1,
        )
        for q, question in enumerate(asked)
    ]
    return pack_parts(
        [part for part in parts if part.replies or part.with_context], costs
    )


def pack_parts(parts: Iterable[QuestionPart], costs: TreeCosts) -> list[Pack]:
    """
    Return trees of these parts. A part whose tree would be too large is divided;
    neighbours share a tree as long as that is cheaper.
    """
    packs: list[Pack] = []
    for part in sorted(
        parts, key=lambda p: (p.context, sorted(p.replies), p.with_context)
    ):
        for piece in divide_part(part, costs):
            alone = Pack()
            alone.add(piece)
            if packs and _is_cheaper_joined(packs[-1], alone, costs):
                packs[-1].add(piece)
            else:
                packs.append(alone)
    return packs


def _is_cheaper_joined(pack: Pack, other: Pack, costs: TreeCosts) -> bool:
    """
    True if two trees are cheaper as one.
    """
    if pack.tree.tokens[:1] != other.tree.tokens[:1]:
        return False
    size, other_size = len(pack.tree), len(other.tree)
    both = size + other_size - pack.tree.count_shared(other.tree)
    fits = both <= max(costs.tokens, size)
    return fits and costs.of_tree(both) <= costs.of_tree(size) + costs.of_tree(
        other_size
    )


def divide_part(part: QuestionPart, costs: TreeCosts) -> Iterator[QuestionPart]:
    """
    Yield a part in pieces, each with a tree of about the best size.
    """
    replies = sorted(part.replies, key=lambda reply: reply[1])
    inner = [ids[:-1] for _, ids in replies]
    size = sum(
        len(ids) - common_length(before, ids)
        for before, ids in zip([(), *inner], inner, strict=False)
    )
    most = max(1, costs.tokens - len(part.context))
    room = costs.room(len(part.context))
    pieces = max(1, round(size / room), -(-size // most))
    longest = max(map(len, inner), default=0)
    limit = min(most, size if pieces == 1 else size // pieces + longest)
    with_context = part.with_context
    for first, last in _runs(inner, limit):
        yield replace(
            part, replies=tuple(replies[first:last]), with_context=with_context
        )
        with_context = False


def _runs(inner: Sequence[Ids], limit: int) -> Iterator[tuple[int, int]]:
    """
    Yield the bounds of runs of sorted sequences with at most so many prefixes.
    """
    first, held = 0, 0
    for i, ids in enumerate(inner):
        new = len(ids) - (common_length(inner[i - 1], ids) if i > first else 0)
        if i > first and held + new > limit:
            yield first, i
            first, held, new = i, 0, len(ids)
        held += new
    yield first, len(inner)
