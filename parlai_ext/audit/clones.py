"""
Does it pay to enter a system twice? A clone of a target must get the target's score,
and a clone among the partners must not lift the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parlai_ext.audit.audited import Audited, outcome_of_equality, ranks_of
from parlai_ext.audit.record import (
    Finding,
    PartResult,
    Row,
    left_out,
    outcome_of,
)
from parlai_ext.audit.side_run import SidePlayer
from parlai_ext.core.display import interval, number
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import System, content_id
from parlai_ext.ranking.newcomers import Difference, difference, lift, means_without
from parlai_ext.ranking.table import Floats, system_means

TARGETS, PARTNERS = 'clone as target', 'clone as partner'
BY_DEFAULT = 2  # the first systems that are no floors


def cloned_targets(audited: Audited, wanted: Sequence[str]) -> list[int]:
    """
    Return the systems to clone: those that are asked for, else the first two that are
    no floors.

    :raises UserError: for a name that is no ranked target's.
    """
    for name in wanted:
        if name not in audited.systems:
            hint = nearest(name, audited.systems)
            raise UserError(f'--clone {name}: no ranked target; {hint}')
    if wanted:
        return [audited.systems.index(name) for name in dict.fromkeys(wanted)]
    return [k for k in audited.by_rank if k in audited.honest][:BY_DEFAULT]


def clone_of(audited: Audited, place: int) -> System:
    """
    Return the same system under another name.
    """
    system = audited.plan.roster.system(audited.systems[place])
    return replace(system, name=audited.free_name(f'clone-of-{system.name}'))


def check_clones_as_targets(
    audited: Audited, player: SidePlayer, places: Sequence[int]
) -> PartResult:
    """
    Return whether a clone, played as a further target, gets the score of its original
    over the same openers.

    :raises NotPlayed: when it cannot be played.
    """
    findings, rows = [], []
    for place in places:
        clone = clone_of(audited, place)
        tables = player.play(_folder(audited, place), [clone], player.partners)
        values = np.concatenate(
            [
                player.values(tables, [clone.name]),
                audited.first_games(player.num_openers)[[place]],
            ]
        )
        values[:, np.isnan(values).all(axis=2).any(axis=0)] = np.nan  # itself
        gap = difference(values, audited.bootstraps, audited.seed)
        name = audited.systems[place]
        text = f'A clone of {name} as a further target scores {_gap_text(gap)}, over '
        text += f'{player.num_openers} openers.'
        findings.append(Finding(TARGETS, text, outcome_of_equality(audited, gap)))
        rows.append(
            Row(TARGETS, clone.name, name, 'score above', gap.value, gap.low, gap.high)
        )
    return PartResult(tuple(findings), tuple(rows))


def _gap_text(gap: Difference) -> str:
    """
    Return how far a clone's score is from its original's, in words.
    """
    if gap.value == gap.low == gap.high == 0:
        return 'exactly as it does'
    if gap.value is None:
        return 'nothing'
    return f'{number(gap.value, 3)} ({interval(gap.low, gap.high, 3)}) above it'


def check_clones_as_partners(
    audited: Audited, player: SidePlayer, places: Sequence[int]
) -> PartResult:
    """
    Return whether a clone among the partners lifts its original above the others.

    :raises NotPlayed: when it cannot be played.
    """
    if player.is_self_play:
        return left_out(
            PARTNERS, 'Clones as partners are left out: in self-play there are none.'
        )
    targets = [audited.plan.roster.system(name) for name in audited.systems]
    before = audited.first_games(player.num_openers)
    findings, rows = [], []
    for place in places:
        clone = clone_of(audited, place)
        folder = f'{_folder(audited, place)}-as-partner'
        tables = player.play(folder, targets, [clone])
        order = [tables.systems.index(name) for name in audited.systems]
        more = tables.scores[audited.dimension][order]
        gain = lift(before, more, place, audited.bootstraps, audited.seed)
        rank = ranks_of(system_means(before))[place]
        after = ranks_of(system_means(np.concatenate([before, more], axis=1)))[place]
        name = audited.systems[place]
        usual = usual_lifts(before, place)
        text = (
            f'A clone of {name} among the {before.shape[1] + 1} partners changes its '
            f'score by {number(gain.value, 3)} ({interval(gain.low, gain.high, 3)}) '
            f'against the other systems’, and its rank from {rank} to {after}'
        )
        if usual:
            text += f'; the run’s own partners change it by {interval(*usual, 3)}'
        # a clone may do what the partners of the run do, or nothing
        ends = (0.0, *(usual or ()))
        outcome = outcome_of(
            shown=gain.is_within(min(ends), max(ends)) and rank == after,
            refuted=gain.is_beyond(min(ends), max(ends)),
        )
        findings.append(Finding(PARTNERS, f'{text}.', outcome))
        rows += [
            Row(PARTNERS, clone.name, name, 'lift', gain.value, gain.low, gain.high),
            Row(PARTNERS, clone.name, name, 'rank', after),
            Row(PARTNERS, clone.name, name, 'rank before', rank),
        ]
    return PartResult(tuple(findings), tuple(rows))


def usual_lifts(values: Floats, place: int) -> tuple[float, float] | None:
    """
    Return the least and the most by which one of the partners changes a system’s mean
    against the other systems’; `None` with fewer than two partners.
    """
    if values.shape[1] < 2:
        return None
    lifts = []
    for k in range(values.shape[1]):
        drift = system_means(values) - means_without(values, 1, np.array([k]))
        lifts.append(float(drift[place] - np.delete(drift, place).mean()))
    return min(lifts), max(lifts)


def _folder(audited: Audited, place: int) -> str:
    """
    Return the name of the folder of a clone's side run.
    """
    name = audited.systems[place]
    identity = audited.run.manifest.targets[name].identity
    return f'clone-{content_id(name, identity)[:12]}'
