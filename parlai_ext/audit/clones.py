"""
Does it pay to enter a system twice? A clone of a target must get the target's score,
and a clone among the partners must not lift the target.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parlai_ext.audit.audited import Audited, outcome_of_equality, ranks_of
from parlai_ext.audit.record import PartResult, outcome_of
from parlai_ext.audit.side_run import SidePlayer
from parlai_ext.core.display import interval, number
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import System, content_id
from parlai_ext.ranking.newcomers import difference, lift, means_without
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


def _clone(audited: Audited, place: int) -> tuple[System, str]:
    """
    Return the same system under another name, and the folder of its side run.
    """
    name = audited.systems[place]
    system = audited.plan.roster.system(name)
    identity = audited.run.manifest.targets[name].identity
    clone = replace(system, name=audited.free_name(f'clone-of-{name}'))
    return clone, f'clone-{content_id(name, identity)[:12]}'


def check_clones_as_targets(
    audited: Audited, player: SidePlayer, places: Sequence[int]
) -> PartResult:
    """
    Return whether a clone, played as a further target, gets the score of its original
    over the same openers.

    :raises NotPlayed: when it cannot be played.
    """
    result = PartResult(TARGETS)
    own = audited.first_games(player.num_openers)
    for place in places:
        clone, folder = _clone(audited, place)
        tables = player.play(folder, [clone], player.partners)
        values = np.concatenate([player.values(tables, [clone.name]), own[[place]]])
        values[:, np.isnan(values).all(axis=2).any(axis=0)] = np.nan  # itself
        gap = difference(values, audited.bootstraps, audited.seed)
        if gap.value == gap.low == gap.high == 0:
            text = 'exactly as it does'
        elif gap.value is None:
            text = 'nothing'
        else:
            ends = interval(gap.low, gap.high, 3)
            text = f'{number(gap.value, 3)} ({ends}) above it'
        name = audited.systems[place]
        result.report(
            f'A clone of {name} as a further target scores {text}, over '
            f'{player.num_openers} openers.',
            outcome_of_equality(audited, gap),
        )
        result.add(clone.name, name, 'score above', gap.value, gap.low, gap.high)
    return result


def check_clones_as_partners(
    audited: Audited, player: SidePlayer, places: Sequence[int]
) -> PartResult:
    """
    Return whether a clone among the partners lifts its original above the others.

    :raises NotPlayed: when it cannot be played.
    """
    result = PartResult(PARTNERS)
    if player.is_self_play:
        return result.leave_out(
            'Clones as partners are left out: in self-play there are none.'
        )
    targets = [audited.plan.roster.system(name) for name in audited.systems]
    before = audited.first_games(player.num_openers)
    for place in places:
        clone, folder = _clone(audited, place)
        tables = player.play(f'{folder}-as-partner', targets, [clone])
        order = [tables.systems.index(name) for name in audited.systems]
        more = tables.scores[audited.dimension][order]
        gain = lift(before, more, place, audited.bootstraps, audited.seed)
        rank = ranks_of(system_means(before))[place]
        after = ranks_of(system_means(np.concatenate([before, more], axis=1)))[place]
        name, usual = audited.systems[place], usual_lifts(before, place)
        text = (
            f'A clone of {name} among the {before.shape[1] + 1} partners changes its '
            f'score by {number(gain.value, 3)} ({interval(gain.low, gain.high, 3)}) '
            f'against the other systems’, and its rank from {rank} to {after}'
        )
        if usual:
            ends = interval(min(usual), max(usual), 3)
            text += f'; the run’s own partners change it by {ends}'
        # a clone may do what the partners of the run do, or nothing
        low, high = min([0.0, *usual]), max([0.0, *usual])
        outcome = outcome_of(
            shown=gain.is_within(low, high) and rank == after,
            refuted=gain.is_beyond(low, high),
        )
        result.report(f'{text}.', outcome)
        result.add(clone.name, name, 'lift', gain.value, gain.low, gain.high)
        result.add(clone.name, name, 'rank', after)
        result.add(clone.name, name, 'rank before', rank)
    return result


def usual_lifts(values: Floats, place: int) -> list[float]:
    """
    Return by how much each of the partners changes a system’s mean against the other
    systems’; nothing with fewer than two partners.
    """
    n_partners = values.shape[1]
    lifts = []
    for k in range(n_partners if n_partners > 1 else 0):
        drift = system_means(values) - means_without(values, 1, np.array([k]))
        lifts.append(float(drift[place] - np.delete(drift, place).mean()))
    return lifts
