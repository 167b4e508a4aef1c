"""
What lies behind a ranking: scores with each partner, their spread, and every pair of
systems. It is worked out from the scores again, so that old rankings have it too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from parlai_ext.core.ranking_options import ranking_options
from parlai_ext.ranking.intervals import Sampling
from parlai_ext.ranking.pairs import (
    CellMean,
    Spread,
    SystemDifference,
    cell_means,
    pair_differences,
    spreads,
)
from parlai_ext.results.chosen_scores import scores_rule
from parlai_ext.results.ranking import Ranking
from parlai_ext.results.tables import ScoreTables
from parlai_ext.store import RunFolder


@dataclass(frozen=True)
class DimensionDetails:
    """
    The scores of one dimension by target and partner, their spread by target, and the
    differences of all pairs of targets.
    """

    partners: tuple[str, ...]
    cells: Mapping[str, Mapping[str, CellMean]]
    spreads: Mapping[str, Spread]
    pairs: tuple[SystemDifference, ...]

    @cached_property
    def by_names(self) -> dict[tuple[str, str], SystemDifference]:
        """
        How each system does against each other one, where they have common dialogues.
        """
        pairs = {(one.first, one.second): one for one in self.pairs}
        return pairs | {(b, a): one.reversed for (a, b), one in pairs.items()}


def dimension_details(
    run: RunFolder, ranking: Ranking, tables: ScoreTables
) -> dict[str, DimensionDetails]:
    """
    Return the details of each dimension that a ranking of the run is about.

    Bootstraps and partners are those of the ranking, so that both make one claim.

    :param tables: the scores that are ranked.
    """
    plan = run.plan
    replaced = {
        **scores_rule(run, ranking.scorer_signature),
        'partners': ranking.partners,
        'bootstraps': ranking.bootstraps,
    }
    options = ranking_options(plan.protocol.ranking, replaced)
    sampling = Sampling(
        options.bootstraps,
        plan.protocol.seed,
        options.partners,
        tables.games_per_opener,
    )
    details = {}
    for dimension in ranking.scored_dimensions:
        if dimension not in tables.scores:
            continue
        values = tables.scores[dimension]
        ranked = {
            standing.system
            for standing in ranking.standings[dimension]
            if standing.rank is not None
        }
        pairs = pair_differences(
            values,
            tables.systems,
            [name in ranked for name in tables.systems],
            sampling,
        )
        details[dimension] = DimensionDetails(
            tables.opponents,
            cell_means(values, tables.systems, tables.opponents),
            spreads(values, tables.systems),
            tuple(pairs),
        )
    return details
