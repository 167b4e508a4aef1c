"""
A ranking as it is shown: with what speaks against it, and what lies behind it: scores
with each partner, their spread, and every pair of systems. These are worked out from
the scores again, so that old rankings have them too.
"""

from collections.abc import Mapping
from dataclasses import field

from parlai_ext.core import content_id, frozen, ranking_options
from parlai_ext.ranking.intervals import Sampling
from parlai_ext.ranking.standings import (
    CellMean,
    PairDifferences,
    Spread,
    cell_means,
    pair_differences,
    spreads,
)
from parlai_ext.results.ranking import Ranking, ScoreTables
from parlai_ext.store import RunFolder, ScorerRecord

PAGE = 'report.html'  # of a run


@frozen
class Doubt:
    """
    A reason not to believe a ranking on a dimension.

    :param sentence: the headline.
    :param words: the same in a few words.
    :param is_refuted: beyond chance; otherwise all of it may be chance.
    """

    sentence: str
    words: str
    is_refuted: bool


Doubts = Mapping[str, Doubt]  # by dimension


@frozen
class DimensionDetails:
    """
    The scores of one dimension by target and partner, their spread by target, and the
    differences of each two targets, in either order.
    """

    partners: tuple[str, ...]
    cells: Mapping[str, Mapping[str, CellMean]]
    spreads: Mapping[str, Spread]
    pairs: PairDifferences


@frozen
class RankingView:
    """
    A ranking as a page shows it.

    :param details: what lies behind it, by dimension, as far as that was worked out.
    :param name: its scorer and judge in words.
    :param scorer: the record of another scorer than the protocol's (see `page`).
    :param speed: how fast the judge scored, in words, where that is known.
    :param doubts: what speaks against it, by dimension.
    """

    ranking: Ranking
    run: RunFolder
    details: Mapping[str, DimensionDetails] = field(default_factory=dict)
    name: str = ''
    scorer: ScorerRecord | None = None
    speed: str | None = None
    doubts: Doubts = field(default_factory=dict)

    @property
    def id(self) -> str:
        """
        The name of the scores' folder.
        """
        return content_id(self.ranking.scorer_signature)


def dimension_details(
    run: RunFolder, ranking: Ranking, tables: ScoreTables
) -> dict[str, DimensionDetails]:
    """
    Return the details of each dimension that a ranking of the run is about.

    Bootstraps and partners are those of the ranking, so that both make one claim.

    :param tables: the scores that are ranked.
    """
    protocol, systems = run.plan.protocol, tables.systems
    options = ranking_options(protocol.ranking, ranking.rule)
    sampling = Sampling(
        options.bootstraps, protocol.seed, options.partners, tables.games_per_opener
    )
    details = {}
    for dimension in filter(tables.scores.__contains__, ranking.scored_dimensions):
        values = tables.scores[dimension]
        ranks = {one.system: one.rank for one in ranking.standings[dimension]}
        ranked = [ranks.get(name) is not None for name in systems]
        details[dimension] = DimensionDetails(
            tables.opponents,
            cell_means(values, systems, tables.opponents),
            spreads(values, systems),
            pair_differences(values, systems, ranked, sampling),
        )
    return details
