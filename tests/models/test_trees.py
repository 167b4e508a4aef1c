"""
Token sequences as trees, and which of them share one.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.models.likelihood import (
    TokenQuestion,
    TreeCosts,
    TreeSize,
    pack_questions,
)

few = st.integers(0, 3)
asked_things = st.lists(
    st.builds(
        TokenQuestion,
        st.lists(few, min_size=1, max_size=8).map(tuple),
        st.lists(st.lists(few, max_size=5).map(tuple), max_size=6).map(tuple),
    ),
    max_size=5,
)
COSTS = TreeCosts(3456, 16384, 24 * 3456)


@given(asked=asked_things, token=st.integers(1, 50), tokens=st.integers(14, 60))
def test_trees_keep_to_the_budget(asked, token, tokens):
    # a context and a continuation have at most 8 + 4 nodes
    for pack in pack_questions(asked, TreeCosts(token, tokens), True):
        assert len(pack) <= tokens


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
