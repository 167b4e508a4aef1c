"""
About how many openers would settle what an audit could not show.
"""

from __future__ import annotations

from collections.abc import Sequence

from parlai_ext.audit.audited import Audited
from parlai_ext.core.display import rough_count
from parlai_ext.ranking.separation import (
    DialoguesNeeded,
    dialogues_needed,
    fold_games,
)
from parlai_ext.ranking.table import Floats


def openers_to_tell_apart(
    audited: Audited,
    values: Floats,
    names: tuple[str, str],
    n_systems: int,
    games_per_opener: int = 1,
) -> DialoguesNeeded:
    """
    Return how many partners and openers would tell two systems apart.

    :param values: ``[2, partner, opener]``, the system with the better score first.
    :param names: of the two, in the same order.
    :param n_systems: how many systems are compared together.
    """
    return dialogues_needed(
        names,
        fold_games(values[0] - values[1], games_per_opener),
        n_systems * (n_systems - 1) // 2,
        partners=audited.options.partners,
        games_per_opener=games_per_opener,
    )


def most_dialogues(needed: Sequence[DialoguesNeeded]) -> DialoguesNeeded:
    """
    Return the one of these that takes the most dialogues.
    """
    return max(needed, key=dialogues_first)


def dialogues_first(one: DialoguesNeeded) -> float:
    """
    Return how many dialogues it takes, infinite where no number is enough.
    """
    return float('inf') if one.n_dialogues is None else one.n_dialogues


def settling_text(
    audited: Audited, needed: DialoguesNeeded, played: int, option: str = ''
) -> str:
    """
    Return about how many openers would tell two systems apart, as the end of a
    sentence.

    :param played: the openers behind the finding.
    :param option: the one that takes more of the run's openers.
    """
    if needed.n_openers is None or needed.n_partners is None:
        return str(needed.reason)
    pair = f'{needed.better} and {needed.worse}'
    count = rough_count(needed.n_openers, needed.is_rough)
    if needed.n_partners > len(audited.opponents):
        partners = rough_count(needed.n_partners, needed.is_rough)
        return f'{partners} partners and {count} openers would tell {pair} apart'
    if needed.n_openers <= played:
        return f'a few more openers would tell {pair} apart'
    text = f'{count} openers would tell {pair} apart'
    if option and needed.n_openers <= audited.num_openers:
        return f'{text} ({option} {needed.n_openers})'
    return text
