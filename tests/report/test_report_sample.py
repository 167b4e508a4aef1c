import random

from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.report.browse import Candidate, choose, fair_shares


def some(target, values):
    return [
        Candidate(f'{target}-{i}', f'pair-{i % 3}', 0, target, value)
        for i, value in enumerate(values)
    ]


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 200))
def test_shares_use_every_place_that_can_be_used(sizes, limit):
    shares = fair_shares(sizes, limit)
    assert sum(shares) == min(limit, sum(sizes))
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))


@given(st.lists(st.integers(0, 50), min_size=2, max_size=12), st.integers(0, 200))
def test_nobody_has_less_while_another_could_spare(sizes, limit):
    shares = fair_shares(sizes, limit)
    wanting = [s for s, size in zip(shares, sizes, strict=True) if s < size]
    assert not wanting or max(shares) - min(wanting) <= 1


def test_choice_is_bounded_and_has_both_ends_of_every_target():
    found = some('a', map(float, range(500))) + some('b', map(float, range(400)))
    picks = choose(found, 40)
    ids = {p.candidate.dialogue_id for p in picks}
    assert len(picks) == len(ids) == 40
    assert {'a-0', 'a-499', 'b-0', 'b-399'} <= ids


def test_dialogues_without_a_score_are_among_the_chosen():
    found = some('a', [float(i) for i in range(100)] + [None] * 3)
    assert any(p.candidate.value is None for p in choose(found, 20))


def test_all_are_chosen_when_they_fit():
    found = some('a', [1.0, None, 2.0]) + some('b', [5.0])
    assert {p.candidate for p in choose(found, 300)} == set(found)


def test_choice_does_not_depend_on_the_order_of_dialogues():
    found = some('a', [float(i % 7) for i in range(200)])
    mixed = random.Random(3).sample(found, len(found))
    assert choose(found, 25) == choose(mixed, 25)
