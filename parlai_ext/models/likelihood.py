"""
Token log-probabilities of many continuations of many contexts: the engines for
encoder-decoders and for causal models, and what they share (trees of tokens, a limit on
the tokens that go through a model at once, texts as token ids, log-probabilities from
an output layer).

Logits take more memory than anything else in a language model, so they are never all
there at once.
"""

import gc
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from parlai_ext.core import (
    Answer,
    Question,
    UserError,
    computed_once,
    content_id,
    frozen,
    grouped,
    shortened,
)
from parlai_ext.models.fast_linear import quicken
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.systems.torch_memory import count_weights, give_back, is_out_of_memory

# Trees of token sequences, in which each distinct prefix is there once, and how
# questions are packed into them.
#
# In preorder the descendants of a node follow it without a gap, so that two numbers
# of a node, its index and the end of its descendants, give the attention mask. For
# the same reason a tree can be cut between any two nodes: all that the nodes after
# the cut see before it are the ancestors of the first of them.
#
# Questions whose contexts are prefixes of one another, as those of a dialogue's
# turns are, share a tree where that saves more than it costs: in a forward pass
# every token is multiplied with every other, also with those that it does not see.
# So a large tree is read in several passes, and very many continuations of a short
# context are cheaper in several trees, each with the context in it. `TreeCosts`
# decides.

T = TypeVar('T')
ROOT = -1
Tokens = tuple[int, ...]
CONTEXT = -1  # in place of a continuation's index
# of one context or tree: numbers by question and continuation
Rows = dict[tuple[int, int], tuple[float, ...]]


@frozen
class TreeSize:
    """
    The number of nodes of a tree, and the sum of their depths: how many ancestors each
    of them has.
    """

    n_nodes: int
    total_depth: int


@frozen
class Preorder:
    """
    A finished tree: tokens, depths, and where the descendants of each node end.

    ``places[i]`` is the index of node ``i`` of the growing tree.
    """

    tokens: list[int]
    depths: list[int]
    ends: list[int]
    places: list[int]


@frozen
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


@frozen
class TokenQuestion:
    """
    A question as token ids; `cut` context tokens were left out before them.
    """

    context: Tokens
    continuations: tuple[Tokens, ...]
    cut: int = 0


@frozen
class QuestionPart:
    """
    A question, or part of it: continuations with their indices.

    `with_context` is true if the context's own log-probabilities are wanted.
    """

    question: int
    context: Tokens
    replies: tuple[tuple[int, Tokens], ...]
    with_context: bool = False


@frozen
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
        return max(1, min(math.isqrt(context_cost), self.max_nodes - context_length))


