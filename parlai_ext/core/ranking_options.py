"""
How the systems of a scored run are ranked: the ``ranking:`` section of a protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from parlai_ext.core.options import option, read_options

RATINGS = (
    'openskill',
    'trueskill',
    'bradley_terry',
    '3-1-0',
    '2-1-0',
    'sum_of_ranks',
)


@dataclass(frozen=True)
class RankingOptions:
    """
    Options of a ranking.
    """

    rule: str = option(
        'mean',
        choices=('mean', 'tournament'),
        metavar='NAME',
        help='what ranks: mean (scores) or tournament (games won)',
    )
    rating: str = option(
        'openskill',
        choices=RATINGS,
        metavar='NAME',
        help='of a tournament: openskill, trueskill, bradley_terry, 3-1-0, 2-1-0 or '
        'sum_of_ranks',
    )
    shuffles: int = option(
        3,
        low=1,
        high=10_000,
        help='orders of the games over which openskill and trueskill average',
    )
    bootstraps: int = option(
        2000,
        low=1,
        high=100_000,  # an interval gains nothing from more, but memory is asked for
        help='resamples behind each interval',
    )
    partners: Literal['sampled', 'fixed'] = option(
        'sampled',
        choices=('sampled', 'fixed'),
        help='whether ranks are about partners like these or about these partners only',
    )
    max_failed_share: float = option(
        0.05,
        low=0,
        high=1,
        metavar='SHARE',
        help='a system with more failed dialogues is listed, not ranked',
    )
    max_truncated_share: float = option(
        0.2,
        low=0,
        high=1,
        metavar='SHARE',
        help='of a system’s contexts that were too long for the judge; above it, '
        'its scores are marked as not comparable',
    )

    @property
    def is_tournament(self) -> bool:
        """
        True if games and their rating rank the systems, not mean scores.
        """
        return self.rule == 'tournament'


def ranking_options(
    section: Mapping[str, Any], replaced: Mapping[str, Any] | None = None
) -> RankingOptions:
    """
    Return the options of a ``ranking:`` section, some of them replaced.

    :param replaced: values that hold instead, unless they are `None`. A rating without
        a rule is that of a tournament.
    :raises UserError: for an unknown key or a wrong value.
    """
    given = {k: v for k, v in (replaced or {}).items() if v is not None}
    if {'rating', 'shuffles'} & set(given) and 'rule' not in given:
        given['rule'] = 'tournament'
    return read_options(RankingOptions, {**section, **given}, 'ranking: ')
