"""
Token log-probabilities of many continuations of many contexts, for causal models.

All continuations of a context, and the later turns of its dialogue, are one tree of
tokens: a mask lets each token see what is before it on its own branch, and positions
count along the branch. Each distinct prefix is computed once. A small tree is one row
of a forward pass. A large one is read in several passes, which keep the keys and values
that the next one needs, so that the time for a dialogue grows with its length and not
with the square of it.
"""

import gc
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from parlai_ext.core import Answer, Question, UserError, content_id, frozen, shortened
from parlai_ext.models.likelihood.engine import (
    LikelihoodEngine,
    Rows,
    TokenQuestion,
    TreeBatch,
    TreeCosts,
    TreePack,
    TreePass,
    Vectorizer,
    distinct_rows,
    pack_parts,
    pack_questions,
    tree_mask,
)
from parlai_ext.models.watch import Watch
from parlai_ext.systems.torch_memory import is_out_of_memory

TOKENS = 4096
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
        self.masks = TreeMasks.from_model(model)
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
            [len(pack.tree) for pack in packs],
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
        tree, parts = packs[0].tree, packs[0].parts
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
            if costs.num_passes(pack.tree.size) > 1:
                large.append([pack])
                continue
            # a group needs little padding; it has at least `ENOUGH` tokens, since a
            # device is not faster with fewer
            width = len(small[-1][0].tree) if small else 0
            is_padded = (width - len(pack.tree)) * 8 > width
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
        size = packs[0].tree.size
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
        batch = TreeBatch.from_packs(packs, self.device)
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
        self.cache = DynamicCache()
        self.nodes: list[int] = []  # the nodes in the cache after the last pass

    def before(self, part: TreePass) -> DynamicCache:
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


@frozen
class TreeMasks:
    """
    The kind of attention mask that a model takes.

    :param kinds: of its layers; a model with several takes a mask for each by name.
    :param window: how far back layers with a sliding window look.
    :param additive: the dtype of masks that are added, or `None` for true and false.
    """

    kinds: tuple[str, ...]
    window: int | None
    additive: torch.dtype | None

    @classmethod
    def from_model(cls, model: Any) -> 'TreeMasks':
        """
        Return the kind of mask that a Hugging Face model takes.

        :raises UserError: if one of its layers cannot read a tree.
        """
        config = model.config.get_text_config()
        window = getattr(config, 'sliding_window', None)
        kinds = getattr(config, 'layer_types', None)
        kinds = sorted(set(kinds or [SLIDING if window else FULL]))
        unknown = [kind for kind in kinds if kind not in (FULL, SLIDING)]
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
        additive = None if attention == 'sdpa' else model.dtype
        return cls(tuple(kinds), window, additive)

    def inputs(self, batch: TreeBatch, part: TreePass) -> dict[str, object]:
        """
        Return the arguments of a model for a pass over a batch of trees; its mask, or
        one for each kind of layer, among them.
        """
        tokens, depths, ends = batch.nodes
        masks = {
            kind: tree_mask(
                ends, depths, part, self.window if kind == SLIDING else None
            )
            for kind in self.kinds
        }
        if self.additive is not None:
            least = torch.finfo(self.additive).min
            zero = torch.zeros((), dtype=self.additive, device=ends.device)
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

    hook = layer.register_forward_pre_hook(pick)
    try:
        yield kept
    finally:
        hook.remove()


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
