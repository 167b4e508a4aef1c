import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.report import browse
from parlai_ext.report.browse import Candidate, choose, fair_shares, room_for


def some(target, values):
    return [
        Candidate(f'{target}-{i}', f'pair-{i % 3}', f'o-{i}', target, 'p', value)
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


def test_the_random_ones_are_over_the_same_openers_for_each_target():
    # no values: half are taken as not scored, half at random, in one and the same order
    found = some('a', [None] * 90) + some('b', [None] * 90)
    openers = {'a': set(), 'b': set()}
    for pick in choose(found, 40):
        openers[pick.candidate.target].add(pick.candidate.opener_id)
    assert openers['a'] == openers['b'] and len(openers['a']) == 20


def test_there_is_room_for_as_many_as_fit(monkeypatch):
    monkeypatch.setattr(browse, 'MAX_PAGE_CHARACTERS', 1000)
    ten = [replace(one, size=50) for one in some('a', map(float, range(100)))]
    # 1000 / 50, and half as many with the scores of two scorers
    assert (room_for(ten), room_for(ten[:20]), room_for(ten, 2)) == (20, 20, 12)
    assert room_for(ten[:10], 2) == 10