class TreePack:
    """
    A growing tree of tokens, in which a node's parent comes before it, and the
    positions of its answers.

    `edges` numbers the wanted (node, next token) pairs; `rows` says, by question and
    place, which of them make up a sequence.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.parents: list[int] = []
        self.total_depth = 0  # kept, since it is asked for before each part is added
        self._children: dict[tuple[int, int], int] = {}
        self.edges: dict[tuple[int, int], int] = {}
        self.rows: dict[tuple[int, int], list[int]] = {}
        self.parts: list[QuestionPart] = []

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def size(self) -> TreeSize:
        """
        The number of nodes and the sum of their depths.
        """
        return TreeSize(len(self), self.total_depth)

    def add_tokens(self, ids: Sequence[int], node: int = ROOT) -> list[int]:
        """
        Return the nodes of tokens that follow ``node``; missing ones are added.
        """
        nodes = []
        depth = 0 if node == ROOT else self.depths[node] + 1
        for token in ids:
            parent, node = node, self._children.get((node, token), ROOT)
            if node == ROOT:
                node = self._children[parent, token] = len(self)
                self.tokens.append(token)
                self.parents.append(parent)
                self.depths.append(depth)
                self.total_depth += depth
            nodes.append(node)
            depth += 1
        return nodes

    def joined_size(self, other: 'TreePack') -> TreeSize:
        """
        Return the size of one tree of the sequences of this tree and another.
        """
        here = {ROOT: ROOT}
        more = []
        for node, (parent, token, depth) in enumerate(
            zip(other.parents, other.tokens, other.depths, strict=True)
        ):
            known = self._children.get((here.get(parent, ROOT - 1), token))
            if known is None:
                more.append(depth)
            else:
                here[node] = known
        return TreeSize(len(self) + len(more), self.total_depth + sum(more))

    @cached_property
    def order(self) -> Preorder:
        """
        The finished tree, its nodes in preorder, siblings by token.
        """
        below = grouped((parent, node) for node, parent in enumerate(self.parents))
        for some in below.values():
            some.sort(key=self.tokens.__getitem__, reverse=True)
        order = []
        waiting = below.get(ROOT, [])
        while waiting:
            order.append(waiting.pop())
            waiting += below.get(order[-1], ())
        sizes = [1] * len(order)
        for node in reversed(range(len(order))):
            if self.parents[node] != ROOT:
                sizes[self.parents[node]] += sizes[node]
        return Preorder(
            [self.tokens[node] for node in order],
            [self.depths[node] for node in order],
            [place + sizes[node] for place, node in enumerate(order)],
            sorted(range(len(order)), key=order.__getitem__),
        )

    def add(self, part: QuestionPart) -> None:
        """
        Add the context and the replies of a part to the prefix tree, and note the edges
        whose probabilities make up each sequence.
        """
        self.parts.append(part)
        context_ids = part.context if part.replies else part.context[:-1]
        nodes = self.add_tokens(context_ids)
        if part.with_context:
            self._want((part.question, CONTEXT), nodes, part.context[1:])
        for place, ids in part.replies:
            path = [nodes[-1], *self.add_tokens(ids[:-1], nodes[-1])]
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
            last = packs[-1] if packs else TreePack()
            both = last.joined_size(alone)
            apart = costs.tree_cost(last.size) + costs.tree_cost(alone.size)
            begin_alike = last.tokens[:1] == alone.tokens[:1]
            fits = both.n_nodes <= max(costs.max_nodes, len(last))
            if begin_alike and fits and costs.tree_cost(both) <= apart:
                last.add(piece)
            else:
                packs.append(alone)
    return packs


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
    for first, last in run_bounds(inner, limit):
        yield replace(part, replies=tuple(replies[first:last]))
        part = replace(part, with_context=False)  # the first piece has them


class TreeBatch:
    """
    Trees that go through a model together.

    :param device: of the nodes; the rest is on the CPU.
    :ivar nodes: tokens, depths and ends (the index after the last descendant of each),
        ``[trees, nodes]``, padded on the right.
    :ivar wanted: for each number the row of its tree, the place of its node and the
        token whose log-probability there is wanted, each ``[numbers]``.
    """

    def __init__(self, packs: Sequence[TreePack], device: torch.device):
        self.packs = packs
        width = max(map(len, packs))
        tokens, depths, ends, wanted = [], [], [], []
        for row, pack in enumerate(packs):
            order, n = pack.order, len(pack)
            more = [0] * (width - n)
            tokens.append(order.tokens + more)
            depths.append(order.depths + more)
            # padding is seen by itself alone
            ends.append([*order.ends, *range(n + 1, width + 1)])
            wanted += [(row, order.places[node], token) for node, token in pack.edges]
        self.nodes = [
            torch.tensor(one, device=device) for one in (tokens, depths, ends)
        ]
        self.wanted = torch.tensor(wanted, dtype=torch.long).reshape(-1, 3).T

    def passes(self, n_passes: int) -> list[TreePass]:
        """
        Return passes of about equal size, of a single tree where there are several.
        """
        width = self.nodes[0].shape[1]
        ends = self.packs[0].order.ends
        bounds = [width * i // n_passes for i in range(n_passes + 1)]
        return [
            TreePass(first, last, [i for i in range(first) if ends[i] > first])
            for first, last in pairwise(bounds)
        ]

    @property
    def whole(self) -> TreePass:
        """
        The pass that reads everything.
        """
        return self.passes(1)[0]

    def mask(self, part: TreePass, window: int | None = None) -> torch.Tensor:
        """
        Return the mask of a pass (batch, 1, nodes of the pass, visible nodes): a node
        sees its ancestors and itself; no other node sees padding.

        :param window: a node sees no further back than this many tokens, itself
            included.
        """
        _, depths, ends = self.nodes
        reading = torch.arange(part.first, part.last, device=ends.device)
        visible = torch.tensor(part.visible, device=ends.device)
        later = reading[:, None] >= visible[None, :]
        seen = later & (reading[None, :, None] < ends[:, None, visible])
        if window is not None:
            seen &= depths[:, reading, None] - depths[:, None, visible] < window
        return seen.unsqueeze(1)

    def rows(self, numbers: Sequence[T]) -> list[dict[tuple[int, int], tuple[T, ...]]]:
        """
        Return the wanted numbers (or other things) of each tree.
        """
        rows = []
        first = 0
        for pack in self.packs:
            rows.append(
                {
                    key: tuple(numbers[first + edge] for edge in edges)
                    for key, edges in pack.rows.items()
                }
            )
            first += len(pack.edges)
        return rows


# --- what both engines share ----------------------------------------------------------

TOKENS = 4096  # in one forward pass, padding counted
KNOWN_TEXTS = 10_000  # texts whose tokens are remembered


class Budget:
    """
    Runs items through a model in groups of similar width, of at most so many tokens, 1
    at the least.

    When memory runs out, `tokens` is halved for good and the work goes on. Free memory
    is given back to the system after every `tokens` tokens.
    """

    def __init__(self, tokens: int):
        self.tokens = tokens
        self._since_release = 0  # tokens done since memory was given back

    def run(
        self, widths: Sequence[int], step: Callable[[list[int]], list[T]]
    ) -> list[T]:
        """
        Return one result for each item, in the order of ``widths``.

        Groups depend on the widths and `tokens` alone; the widest items come first, so
        that memory runs out at the start or not at all.

        :param step: takes the indices of the items of a group, returns their results.
        :raises UserError: if a single item is too much for the memory.
        """
        order = sorted(range(len(widths)), key=lambda i: (-widths[i], i))
        results: dict[int, T] = {}
        while len(results) < len(order):
            rest = order[len(results) :]
            width = max(1, widths[rest[0]])
            # a single item that is wider is a group of its own
            group = rest[: max(1, self.tokens // width)]
            try:
                results.update(zip(group, step(group), strict=True))
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(group) == 1:
                    raise UserError(
                        f'out of memory with a single item of {width} tokens; a '
                        'smaller model, a lower precision or a larger GPU helps'
                    ) from None
            # outside the handler, whose traceback would hold the step's tensors
            while self.tokens >= len(group) * width:
                self.tokens //= 2
            gc.collect()
            torch.cuda.empty_cache()  # does nothing where there is no GPU
        self._since_release += sum(widths)
        if self._since_release >= self.tokens:
            self._since_release = 0
            give_back()
        return [results[i] for i in range(len(widths))]


class Vectorizer:
    """
    Turns contexts and continuations into a model's token ids.

    :ivar continuation: returns the token ids of a reply; they are remembered.
    """

    def __init__(self) -> None:
        self.continuation = lru_cache(KNOWN_TEXTS)(self.reply_ids)

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of the turns that are kept, and how many were cut.
        """
        raise NotImplementedError

    def reply_ids(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a reply, its end token included.
        """
        raise NotImplementedError


class LikelihoodEngine:
    """
    A model with its vectorizer, signature and budget.

    :param model: what has the weights.
    :param vectorizer: of texts; it is not asked where all questions are token ids.
    :param tokens: the most tokens of a forward pass, padding counted.
    :cvar tells_context: the model gives contexts a probability.
    :ivar num_parameters: how many weights the model has.
    :ivar watch: is told of finished work, and keeps it.
    :ivar greedy: the call under way asks for greedy tokens.
    """

    tells_context = True

    def __init__(
        self, model: Any, vectorizer: Vectorizer, signature: str, tokens: int = TOKENS
    ):
        self.model, self.vectorizer = model.eval(), vectorizer
        quicken(model)
        self.num_parameters = count_weights(model)
        self.signature = signature
        self.budget = Budget(tokens)
        self.watch = NO_WATCH
        self.greedy = False

    def answer(
        self,
        questions: Sequence[Question],
        with_context: bool = False,
        greedy: bool = False,
    ) -> list[Answer]:
        """
        Return one `Answer` for each question, in their order.

        :param with_context: also return the log-probabilities of each context's own
            tokens, where the model gives them a probability.
        :param greedy: instead of log-probabilities, 1 for each token than which no
            other is likelier there, else 0.
        """
        self.greedy = greedy
        with_context = with_context and self.tells_context
        asked = [self.to_tokens(question) for question in questions]
        rows = self.rows(asked, with_context)
        # () for an empty continuation, and for a context of one token: nothing to score
        return [
            Answer(
                tuple(rows.get((q, k), ()) for k in range(len(question.continuations))),
                rows.get((q, CONTEXT), ()) if with_context else None,
                question.cut,
            )
            for q, question in enumerate(asked)
        ]

    def to_tokens(self, question: Question) -> TokenQuestion:
        """
        Return a question as token ids; what is ids already stays as it is.
        """
        context: Any = question.context
        cut = 0
        if isinstance(next(iter(context), None), str):
            context, cut = self.vectorizer.context(context)
        replies: list[Tokens] = []
        for reply in question.continuations:
            if isinstance(reply, str):
                reply = self.vectorizer.continuation(reply)
            replies.append(tuple(reply))
        return TokenQuestion(tuple(context), tuple(replies), cut)

    def rows(self, asked: Sequence[TokenQuestion], with_context: bool) -> Rows:
        """
        Return the log-probabilities of continuations and contexts. What has no tokens
        to be scored may be missing.
        """
        raise NotImplementedError

    def logprobs(
        self,
        layer: Callable[[torch.Tensor], torch.Tensor],
        hidden: torch.Tensor,
        at: torch.Tensor,
        ids: torch.Tensor,
        size: int,
    ) -> torch.Tensor:
        """
        Return the log-probability of ``ids[i]`` after row ``at[i]`` of ``hidden``.

        :param layer: makes ``[n, vocabulary]`` logits of ``[n, features]``.
        :param at: on the CPU, like ``ids``.
        :param size: how many rows go through the layer at once.
        """
        at, order = at.sort(stable=True)
        starts = range(0, len(hidden), size)
        bounds = torch.searchsorted(at, torch.tensor([*starts, len(hidden)])).tolist()
        parts = [
            self.pick(
                layer(hidden[start : start + size]),
                at[first:last] - start,
                ids[order[first:last]],
            )
            for start, first, last in zip(starts, bounds, bounds[1:], strict=False)
        ]
        logprobs = torch.cat(parts)
        places = order.to(logprobs.device)
        return torch.empty_like(logprobs).scatter_(0, places, logprobs)

    def pick(
        self, logits: torch.Tensor, at: torch.Tensor, ids: torch.Tensor
    ) -> torch.Tensor:
        """
        Return the log-probability of ``ids[i]`` in ``logits[at[i]]``; in a greedy call
        1 where no other token is likelier there, else 0.

        Half precision is widened before it is normalised: it would round -10 to the
        next 1/128.
        """
        at, ids = at.to(logits.device), ids.to(logits.device)
        if self.greedy:
            return (logits[at, ids] == logits.max(-1).values[at]).to(torch.float32)
        wide = torch.promote_types(logits.dtype, torch.float32)
        return torch.log_softmax(logits, dim=-1, dtype=wide)[at, ids]

    def kept_rows(self, key: str, compute: Callable[[], list[Rows]]) -> list[Rows]:
        """
        Return the log-probabilities of a batch, computed now or kept from before.
        """
        return self.watch.results(
            key,
            compute,
            lambda rows: [list(row.items()) for row in rows],
            lambda kept: [{tuple(k): tuple(v) for k, v in pairs} for pairs in kept],
        )


def distinct_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Return the different rows in order, one at the least, and the place of each in them.
    """
    distinct, places = rows.unique(return_inverse=True)
    return distinct if len(distinct) else rows.new_zeros(1), places


# --- the engine for encoder-decoders --------------------------------------------------
# Each different context is encoded once, however many questions have it, and its
# cross-attention keys and values are computed once. All its continuations go through
# the decoder as one tree, and only nodes whose prediction is wanted go through the
# output layer.

LARGEST_TREE = 512  # nodes after the start; a single continuation may have more
LARGEST_LOGITS = 2**22  # numbers that the output layer writes at once: 16 MB
# a context, and the trees of its continuations
TreesOfContext = tuple[Tokens, Sequence[TreePack]]


@frozen
class EncodedContexts:
    """
    Encoded contexts, their mask, and the cross-attention keys and values of each layer
    where these are computed.
    """

    states: torch.Tensor
    mask: torch.Tensor
    keys_values: tuple[tuple[torch.Tensor, ...], ...] = ()

    def select(self, rows: torch.Tensor) -> 'EncodedContexts':
        """
        Return the encoded contexts of these rows.
        """

        some = partial(select_rows, rows)
        layers = (tuple(map(some, layer)) for layer in self.keys_values)
        return EncodedContexts(some(self.states), some(self.mask), tuple(layers))


def select_rows(rows: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """
    Return some rows of a tensor, whose device may be another one.
    """
    return tensor.index_select(0, rows.to(tensor.device))


class EncoderDecoder(LikelihoodEngine):
    """
    A `LanguageModel` over an encoder-decoder whose decoder can read a tree as if it
    were a sequence. Subclasses define `encode`, `decode` and `logits`.

    :ivar null: the padding token, which must not change results.
    :ivar start: the tokens that the decoder reads before a continuation.
    :ivar vocabulary: the number of logits.
    """

    tells_context = False  # an encoder gives its input no probability
    null: int
    start: Tokens
    vocabulary: int
    device: torch.device

    def encode(self, xs: torch.Tensor, keys_values: bool) -> EncodedContexts:
        """
        Return the encoded contexts ``[contexts, tokens]``.

        :param keys_values: compute the decoder's keys and values of the contexts now,
            since several trees will be decoded.
        """
        raise NotImplementedError

    def decode(self, encoded: EncodedContexts, trees: TreeBatch) -> torch.Tensor:
        """
        Return the input of the output layer, ``[contexts, nodes, features]``.

        :param trees: one of continuations for each context.
        """
        raise NotImplementedError

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return logits ``[n, vocabulary]`` of ``[n, features]``.
        """
        raise NotImplementedError

    def continuation_trees(self, replies: Sequence[Tokens]) -> list[TreePack]:
        """
        Return trees of continuations, after the tokens that the decoder starts with.
        """
        ordered = sorted(enumerate(replies), key=lambda reply: reply[1])
        packs = []
        for first, last in run_bounds([ids for _, ids in ordered], LARGEST_TREE):
            packs.append(TreePack())
            packs[-1].add(QuestionPart(0, self.start, tuple(ordered[first:last])))
        return packs

    def to_tokens(self, question: Question) -> TokenQuestion:
        """
        Return a question as token ids. An empty context has tokens where the agent
        would read some, such as an end token.
        """
        asked = super().to_tokens(question)
        if question.context:
            return asked
        return replace(asked, context=tuple(self.vectorizer.context(())[0]))

    def rows(self, asked: Sequence[TokenQuestion], with_context: bool) -> Rows:
        """
        Return the log-probabilities of continuations.
        """
        places: dict[Tokens, dict[Tokens, int]] = {}  # by context and continuation
        for question in asked:
            for reply in question.continuations:
                known = places.setdefault(question.context, {})
                known.setdefault(reply, len(known))
        wanted = [(ids, tuple(replies)) for ids, replies in places.items()]
        # FED asks for the same continuations after every context
        trees = computed_once(
            lambda some: map(self.continuation_trees, some),
            [replies for _, replies in wanted],
        )
        contexts = list(zip(places, trees, strict=True))
        widths = [len(ids) + max(len(one) for one in own) for ids, own in contexts]
        call = content_id(self.signature, wanted, self.greedy)

        @torch.inference_mode()
        def score_group(group: list[int]) -> list[Rows]:
            rows = self.kept_rows(
                content_id(call, group),
                lambda: self._encode_and_decode([contexts[i] for i in group]),
            )
            self.watch.tell(len(group), len(contexts))
            return rows

        scored = dict(zip(places, self.budget.run(widths, score_group), strict=True))
        return {
            (q, k): scored[question.context][0, places[question.context][reply]]
            for q, question in enumerate(asked)
            for k, reply in enumerate(question.continuations)
        }

    def _encode_and_decode(self, contexts: Sequence[TreesOfContext]) -> list[Rows]:
        """
        Return the log-probabilities of each context's trees: the first trees of all
        contexts are decoded together, then the second ones, and so on.
        """
        rows: list[Rows] = [{} for _ in contexts]
        most = max(len(packs) for _, packs in contexts)
        tokens = [torch.tensor(ids or (self.null,)) for ids, _ in contexts]
        xs = pad_sequence(tokens, batch_first=True, padding_value=self.null)
        encoded = self.encode(xs.to(self.device), keys_values=most > 1)
        for k in range(most):
            which = [i for i, (_, packs) in enumerate(contexts) if len(packs) > k]
            part = encoded
            if len(which) < len(contexts):
                part = encoded.select(torch.tensor(which))
            packs = [contexts[i][1][k] for i in which]
            batch = TreeBatch(packs, self.device)
            tree_rows, places, ids = batch.wanted
            hidden = self.decode(part, batch)
            asked, at = distinct_rows(tree_rows * hidden.shape[1] + places)
            logprobs = self.logprobs(
                self.logits,
                hidden.flatten(0, 1)[asked.to(hidden.device)],
                at,
                ids,
                LARGEST_LOGITS // self.vocabulary,
            )
            del hidden  # whose memory the next trees need
            for i, some in zip(which, batch.rows(logprobs.tolist()), strict=True):
                rows[i].update(some)
        return rows


# --- causal models --------------------------------------------------------------------
# All continuations of a context, and the later turns of its dialogue, are one tree of
# tokens: a mask lets each token see what is before it on its own branch, and positions
# count along the branch. Each distinct prefix is computed once. A small tree is one row
# of a forward pass. A large one is read in several passes, which keep the keys and
# values that the next one needs, so that the time for a dialogue grows with its length
# and not with the square of it.

REPLY = 128  # positions kept free for a continuation, as an agent does for a reply
ENOUGH = 1024  # tokens that keep a device busy
# the tokens that take as long as a pass takes by itself: it reads every weight once
CPU_PASS = 24


class Causal(LikelihoodEngine):
    """
    A `LanguageModel` over a decoder-only model.

    An answer's ``continuations[k]`` has one number for each token of continuation k;
    its ``context``, when asked for, one for each context token that was kept but the
    first, before which there is nothing. An empty context is ``start`` alone. Of a
    context that is too long the oldest tokens are cut, so that `reserved` positions, or
    as many as the question's longest continuation has tokens, are left.

    Other questions in the same call change a number by rounding only: about 1e-12 in
    float64, 1e-5 in float32; in half precision as much as the model's own sums differ.

    :param model: a Hugging Face causal model that `check_causal` accepts.
    :param positions: the most tokens of context and continuation.
    :param tokens: the most tokens of a forward pass, padding counted.
    :ivar watch: is told of finished work, and keeps it.
    :ivar takes_cache: false for a model that has to read every tree in one pass.
    """

    def __init__(
        self,
        model: Any,
        vectorizer: Vectorizer,
        signature: str,
        *,
        start: int | None = None,
        positions: int | None = None,
        tokens: int = TOKENS,
    ):
        super().__init__(model, vectorizer, signature, tokens)
        self.start = start
        self.positions = positions
        self.takes_cache = True
        self.states: LayerStates | None = None  # kept by the call under way
        self._call, self._n_packs = '', 0  # the call under way
        self.masks = TreeMasks(model)
        self.layer = model.get_output_embeddings()
        self.device = model.get_input_embeddings().weight.device
        self.width = int(model.config.get_text_config().hidden_size)

    def rows(self, asked: Sequence[TokenQuestion], with_context: bool) -> Rows:
        """
        Return the log-probabilities of continuations and contexts.
        """
        self.model.eval()
        packs = pack_questions(asked, self.costs(self.budget.tokens), with_context)
        inputs = [[q.context, q.continuations] for q in asked]
        self._call = content_id(self.signature, inputs, with_context, self.greedy)
        self._n_packs = len(packs)
        return self._run(packs)

    def answer_with_states(
        self, questions: Sequence[Question], layer: int
    ) -> tuple[list[Answer], list[np.ndarray]]:
        """
        Return one `Answer` for each question, and the mean of the hidden states (in
        float32) of the tokens of its first continuation, without the end token, from
        the same passes. Nothing of them is kept on the disk.

        :param layer: whose outputs are wanted, the first one being 1.
        :raises UserError: when the model has fewer layers.
        """
        watch, self.watch = self.watch, Watch(self.watch.on_finished)
        self.states = LayerStates(self.model, layer)
        try:
            with self.states.layer.register_forward_hook(self.states.see):
                answers = self.answer(questions)
            return answers, [self.states.means[q] for q in range(len(questions))]
        finally:
            self.watch, self.states = watch, None

    def _run(self, packs: Sequence[TreePack]) -> Rows:
        """
        Return the log-probabilities of all trees; the budget decides how many go
        through the model at once.
        """
        answers: Rows = {}
        for rows in self.budget.run(
            [len(pack) for pack in packs],
            lambda group: self._run_group([packs[i] for i in group]),
        ):
            answers.update(rows)
        return answers

    def to_tokens(self, question: Question) -> TokenQuestion:
        """
        Return a question as token ids. The context loses its oldest tokens if it does
        not fit into the model's positions together with the longest continuation.
        """
        asked = super().to_tokens(question)
        context, cut = asked.context, asked.cut
        if self.positions is not None:
            longest = max(map(len, asked.continuations), default=0)
            if longest >= self.positions:
                raise UserError(
                    f'a continuation of {longest} tokens does not fit into the '
                    f"model's {self.positions} positions with a context before it"
                )
            kept = max(
                1, self.positions - max(longest, reserved_positions(self.positions))
            )
            cut += max(0, len(context) - kept)
            context = context[-kept:]
        if not context:
            if self.start is None:
                raise UserError('an empty context, and the model has no start token')
            context = (self.start,)
        return TokenQuestion(context, asked.continuations, cut)

    def costs(self, tokens: int) -> TreeCosts:
        """
        Return what trees of at most so many tokens cost.
        """
        token_cost = 6 * self.width
        pass_tokens = CPU_PASS if self.device.type == 'cpu' else ENOUGH
        pass_cost = pass_tokens * token_cost if self.takes_cache else None
        return TreeCosts(token_cost, tokens, pass_cost)

    def _run_group(self, packs: Sequence[TreePack]) -> list[Rows]:
        """
        Return the log-probabilities of these trees. A single tree that is too large for
        the memory is divided.
        """
        if len(packs) > 1:
            groups = self.groups_of_similar_width(packs)
            return [rows for some in groups for rows in self._forward(some)]
        tree, parts = packs[0], packs[0].parts
        try:
            if len(tree) <= self.budget.tokens:
                return self._forward(packs)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(pack_parts(parts, self.costs(max(1, len(tree) // 2)))) == 1:
                raise
            self.budget.tokens = len(tree) // 2
        # outside the handler, whose traceback would hold the tensors
        smaller = pack_parts(parts, self.costs(self.budget.tokens))
        if len(smaller) == 1:
            return self._forward(packs)
        gc.collect()
        return [self._run(smaller)]

    def groups_of_similar_width(
        self, packs: Sequence[TreePack]
    ) -> list[list[TreePack]]:
        """
        Return trees, the widest first, in groups that go through the model together;
        one that is read in several passes goes by itself.
        """
        costs = self.costs(self.budget.tokens)
        large: list[list[TreePack]] = []
        small: list[list[TreePack]] = []
        for pack in packs:
            if costs.num_passes(pack.size) > 1:
                large.append([pack])
                continue
            # a group needs little padding; it has at least `ENOUGH` tokens, since a
            # device is not faster with fewer
            width = len(small[-1][0]) if small else 0
            is_padded = (width - len(pack)) * 8 > width
            if not small or (is_padded and width * len(small[-1]) >= ENOUGH):
                small.append([])
            small[-1].append(pack)
        return large + small

    def _forward(self, packs: Sequence[TreePack]) -> list[Rows]:
        """
        Return the log-probabilities of these trees, which go through the model
        together, or those that were kept of them.
        """
        name = content_id(self._call, [sorted(pack.rows) for pack in packs])
        size = packs[0].size
        costs = self.costs(self.budget.tokens)
        n_passes = costs.num_passes(size) if len(packs) == 1 else 1
        rows = self.kept_rows(name, lambda: self.compute(packs, n_passes))
        self.watch.tell(len(packs), self._n_packs)
        return rows

    @torch.inference_mode()
    def compute(self, packs: Sequence[TreePack], n_passes: int = 1) -> list[Rows]:
        """
        Return the log-probabilities of these trees.

        :param n_passes: in how many passes a single tree is read.
        """
        batch = TreeBatch(packs, self.device)
        rows, places, ids = batch.wanted
        cache = PathCache() if n_passes > 1 else None
        logprobs = torch.full(rows.shape, math.nan, dtype=torch.float64)
        for part in batch.passes(n_passes):
            inputs = self.masks.inputs(batch, part)
            if cache is not None:
                inputs['cache'] = cache.before(part)
            [wanted] = ((part.first <= places) & (places < part.last)).nonzero().T
            n_nodes = part.last - part.first
            wanted_rows = rows[wanted] * n_nodes + places[wanted] - part.first
            asked, at = distinct_rows(wanted_rows)
            # the output layer itself gets one row; the slices below apply it to all
            with _only_rows(self.layer, asked, 1 if self.plain else None) as kept:
                logits = self.model(**inputs, use_cache=cache is not None).logits[0]
            if self.plain:
                size = max(1, LOGITS // self.layer.weight.shape[0])
                found = self.logprobs(self.layer, kept[0], at, ids[wanted], size)
            else:
                found = self.pick(logits, at, ids[wanted])
            logprobs[wanted] = found.double().cpu()
            del logits, kept, found  # whose memory the next pass needs
            if self.states is not None:
                self.states.take(wanted, wanted_rows)
        if self.states is not None:
            self.states.reduce_batch(batch)
        return batch.rows(logprobs.tolist())

    @cached_property
    def plain(self) -> bool:
        """
        True if the model's logits are its output layer's, unchanged.

        Some models change their logits after that layer (Gemma caps them, Cohere scales
        them). Such a model computes its logits itself, for all wanted rows at once.
        """
        probe = torch.zeros(1, 2, dtype=torch.long, device=self.device)
        with torch.inference_mode():
            with _only_rows(self.layer, torch.arange(2)) as kept:
                whole = self.model(input_ids=probe, use_cache=False).logits[0]
            return torch.equal(whole, self.layer(kept[0]))


class LayerStates:
    """
    The hidden states at the wanted tokens of a batch of trees, from one layer, and the
    means of those of each question's first continuation.

    :ivar means: by question.
    """

    def __init__(self, model: Any, number: int):
        n_layers = int(model.config.get_text_config().num_hidden_layers)
        if number > n_layers:
            raise UserError(
                f'layer {number} is wanted, and {type(model).__name__} has '
                f'{n_layers} layers'
            )
        for module in model.modules():
            if isinstance(module, torch.nn.ModuleList) and len(module) == n_layers:
                self.layer = module[number - 1]
                break
        else:
            raise UserError(f'{type(model).__name__}: its layers were not found')
        self.means: dict[int, np.ndarray] = {}
        self._output = torch.empty(0)  # of the last pass
        self._rows: dict[int, torch.Tensor] = {}  # by wanted token

    def see(self, _module: Any, _given: Any, output: Any) -> None:
        """
        Take the layer's output of a pass.
        """
        hidden = output[0] if isinstance(output, tuple) else output
        self._output = hidden.flatten(0, -2)

    def take(self, wanted: torch.Tensor, rows: torch.Tensor) -> None:
        """
        Keep the states of a pass at the rows of the wanted tokens.
        """
        states = self._output[rows.to(self._output.device)].float().cpu()
        self._rows.update(zip(wanted.tolist(), states, strict=True))

    def reduce_batch(self, batch: TreeBatch) -> None:
        """
        Reduce the states of each first continuation of a batch of trees, which is read
        now, and forget them.
        """
        states = [self._rows[wanted] for wanted in range(len(self._rows))]
        for rows in batch.rows(states):
            for (question, place), own in rows.items():
                if place == 0:
                    # at each token the next one is predicted
                    self.means[question] = torch.stack(own[1:] or own).mean(0).numpy()
        self._rows.clear()


class PathCache:
    """
    The keys and values of the nodes of a tree that the next pass needs.
    """

    def __init__(self) -> None:
        from transformers import DynamicCache

        self.cache = DynamicCache()
        self.nodes: list[int] = []  # the nodes in the cache after the last pass

    def before(self, part: TreePass) -> Any:
        """
        Return the cache with the keys and values of a pass's ancestors and no others.

        They are there: each is a node of the last pass or an ancestor of its first.
        """
        if self.nodes != part.ancestors:
            index_of_node = {node: i for i, node in enumerate(self.nodes)}
            indices = torch.tensor(
                [index_of_node[node] for node in part.ancestors], dtype=torch.long
            )
            layers: Sequence[Any] = self.cache.layers
            for layer in layers:
                indices = indices.to(layer.keys.device)
                layer.keys = layer.keys.index_select(-2, indices)
                layer.values = layer.values.index_select(-2, indices)
        self.nodes = part.visible
        return self.cache


def reserved_positions(positions: int) -> int:
    """
    Return how many of a model's positions are kept free for continuations, so that
    contexts are cut alike whatever follows.
    """
    return min(REPLY, positions // 4)


# --- masks of trees, in the shape that a model takes them -----------------------------

FULL, SLIDING = 'full_attention', 'sliding_attention'


class TreeMasks:
    """
    The kind of attention mask that a Hugging Face model takes.

    :ivar kinds: of its layers; a model with several takes a mask for each by name.
    :ivar window: how far back layers with a sliding window look.
    :ivar additive: the dtype of masks that are added, or `None` for true and false.
    :raises UserError: if one of its layers cannot read a tree.
    """

    def __init__(self, model: Any):
        config = model.config.get_text_config()
        self.window: int | None = getattr(config, 'sliding_window', None)
        kinds = getattr(config, 'layer_types', None)
        self.kinds = sorted(set(kinds or [SLIDING if self.window else FULL]))
        unknown = [kind for kind in self.kinds if kind not in (FULL, SLIDING)]
        # these take positions from the order of tokens in a row; `check_causal` tries
        # every model, for others that are not known here
        part = f'layers of {", ".join(unknown)}' if unknown else ''
        if getattr(config, 'alibi', False) or config.model_type in ('bloom', 'mpt'):
            part = 'ALiBi'
        elif 'local' in getattr(config, 'attention_layers', ()):
            part = 'local attention'
        if part:
            raise UserError(
                f'{type(model).__name__}: {part} cannot read a tree of continuations; '
                'a model with position ids and a mask of its own would do'
            )
        attention = config._attn_implementation
        if attention not in ('sdpa', 'eager'):
            raise UserError(
                f'{type(model).__name__}: attention {attention!r} takes no mask of our '
                'own; sdpa or eager would do'
            )
        self.additive = None if attention == 'sdpa' else model.dtype

    def inputs(self, batch: TreeBatch, part: TreePass) -> dict[str, object]:
        """
        Return the arguments of a model for a pass over a batch of trees; its mask, or
        one for each kind of layer, among them.
        """
        tokens, depths, _ = batch.nodes
        masks = {
            kind: batch.mask(part, self.window if kind == SLIDING else None)
            for kind in self.kinds
        }
        if self.additive is not None:
            least = torch.finfo(self.additive).min
            zero = torch.zeros((), dtype=self.additive, device=depths.device)
            masks = {kind: torch.where(m, zero, least) for kind, m in masks.items()}
        return {
            'input_ids': tokens[:, part.first : part.last],
            'attention_mask': masks if len(masks) > 1 else masks[self.kinds[0]],
            'position_ids': depths[:, part.first : part.last],
        }


# --- the output layer: logits of the wanted rows, a slice at a time -------------------

LOGITS = 2**23  # logits in a slice, rows times vocabulary


@contextmanager
def _only_rows(
    layer: torch.nn.Module, rows: torch.Tensor, num_passed: int | None = None
) -> Iterator[list[torch.Tensor]]:
    """
    Restrict a layer to some rows of the flattened batch. After the model has run, the
    yielded list holds those rows as one tensor.

    :param num_passed: give the layer only the first so many of them; the list holds
        them all.
    """
    kept: list[torch.Tensor] = []

    def pick(_: Any, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden = given[0].flatten(0, -2)
        kept.append(hidden[rows.to(hidden.device)])
        return (kept[0][:num_passed].unsqueeze(0), *given[1:])

    with layer.register_forward_pre_hook(pick):
        yield kept


# --- checks that a model reads a tree of tokens as it reads plain text ----------------

# mean difference of log-probabilities that rounding explains; a wrong mask gives more
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3}
HALF = 0.1
# the tree is longer than the local attention of models that take no mask for it
BRANCHES, DEPTH = 24, 14
CACHE_BRANCHES, CACHE_PASSES = 5, 3


def check_causal(judge: Causal) -> Causal:
    """
    Return the judge if its model gives the same log-probabilities for a random tree as
    for plain text. If it does not when it reads the tree in several passes, the judge
    is told to read every tree in one.

    :raises UserError: if it does not.
    """
    name = type(judge.model).__name__
    tolerance = TOLERANCE.get(judge.model.dtype, HALF)
    try:
        difference = tree_difference(judge)
    except Exception as e:
        if isinstance(e, UserError) or is_out_of_memory(e):
            raise
        raise UserError(
            f'{name} cannot read a tree of continuations ({type(e).__name__}: '
            f'{shortened(str(e), 120)}); use a model that takes position ids and a mask'
        ) from e
    if not difference <= tolerance:
        raise UserError(
            f'{name} reads a tree of continuations in another way than plain text '
            f'(log-probabilities differ by {difference:.2g}); use a model whose '
            'attention follows the mask that it is given'
        )
    try:
        difference = tree_difference(judge, CACHE_BRANCHES, CACHE_PASSES)
        judge.takes_cache = difference <= tolerance
    except Exception as e:
        if is_out_of_memory(e):
            raise
        judge.takes_cache = False
    return judge


def tree_difference(
    judge: Causal, n_branches: int = BRANCHES, n_passes: int = 1
) -> float:
    """
    Return by how much log-probabilities from a tree and from plain passes differ, on
    average over some tokens.

    :param n_passes: in how many passes the tree is read.
    """
    rng = random.Random(0)
    size = judge.model.get_input_embeddings().weight.shape[0]

    def some(n: int) -> tuple[int, ...]:
        return tuple(rng.randrange(size) for _ in range(n))

    shared = some(2)
    branches = tuple(sorted(shared + some(DEPTH - 2) for _ in range(n_branches)))
    asked = TokenQuestion(some(6), branches)
    [pack] = pack_questions([asked], TreeCosts(10**9, 10**9), with_context=False)
    [answers] = judge.compute([pack], n_passes)
    some_branches = (0, 1, n_branches - 1)
    ours = torch.tensor([answers[0, k] for k in some_branches], dtype=torch.float64)
    rows = [asked.context + branches[k] for k in some_branches]
    ids = torch.tensor(rows, device=judge.device)
    with torch.inference_mode():
        logits = judge.model(input_ids=ids).logits[:, -DEPTH - 1 : -1]
    plain = logits.double().log_softmax(-1).gather(-1, ids[:, -DEPTH:, None])
    return float((ours - plain.squeeze(-1).cpu()).abs().mean())
