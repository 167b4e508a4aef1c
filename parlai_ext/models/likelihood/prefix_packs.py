"""
Packs questions into trees of tokens.

Questions whose contexts are prefixes of one another, as those of a dialogue's turns
are, share a tree where that saves more than it costs: in a forward pass every token is
multiplied with every other, also with those that it does not see. So a large tree is
read in several passes, and very many continuations of a short context are cheaper in
several trees, each with the context in it. `TreeCosts` decides.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from parlai_ext.models.likelihood.prefix_tree import (
    PrefixTree,
    Tokens,
    TreeSize,
    common_length,
    run_bounds,
)

CONTEXT = -1  # in place of a continuation's index


@dataclass(frozen=True)
class TokenQuestion:
    """
    A question as token ids; `cut` context tokens were left out before them.
    """

    context: Tokens
    continuations: tuple[Tokens, ...]
    cut: int = 0


@dataclass(frozen=True)
class QuestionPart:
    """
    A question, or part of it: continuations with their indices.

    `with_context` is true if the context's own log-probabilities are wanted.
    """

    question: int
    context: Tokens
    replies: tuple[tuple[int, Tokens], ...]
    with_context: bool = False


@dataclass(frozen=True)
class TreeCosts:
    """
    The cost of a tree; the unit is the cost of one token attending to one other.

    A pass reads some nodes of a tree; the keys and values of their ancestors come from
    a cache. A tree of n nodes of mean depth a that is read in k passes costs

        n w + n (n / k) + n a (k - 1) / k + (k - 1) p

    Each of the n nodes costs w by itself. It is multiplied with each of the n / k nodes
    of its pass, seen or not, and with the ancestors of the pass's first node: none in
    the first pass, about a in each of the others. A pass more costs p. The sum is
    least where k² = n (n - a) / p, so that a pass has about √p nodes and the cost of
    a node grows with its depth only, not with the size of the tree.

    :param token_cost: w. In a transformer of width d a layer multiplies a token with
        about 12 d² weights, and with 2 d numbers for each other token: 6 d.
    :param max_nodes: the most nodes of a tree with more than one sequence.
    :param pass_cost: p, the cost of a pass more; `None` if the model has to read every
        tree in one pass.
    """

    token_cost: int
    max_nodes: int
    pass_cost: int | None = None

    def num_passes(self, size: TreeSize) -> int:
        """
        Return in how many passes a tree of this size costs least.
        """
        if self.pass_cost is None:
            return 1
        unseen = size.n_nodes**2 - size.total_depth
        return max(1, round(math.sqrt(unseen / self.pass_cost)))

    def tree_cost(self, size: TreeSize) -> float:
        """
        Return the cost of a tree of this size.
        """
        n, depth, passes = size.n_nodes, size.total_depth, self.num_passes(size)
        attention = depth + (n**2 - depth) / passes
        return n * self.token_cost + attention + (passes - 1) * (self.pass_cost or 0)

    def best_size(self, context_length: int) -> int:
        """
        Return how many nodes a tree should have after a context of this length.

        Where a pass more costs less than the context read once more, as many as fit.
        Else (c + n)(w + c + n) / n, the cost of a node, is least where n² = c (w + c);
        c is the length of the context, n the number of nodes, w the cost of a token.
        """
        context_cost = context_length * (self.token_cost + context_length)
        if self.pass_cost is not None and self.pass_cost < context_cost:
            return max(1, self.max_nodes - context_length)
        best = math.isqrt(context_cost)
        return max(1, min(best, self.max_nodes - context_length))


@dataclass
class TreePack:
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
        Add the context and the replies of a part to the prefix tree, and note the edges
        whose probabilities make up each sequence.
        """
        self.parts.append(part)
        context_ids = part.context if part.replies else part.context[:-1]
        nodes = self.tree.add(context_ids)
        if part.with_context:
            self._want((part.question, CONTEXT), nodes, part.context[1:])
        for place, ids in part.replies:
            path = [nodes[-1], *self.tree.add(ids[:-1], nodes[-1])]
            self._want((part.question, place), path, ids)

    def _want(self, key: tuple[int, int], nodes: Iterable[int], ids: Tokens) -> None:
        """
        Note which edges of the tree (a node and the token after it) make up one
        sequence.
        """
        # the last node of a context predicts none of its tokens: hence not strict
        pairs = zip(nodes, ids, strict=False)
        self.rows[key] = [self.edges.setdefault(p, len(self.edges)) for p in pairs]


def pack_questions(
    asked: Sequence[TokenQuestion], costs: TreeCosts, with_context: bool
) -> list[TreePack]:
    """
    Return packs, one tree each, that together answer all questions.

    :param with_context: also score each context's own tokens.

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


def pack_parts(parts: Iterable[QuestionPart], costs: TreeCosts) -> list[TreePack]:
    """
    Return packs, one tree each, that hold all these parts of questions.

    A part whose tree would be too large is divided into pieces. Sorted by context, a
    piece joins the tree of the piece before it if that is cheaper than a tree alone.
    """
    packs: list[TreePack] = []
    for part in sorted(
        parts, key=lambda p: (p.context, sorted(p.replies), p.with_context)
    ):
        for piece in divide_part(part, costs):
            alone = TreePack()
            alone.add(piece)
            if packs and _is_cheaper_joined(packs[-1], alone, costs):
                packs[-1].add(piece)
            else:
                packs.append(alone)
    return packs


def _is_cheaper_joined(pack: TreePack, other: TreePack, costs: TreeCosts) -> bool:
    """
    True if one tree for both packs fits and costs no more than their two trees.
    """
    if pack.tree.tokens[:1] != other.tree.tokens[:1]:
        return False
    both = pack.tree.joined_size(other.tree)
    apart = costs.tree_cost(pack.tree.size) + costs.tree_cost(other.tree.size)
    fits = both.n_nodes <= max(costs.max_nodes, len(pack.tree))
    return fits and costs.tree_cost(both) <= apart


def divide_part(part: QuestionPart, costs: TreeCosts) -> Iterator[QuestionPart]:
    """
    Divide a part of a question whose tree would be too large into parts of about the
    best size.
    """
    replies = sorted(part.replies, key=lambda reply: reply[1])
    inner = [ids[:-1] for _, ids in replies]
    size = sum(
        len(ids) - common_length(before, ids)
        for before, ids in zip([(), *inner], inner, strict=False)
    )
    most = max(1, costs.max_nodes - len(part.context))
    best_size = costs.best_size(len(part.context))
    pieces = max(1, round(size / best_size), -(-size // most))
    longest = max(map(len, inner), default=0)
    limit = min(most, size if pieces == 1 else size // pieces + longest)
    with_context = part.with_context
    for first, last in run_bounds(inner, limit):
        yield replace(
            part, replies=tuple(replies[first:last]), with_context=with_context
        )
        with_context = False
