"""
Token sequences as trees, and which of them share one.
"""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parlai_ext.models.likelihood.prefix_packs import (
    CONTEXT,
    Pack,
    TokenQuestion,
    TreeCosts,
    pack_questions,
)
from parlai_ext.models.likelihood.prefix_tree import PrefixTree, tree_mask

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
costs = st.builds(TreeCosts, st.integers(1, 50), st.integers(1, 60))


def tree_of(some):
    tree = PrefixTree()
    paths = [tree.add(ids) for ids in some]
    return tree, paths


def prefixes(some):
    return {ids[: n + 1] for ids in some for n in range(len(ids))}


@given(some=sequences)
def test_a_tree_has_one_node_for_each_prefix(some):
    tree, _ = tree_of(some)
    assert len(tree) == len(prefixes(some))


@given(one=sequences, other=sequences)
def test_shared_counts_common_prefixes(one, other):
    found = tree_of(one)[0].count_shared(tree_of(other)[0])
    assert found == len(prefixes(one) & prefixes(other))


@given(some=sequences.filter(bool))
def test_a_node_sees_its_ancestors_and_itself(some):
    tree, paths = tree_of(some)
    order = tree.preorder()
    [[mask]] = tree_mask(torch.tensor([order.ends]), torch.tensor([order.depths]))
    ancestors = {}
    for path in paths:
        for n, node in enumerate(path):
            ancestors[node] = set(path[: n + 1])
    for one, other in product(ancestors, ancestors):
        sees = bool(mask[order.places[one], order.places[other]])
        assert sees == (other in ancestors[one])


@given(some=sequences.filter(bool), window=st.integers(1, 4))
def test_a_window_is_counted_along_the_branch(some, window):
    tree, paths = tree_of(some)
    order = tree.preorder()
    depths = torch.tensor([order.depths])
    [[mask]] = tree_mask(torch.tensor([order.ends]), depths, window)
    for path in paths:
        row = mask[order.places[path[-1]]]
        assert int(row.sum()) == min(len(path), window)
        assert all(row[order.places[node]] for node in path[-window:])


def test_padding_is_seen_by_itself_alone():
    [[mask]] = tree_mask(torch.tensor([[2, 2, 3, 4]]), torch.tensor([[0, 1, 0, 0]]))
    assert mask.tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [False, False, True, False],
        [False, False, False, True],
    ]


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


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=100, deadline=None)
@given(asked=asked_things, costs=costs)
def test_together_costs_no_more_than_alone(asked, costs):
    alone = [pack for one in asked for pack in pack_questions([one], costs, False)]
    together = pack_questions(asked, costs, False)
    assert total(together, costs) <= total(alone, costs)


def total(packs, costs):
    return sum(costs.tree_cost(len(pack.tree)) for pack in packs)


@settings(deadline=None)
@given(asked=asked_things, token=st.integers(1, 50), tokens=st.integers(14, 60))
def test_trees_keep_to_the_budget(asked, token, tokens):
    # a context and a continuation have at most 8 + 4 nodes
    for pack in pack_questions(asked, TreeCosts(token, tokens), True):
        assert len(pack.tree) <= tokens


def test_the_cost_of_a_tree_by_pencil():
    # each of 3 nodes costs 10 for itself and 1 for each of 3 nodes
    assert TreeCosts(10, 100).tree_cost(3) == 3 * 10 + 3 * 3


def test_turns_of_a_dialogue_share_a_tree():
    long = tuple(range(100, 160))
    asked = [TokenQuestion(long[:n], ((1, 2), (1, 3))) for n in (20, 40, 60)]
    [pack] = pack_questions(asked, TreeCosts(1000, 4096), False)
    assert len(pack.tree) == 60 + 3 * 1


def test_dialogues_that_have_nothing_in_common_share_none():
    asked = [TokenQuestion((n, *range(100, 140)), ((1, 2),)) for n in range(5)]
    assert len(pack_questions(asked, TreeCosts(1000, 4096), False)) == 5


def test_turns_whose_followups_are_many_are_trees_of_their_own():
    # 2 tokens shared, 200 nodes each: 2 tokens saved cost 2 * 200 * 200 of attention
    many = tuple((i, i, 2) for i in range(100))
    asked = [TokenQuestion((7, 8), many), TokenQuestion((7, 8, 9), many)]
    assert len(pack_questions(asked, TreeCosts(10, 4096), False)) > 1


def test_very_many_continuations_are_divided_at_the_best_size():
    asked = [
        TokenQuestion(tuple(range(50)), tuple((100 + i, 2) for i in range(10_000)))
    ]
    costs = TreeCosts(600, 10**6)
    packs = pack_questions(asked, costs, False)
    # a tree holds 50 + n nodes; (50 + n)(650 + n) / n is least at n = sqrt(50 * 650)
    best = min(
        -(-10_000 // n) * costs.tree_cost(50 + n) for n in range(1, 10_000)
    )  # trees of n each
    assert total(packs, costs) <= 1.02 * best


@pytest.mark.parametrize('with_context', [True, False])
def test_a_divided_context_is_told_once(with_context):
    asked = [TokenQuestion((1, 2, 3), tuple((100 + i, 2) for i in range(500)))]
    packs = pack_questions(asked, TreeCosts(6, 64), with_context)
    assert len(packs) > 1
    assert sum((0, CONTEXT) in pack.rows for pack in packs) == with_context


def test_a_pack_answers_equal_continuations_with_one_edge():
    [pack] = pack_questions(
        [TokenQuestion((1,), ((5, 6), (5, 6)))], TreeCosts(6, 64), False
    )
    assert isinstance(pack, Pack)
    assert pack.rows[0, 0] == pack.rows[0, 1]
