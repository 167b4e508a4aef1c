"""
Continuations as a tree: every beginning once, every continuation a path.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.models.likelihood.encoder_decoder import build_tree, build_trees

continuations = st.lists(st.lists(st.integers(2, 5), max_size=6).map(tuple), max_size=8)


@given(continuations=continuations, start=st.sampled_from([(1,), (2, 1)]))
def test_every_path_of_a_tree_is_its_continuation(continuations, start):
    tree = build_tree(continuations, start)
    rest = iter(zip(tree.nodes.tolist(), tree.targets.tolist(), strict=True))
    for ids in continuations:
        for t, token in enumerate(ids):
            node, target = next(rest)
            seen = np.flatnonzero(tree.visible()[node])
            assert tuple(tree.prefixes.tokens[i] for i in seen) == start + ids[:t]
            assert tree.prefixes.depths[node] == len(start) + t - 1
            assert target == token


@given(continuations=continuations)
def test_a_tree_has_each_beginning_once(continuations):
    beginnings = {ids[:t] for ids in continuations for t in range(1, len(ids))}
    assert len(build_tree(continuations, (1,))) == 1 + len(beginnings)


@given(continuations=continuations, limit=st.integers(1, 20))
def test_a_forest_holds_every_continuation_once(continuations, limit):
    found = [
        ids
        for tree in build_trees(continuations, (1,), limit)
        for ids in tree.continuations
    ]
    assert sorted(found) == sorted(set(continuations))


@given(continuations=continuations, limit=st.integers(1, 20))
def test_no_tree_is_larger_than_the_limit(continuations, limit):
    for tree in build_trees(continuations, (1,), limit):
        assert len(tree.continuations) == 1 or len(tree) <= limit + 1
