"""
Token log-probabilities of many continuations of many contexts, for encoder-decoders.

Each different context is encoded once, however many questions have it, and its
cross-attention keys and values are computed once. All its continuations go through the
decoder as one tree, and only nodes whose prediction is wanted go through
the output layer. A model has to offer the protocol `TreeReader`.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch.nn.utils.rnn import pad_sequence

from parlai_ext.core import Question, content_id, frozen
from parlai_ext.models.likelihood.engine import (
    TOKENS,
    LikelihoodEngine,
    QuestionPart,
    Rows,
    TokenQuestion,
    Tokens,
    TreeBatch,
    TreePack,
    Vectorizer,
    distinct_rows,
    run_bounds,
)

LARGEST_TREE = 512  # nodes after the start; a single continuation may have more
LOGITS = 2**24  # numbers that the output layer writes at once
KNOWN_TREES = 256  # sets of continuations whose trees are remembered
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

        def some(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.index_select(0, rows.to(tensor.device))

        layers = (tuple(map(some, layer)) for layer in self.keys_values)
        return EncodedContexts(some(self.states), some(self.mask), tuple(layers))


class TreeReader(Protocol):
    """
    An encoder-decoder whose decoder can read a tree as if it were a sequence.

    `model` has the weights; `null` is the padding token, which must not change results;
    `start` are the tokens that the decoder reads before a continuation; `vocabulary` is
    the number of logits.
    """

    model: Any
    null: int
    start: tuple[int, ...]
    vocabulary: int
    device: torch.device

    def encode(self, xs: torch.Tensor, keys_values: bool) -> EncodedContexts:
        """
        Return the encoded contexts ``[contexts, tokens]``.

        :param keys_values: compute the decoder's keys and values of the contexts now,
            since several trees will be decoded.
        """
        ...

    def decode(self, encoded: EncodedContexts, trees: TreeBatch) -> torch.Tensor:
        """
        Return the input of the output layer, ``[contexts, nodes, features]``.

        :param trees: one of continuations for each context.
        """
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return logits ``[n, vocabulary]`` of ``[n, features]``.
        """
        ...


class EncoderDecoder(LikelihoodEngine):
    """
    A `LanguageModel` over an encoder-decoder.
    """

    tells_context = False  # an encoder gives its input no probability

    def __init__(
        self,
        model: TreeReader,
        vectorizer: Vectorizer,
        signature: str,
        tokens: int = TOKENS,
    ):
        super().__init__(model.model, vectorizer, signature, tokens)
        self.model = model

        @lru_cache(KNOWN_TREES)  # FED asks for the same continuations every time
        def trees(replies: tuple[Tokens, ...]) -> list[TreePack]:
            ordered = sorted(enumerate(replies), key=lambda reply: reply[1])
            packs = []
            for first, last in run_bounds([ids for _, ids in ordered], LARGEST_TREE):
                packs.append(TreePack())
                # after the tokens that the decoder starts with
                packs[-1].add(QuestionPart(0, model.start, tuple(ordered[first:last])))
            return packs

        self._trees = trees

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
        contexts = [(ids, self._trees(replies)) for ids, replies in wanted]
        widths = [len(ids) + max(len(one.tree) for one in own) for ids, own in contexts]
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
        null, device = self.model.null, self.model.device
        tokens = [torch.tensor(ids or (null,)) for ids, _ in contexts]
        xs = pad_sequence(tokens, batch_first=True, padding_value=null)
        encoded = self.model.encode(xs.to(device), keys_values=most > 1)
        for k in range(most):
            which = [i for i, (_, packs) in enumerate(contexts) if len(packs) > k]
            part = encoded
            if len(which) < len(contexts):
                part = encoded.select(torch.tensor(which))
            batch = TreeBatch.from_packs([contexts[i][1][k] for i in which], device)
            tree_rows, places, ids = batch.wanted
            hidden = self.model.decode(part, batch)
            asked, at = distinct_rows(tree_rows * hidden.shape[1] + places)
            logprobs = self.logprobs(
                self.model.logits,
                hidden.flatten(0, 1)[asked.to(hidden.device)],
                at,
                ids,
                max(1, LOGITS // self.model.vocabulary),
            )
            for i, some in zip(which, batch.rows(logprobs.tolist()), strict=True):
                rows[i].update(some)
        return rows
