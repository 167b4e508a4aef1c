"""
What a choice of targets does to a ranking: every small set of systems, ranked by
itself.

In all-play-all the opponents of a system are the other systems of the set, so that a
set can be chosen to make a system look bad (bipartite-play, 2022, section 7.2 and Table
6). With fixed partners no score depends on the set. Both follow from one computation: a
system's mean in a set is over its dialogues with opponents that are in the set, and
with those that are no system of any set.

Tables are ``[system, opponent, opener]`` as in `table`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product

import numpy as np

from parlai_ext.core import frozen
from parlai_ext.ranking.intervals import (
    Bools,
    Floats,
    Ints,
    Sampling,
    draw_counts,
    round_off_noise,
)

Places = Ints
NO_SYSTEM = -1  # an opponent that is none of the ranked systems: a fixed partner


@frozen
class SetMeans:
    """
    The means of the systems of many sets.

    :param sets: ``[set, member]``, places of systems.
    :param means: the same shape: each member's mean in its set; NaN without dialogues.
    :param full: ``[system]``: its mean with all opponents.
    """

    sets: Places
    means: Floats
    full: Floats


@frozen
class Swing:
    """
    How far choosing a set can move one system.

    `gain` and `loss` are the largest numbers of places that it rises and falls among
    the members of a set, against its place among the same members with all opponents;
    the sets are places of systems.
    """

    system: int
    gain: int
    gain_set: tuple[int, ...]
    loss: int
    loss_set: tuple[int, ...]


@frozen
class Turn:
    """
    Two systems of which one is better in the fair set and the other in the unfair one.
    """

    better: int
    worse: int
    fair_set: tuple[int, ...]
    unfair_set: tuple[int, ...]


@frozen
class Overturned(Turn):
    """
    Two systems that change places in `n_overturned` of the `n_sets` sets with both.

    The fair set is all systems; `margin` is by how much `worse` leads in the unfair
    one, where it leads most.
    """

    n_sets: int
    n_overturned: int
    margin: float


@frozen
class UnfairSets:
    """
    Table 6 for one unfavored system: how many favored systems win or lose against it
    in the set of all systems without two siblings (fair), and in a set with them
    (unfair).

    :param counts: of those that win in both, in the fair set only, in the unfair one
        only, and in neither.
    """

    unfavored: int
    siblings: tuple[int, ...]
    counts: tuple[int, ...]
    turns: tuple[Turn, ...] = ()


def all_sets(num_systems: int, size: int) -> Places:
    """
    Return ``[set, member]``: every set of ``size`` systems, in lexicographic order.
    """
    sets = list(combinations(range(num_systems), size))
    return np.array(sets, np.int64).reshape(-1, size)


def set_means(values: Floats, own_place: Sequence[int], sets: Places) -> SetMeans:
    """
    Return the means of the systems of each set.

    :param values: ``[system, opponent, opener]``.
    :param own_place: for each opponent the system that it is, or `NO_SYSTEM`.
    """
    # sums of scores, and their counts: with all opponents that stay, and of systems
    scored = ~np.isnan(values)
    sums = np.where(scored, values, 0.0).sum(axis=2)
    pairs = np.stack([sums, scored.sum(axis=2).astype(np.float64)])
    places = np.array(own_place)
    base = pairs[:, :, places == NO_SYSTEM].sum(axis=2)
    between = np.zeros((2, len(values), len(values)))
    between[:, :, places[places != NO_SYSTEM]] = pairs[:, :, places != NO_SYSTEM]
    inside = between[:, sets[:, :, None], sets[:, None, :]].sum(axis=3)
    total, number = base[:, sets] + inside
    all_total, all_number = base + between.sum(axis=2)
    with np.errstate(invalid='ignore'):
        means, full = total / number, all_total / all_number
    return SetMeans(sets, round_off_noise(means), round_off_noise(full))


def _ranks(means: Floats) -> Places:
    """
    Return, for each row, one more than the number of larger means in it.
    """
    return 1 + (means[:, None, :] > means[:, :, None]).sum(axis=2)


def swings(result: SetMeans) -> list[Swing]:
    """
    Return the largest rise and fall of each system over all sets that it is in; of sets
    that move it equally far, the first.
    """
    rise = _ranks(result.full[result.sets]) - _ranks(result.means)
    rows = []
    for system in range(len(result.full)):
        at, member = np.nonzero(result.sets == system)
        if not len(at):
            continue
        moves = rise[at, member]
        best, worst = int(moves.argmax()), int(moves.argmin())
        rows.append(
            Swing(
                system,
                max(0, int(moves[best])),
                tuple(result.sets[at[best]].tolist()),
                max(0, -int(moves[worst])),
                tuple(result.sets[at[worst]].tolist()),
            )
        )
    return rows


def overturned_pairs(result: SetMeans) -> list[Overturned]:
    """
    Return every pair of systems with different full means that changes places in some
    set, the most lopsided first.
    """
    pairs = []
    systems = range(len(result.full))
    for better, worse in permutations(systems, 2):
        if not result.full[better] > result.full[worse]:
            continue
        is_worse, is_better = result.sets == worse, result.sets == better
        both = is_worse.any(axis=1) & is_better.any(axis=1)
        means = result.means[both]
        leads = means[is_worse[both]] - means[is_better[both]]
        if (leads > 0).any():
            worst = int(np.nanargmax(leads))
            unfair = tuple(result.sets[both][worst].tolist())
            n_overturned, margin = int((leads > 0).sum()), float(leads[worst])
            turn = (better, worse, tuple(systems), unfair)
            pairs.append(Overturned(*turn, len(leads), n_overturned, margin))
    return sorted(pairs, key=lambda pair: (-pair.margin, pair.better, pair.worse))


def unfair_sets(
    values: Floats, own_place: Sequence[int], families: Sequence[str | None]
) -> Iterator[UnfairSets]:
    """
    Yield Table 6 for each unfavored system and each two siblings of it.

    As in the paper, the fair set is all systems without the two siblings, and each of
    its other systems is favored once.

    :param values: ``[system, opponent, opener]``.
    :param own_place: for each opponent the system that it is, or `NO_SYSTEM`.
    :param families: of each system; `None` has no siblings.
    """
    for unfavored, family in enumerate(families):
        kin = [
            k
            for k, other in enumerate(families)
            if family is not None and other == family and k != unfavored
        ]
        for siblings in combinations(kin, 2):
            fair_set = [k for k in range(len(values)) if k not in siblings]
            if len(fair_set) > 1:
                yield unfair_set(values, own_place, unfavored, siblings, fair_set)


def unfair_set(
    values: Floats,
    own_place: Sequence[int],
    unfavored: int,
    siblings: tuple[int, ...],
    fair_set: Sequence[int],
) -> UnfairSets:
    """
    Return Table 6 for one unfavored system and its siblings: each other system of the
    fair set is favored once.
    """
    fair = _mean_by_system(values, own_place, fair_set)
    counts: Counter[tuple[bool, ...]] = Counter()
    turns = []
    for favored in fair_set:
        if favored == unfavored:
            continue
        members = sorted((favored, unfavored, *siblings))
        unfair = _mean_by_system(values, own_place, members)
        wins = tuple(one[favored] > one[unfavored] for one in (fair, unfair))
        counts[wins] += 1
        if wins in ((True, False), (False, True)):
            order = (favored, unfavored) if wins[0] else (unfavored, favored)
            turns.append(Turn(*order, tuple(fair_set), tuple(members)))
    cells = tuple(counts[wins] for wins in product((True, False), repeat=2))
    return UnfairSets(unfavored, siblings, cells, tuple(turns))


def _mean_by_system(
    values: Floats, own_place: Sequence[int], members: Sequence[int]
) -> dict[int, float]:
    means = set_means(values, own_place, np.array([members])).means[0]
    return dict(zip(members, means.tolist(), strict=True))


def sibling_effect(
    values: Floats,
    own_place: Sequence[int],
    families: Sequence[str | None],
    sampling: Sampling,
) -> tuple[float, Floats] | None:
    """
    Return by how much dialogues with a sibling score above what the two systems' other
    dialogues lead to expect, and bootstrap draws of it over openers.

    Expected is the sum of an effect of the system and one of its opponent, fitted by
    least squares to the mean scores of pairs that are no siblings. `None` where there
    are no siblings, or the other pairs do not determine what is expected of them.
    """
    scored = ~np.isnan(values)
    played = np.asarray(scored.any(axis=2))
    kin = [families[place] if place != NO_SYSTEM else None for place in own_place]
    same = [[f is not None and f == g for g in kin] for f in families]
    sibling = played & np.array(same, bool).reshape(played.shape)
    weights = _effect_weights(played, sibling)
    if weights is None:
        return None
    cells = np.where(scored, values, 0.0)
    rng = np.random.default_rng([sampling.seed, 0])
    drawn = draw_counts(values.shape[2], sampling.bootstraps, rng)
    counts = np.concatenate([np.ones((1, values.shape[2])), drawn])
    sums, numbers = (
        np.einsum('bj,tpj->btp', counts, side)
        for side in (cells, scored.astype(np.float64))
    )
    with np.errstate(invalid='ignore', divide='ignore'):
        means = sums / numbers
    effects = np.where(weights != 0, means * weights, 0.0).sum(axis=(1, 2))
    return float(effects[0]), effects[1:]


def _effect_weights(played: Bools, sibling: Bools) -> Floats | None:
    """
    Return ``[system, opponent]``: the sibling effect is the sum of the mean scores with
    these weights.
    """
    if not sibling.any():
        return None
    num_systems, num_opponents = played.shape

    def design(cells: Bools) -> Floats:
        rows, columns = np.nonzero(cells)
        return np.hstack([np.eye(num_systems)[rows], np.eye(num_opponents)[columns]])

    others = played & ~sibling
    fit, wanted = design(others), design(sibling)
    if not len(fit):
        return None
    inverse = np.linalg.pinv(fit)
    if not np.allclose(wanted @ inverse @ fit, wanted, atol=1e-8):
        return None
    weights = np.zeros(played.shape)
    weights[sibling] = 1 / sibling.sum()
    weights[others] = -(wanted.mean(axis=0) @ inverse)
    return weights
