"""
Token sequences as trees, and which of them share one.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parlai_ext.models.likelihood.encoder_decoder import build_trees
from parlai_ext.models.likelihood.engine import (
    CONTEXT,
    PrefixTree,
    TokenQuestion,
    TreeCosts,
    TreePass,
    TreeSize,
    pack_questions,
    tree_mask,
)

few = st.integers(0, 3)
sequences = st.lists(st.lists(few, min_size=1, max_size=6).map(tuple), max_size=8)
asked_things = st.lists(
    st.builds(
        TokenQuestion,
        st.lists(few, min_size=1, max_size=8).map(tuple),
        st.lists(st.lists(few, max_size=5).map(tuple), max_size=6).map(tuple),
    ),
    max_size=5,
)
costs = st.builds(
    TreeCosts,
    st.integers(1, 50),
    st.integers(1, 60),
    st.none() | st.integers(1, 300),
)


COSTS = TreeCosts(3456, 16384, 24 * 3456)


def tree_of(some):
    tree = PrefixTree()
    paths = [tree.add(ids) for ids in some]
    return tree, paths


def mask_of(order, part=None, window=None):
    ends, depths = torch.tensor([order.ends]), torch.tensor([order.depths])
    part = part or TreePass(0, len(order.ends), [])
    [[mask]] = tree_mask(ends, depths, part, window)
    return mask


def prefixes(some):
    return {ids[: n + 1] for ids in some for n in range(len(ids))}


@given(one=sequences, other=sequences)
def test_the_joined_size_is_that_of_all_prefixes(one, other):
    joined = tree_of(one)[0].joined_size(tree_of(other)[0])
    both = prefixes(one) | prefixes(other)
    assert joined == TreeSize(len(both), sum(len(ids) - 1 for ids in both))
    assert tree_of([*one, *other])[0].size == joined


@given(some=sequences.filter(bool), window=st.none() | st.integers(1, 4))
def test_a_node_sees_itself_and_its_ancestors_as_far_as_the_window(some, window):
    tree, paths = tree_of(some)
    order = tree.preorder()
    mask = mask_of(order, window=window)
    for path in paths:
        for n, node in enumerate(path):
            seen = path[: n + 1][-(window or 9) :]
            row = mask[order.places[node]].nonzero()[:, 0].tolist()
            assert sorted(row) == sorted(order.places[one] for one in seen)


@given(
    some=sequences.filter(bool),
    n_passes=st.integers(1, 9),
    window=st.none() | st.integers(1, 4),
)
def test_passes_read_each_node_once_and_it_sees_the_same_as_in_the_whole(
    some, n_passes, window
):
    tree, _ = tree_of(some)
    order = tree.preorder()
    whole = mask_of(order, window=window)
    parts = order.passes(min(n_passes, len(tree)))
    nodes = [place for part in parts for place in range(part.first, part.last)]
    assert nodes == list(range(len(tree)))
    sizes = {part.last - part.first for part in parts}
    assert max(sizes) - min(sizes) <= 1
    held = set()
    for part in parts:
        own = torch.zeros(part.last - part.first, len(tree), dtype=torch.bool)
        own[:, part.visible] = mask_of(order, part, window)
        assert torch.equal(own, whole[part.first : part.last])
        assert held >= set(part.ancestors)
        held = set(part.visible)


@given(some=sequences)
def test_a_trees_order_does_not_depend_on_who_came_first(some):
    one, other = tree_of(some)[0].preorder(), tree_of(some[::-1])[0].preorder()
    assert (one.tokens, one.depths, one.ends) == (
        other.tokens,
        other.depths,
        other.ends,
    )


def said(packs):
    """
    Return, by question and place, the prefix and the token of each wanted number.
    """
    found = {}
    for pack in packs:
        spelled = []
        for parent, token in zip(pack.tree.parents, pack.tree.tokens, strict=True):
            spelled.append((*(spelled[parent] if parent >= 0 else ()), token))
        pairs = [(spelled[node], token) for node, token in pack.edges]
        for key, edges in pack.rows.items():
            assert key not in found
            found[key] = [pairs[edge] for edge in edges]
    return found


@settings(max_examples=50)
@given(asked=asked_things, costs=costs, told=st.booleans())
def test_every_wanted_number_is_there_once(asked, costs, told):
    expected = {}
    for q, one in enumerate(asked):
        for k, ids in enumerate(one.continuations):
            if ids:
                expected[q, k] = [
                    (one.context + ids[:t], token) for t, token in enumerate(ids)
                ]
        if told and len(one.context) > 1:
            expected[q, CONTEXT] = [
                (one.context[: t + 1], token) for t, token in enumerate(one.context[1:])
            ]
    assert said(pack_questions(asked, costs, told)) == expected


@given(
    replies=st.lists(st.lists(few, max_size=6).map(tuple), max_size=8),
    start=st.sampled_from([(1,), (2, 1)]),
    limit=st.integers(1, 20),
)
def test_trees_after_start_tokens_hold_every_continuation_once(replies, start, limit):
    packs = build_trees(replies, start, limit)
    assert said(packs) == {
        (0, k): [(start + ids[:t], token) for t, token in enumerate(ids)]
        for k, ids in enumerate(replies)
    }
    for pack in packs:
        assert len(pack.rows) == 1 or len(pack.tree) <= limit + len(start)


@settings(max_examples=50)
@given(asked=asked_things, costs=costs)
def test_together_costs_no_more_than_alone(asked, costs):
    alone = [pack for one in asked for pack in pack_questions([one], costs, False)]
    together = pack_questions(asked, costs, False)
    assert total(together, costs) <= total(alone, costs) * (1 + 1e-12)


def total(packs, costs):
    return sum(costs.tree_cost(pack.tree.size) for pack in packs)


@settings(max_examples=50)
@given(asked=asked_things, token=st.integers(1, 50), tokens=st.integers(14, 60))
def test_trees_keep_to_the_budget(asked, token, tokens):
    # a context and a continuation have at most 8 + 4 nodes
    for pack in pack_questions(asked, TreeCosts(token, tokens), True):
        assert len(pack.tree) <= tokens


@pytest.mark.parametrize(
    'costs, size, n_passes, cost',
    [
        # each of 3 nodes costs 10 for itself and 1 for each of 3 nodes
        (TreeCosts(10, 100), TreeSize(3, 2), 1, 3 * 10 + 3 * 3),
        # 8 nodes of mean depth 1: 4 nodes are multiplied with 4, the other 4 with 4 and
        # with 1 ancestor; the second pass costs 14; three would cost 2 more
        (TreeCosts(10, 100, 14), TreeSize(8, 8), 2, 8 * 10 + 4 * 4 + 4 * (4 + 1) + 14),
    ],
)
def test_the_cost_of_a_tree_by_pencil(costs, size, n_passes, cost):
    assert (costs.num_passes(size), costs.tree_cost(size)) == (n_passes, cost)


def test_the_number_of_passes_is_the_cheapest():
    size = TreeSize(4000, 4000 * 600)

    def cost_in(n_passes):
        n, a = 4000, 600
        attention = n * n / n_passes + n * a * (n_passes - 1) / n_passes
        return attention + (n_passes - 1) * 24 * 3456

    best = min(range(1, 200), key=cost_in)
    assert abs(COSTS.num_passes(size) - best) <= 1


MANY = tuple((2000 + i, 2, 3) for i in range(3000))
LONG = tuple(range(100, 160))
FEW = tuple((i, i, 2) for i in range(100))


@pytest.mark.parametrize(
    'asked, costs, n_trees',  # `None`: several
    [
        # many follow-ups, whose context is read once; in one pass they are divided
        ([(range(500), MANY)], COSTS, 1),
        ([(range(500), MANY)], TreeCosts(3456, 16384), None),
        # turns of a dialogue
        (
            [(LONG[:n], ((1, 2), (1, 3))) for n in (20, 40, 60)],
            TreeCosts(1000, 4096),
            1,
        ),
        # nothing in common
        ([((n, *LONG[:40]), ((1, 2),)) for n in range(5)], TreeCosts(1000, 4096), 5),
        # 200 nodes each: the 2 tokens saved would cost 2 * 200 * 200 of attention
        ([((7, 8), FEW), ((7, 8, 9), FEW)], TreeCosts(10, 4096), None),
    ],
)
def test_what_shares_a_tree(asked, costs, n_trees):
    packs = pack_questions(
        [TokenQuestion(tuple(context), many) for context, many in asked], costs, False
    )
    assert len(packs) == n_trees if n_trees else len(packs) > 1
