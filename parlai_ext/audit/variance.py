"""
What makes a dialogue's score: its system, its partner, its opener, or chance.
"""

import numpy as np

from parlai_ext.audit.audited import Audited
from parlai_ext.audit.record import PartResult, outcome_of
from parlai_ext.core.display import percent
from parlai_ext.ranking.intervals import FEWEST_OPENERS, LEVEL
from parlai_ext.ranking.separation import fold_games
from parlai_ext.ranking.table import Floats, json_number
from parlai_ext.ranking.variance_shares import (
    REST,
    VarianceShares,
    variance_shares,
)

# what the choice of partners and openers could change in a ranking; with one partner or
# one opener a part of it cannot be told from the rest
WITH_SYSTEM = ('system × partner', 'system × opener')
RESAMPLES = 200


def check_variance(audited: Audited) -> PartResult:
    """
    Return what share of the variance of scores comes from systems, partners, openers
    and their interactions. Floors are left out, where two other systems are ranked:
    they make the share of systems as large as they are bad.
    """
    result = PartResult('variance')
    every = np.array(  # the mean of a pair's games over one opener
        [fold_games(one, audited.games_per_opener) for one in audited.values]
    )
    table = every[audited.compared]
    shares = variance_shares(table)
    if shares is None or 'system' not in shares.shares:
        return result.leave_out(
            'Shares of variance are left out: there are too few dialogues, or their '
            'scores do not vary.'
        )
    texts = [f'{name} {percent(share)}' for name, share in shares.shares.items()]
    system, choice = system_and_choice(shares)
    draws = _resampled(table, audited.seed)
    low, high = _interval(draws[:, 0])
    ends = '' if low is None else f'({percent(low)} to {percent(high)}) '
    text = (
        f'Of the variance of a dialogue’s score, {percent(system)} {ends}comes from '
        f'the system, and {"" if _tells_all(shares) else "up to "}{percent(choice)} '
        'from how it gets on with its partner and opener, which a choice of these '
        f'could change ({", ".join(texts)}; {len(table)} systems'
    )
    n_floors = len(every) - len(table)
    case = 'without floors' if n_floors else 'all systems'
    _add_shares(result, case, shares)
    result.add(case, 'system', 'share over openers', system, low, high)
    with_floors = variance_shares(every) if n_floors else None
    if with_floors is not None:
        _add_shares(result, 'all systems', with_floors)
        text += f' that are no floors; with the {n_floors} floors: '
        text += f'system {percent(with_floors.shares.get("system"))}'
    least, most = _interval(draws[:, 0] - draws[:, 1])
    outcome = outcome_of(
        shown=least is not None and least > 0, refuted=most is not None and most < 0
    )
    return result.report(f'{text}).', outcome)


def system_and_choice(shares: VarianceShares) -> tuple[float, float]:
    """
    Return the shares of the system, and of what a choice of partners and openers could
    change at most.
    """
    names = WITH_SYSTEM if _tells_all(shares) else (*WITH_SYSTEM, REST)
    return (
        shares.shares.get('system', 0.0),
        sum(shares.shares.get(name, 0.0) for name in names),
    )


def _tells_all(shares: VarianceShares) -> bool:
    return all(name in shares.shares for name in WITH_SYSTEM)


def _resampled(table: Floats, seed: int) -> Floats:
    """
    Return ``[resample, 2]``: `system_and_choice` of openers drawn with replacement.
    """
    size = table.shape[2]
    rng = np.random.default_rng([seed, 15])
    draws = []
    for _ in range(RESAMPLES if size >= FEWEST_OPENERS else 0):
        shares = variance_shares(table[:, :, rng.integers(size, size=size)])
        if shares is not None:
            draws.append(system_and_choice(shares))
    return np.array(draws, np.float64).reshape(-1, 2)


def _interval(draws: Floats) -> tuple[float | None, float | None]:
    """
    Return the middle 95 % of these draws; `None` without any.
    """
    if not len(draws):
        return None, None
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _add_shares(result: PartResult, case: str, shares: VarianceShares) -> None:
    for name, share in shares.shares.items():
        result.add(case, name, 'share', json_number(share))
        result.add(case, name, 'component', json_number(shares.components[name]))
