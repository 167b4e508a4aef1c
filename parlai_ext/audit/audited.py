"""
The run under audit: its table of scores, its ranked systems, and its order of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parlai_ext.audit.options import AuditOptions
from parlai_ext.audit.record import outcome_of
from parlai_ext.collect.plan import Plan
from parlai_ext.core.display import number
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.floors import is_floor
from parlai_ext.core.nouns import Roster, System
from parlai_ext.core.ranking_options import RankingOptions
from parlai_ext.ranking.intervals import draw_means
from parlai_ext.ranking.newcomers import Difference
from parlai_ext.ranking.ranks import ranks_by_score, significantly_better
from parlai_ext.ranking.table import Floats, system_means
from parlai_ext.ranking.target_sets import NO_SYSTEM
from parlai_ext.results.chosen_scores import choose_scores
from parlai_ext.results.rank import RunScores, read_run_scores
from parlai_ext.scoring.registry import is_outside
from parlai_ext.store import RunFolder

# bootstraps of an audit's own intervals at most: it has many
MOST_BOOTSTRAPS = 1000


@dataclass(frozen=True)
class Audited:
    """
    The scores of one scorer on one dimension, of the systems that have a rank.

    `values` is ``[system, opponent, opener]``; with two games over an opener, both are
    there as in `ScoreTables`. `own_place` says of each opponent which of the systems it
    is, or `NO_SYSTEM`. Targets without a rank are neither systems nor opponents here.

    :param folder: the folder of the run that this scorer's ranking lies in.
    """

    scores: RunScores
    folder: str
    dimension: str
    systems: tuple[str, ...]
    opponents: tuple[str, ...]
    values: Floats
    own_place: tuple[int, ...]

    @property
    def run(self) -> RunFolder:
        """
        The run folder.
        """
        return self.scores.run

    @property
    def plan(self) -> Plan:
        """
        The plan of the run.
        """
        return self.scores.plan

    def with_systems(self, systems: Sequence[System]) -> Audited:
        """
        Return the same with these systems in the place of the run's of their names.
        """
        by_name = {system.name: system for system in systems}
        plan, roster = self.plan, self.plan.roster
        named = Roster(
            tuple(by_name.get(s.name, s) for s in roster.targets),
            tuple(by_name.get(s.name, s) for s in roster.partners),
        )
        plan = replace(plan, protocol=replace(plan.protocol, roster=named))
        return replace(self, scores=replace(self.scores, plan=plan))

    @property
    def options(self) -> RankingOptions:
        """
        The options by which the run is ranked.
        """
        return self.scores.options

    @property
    def games_per_opener(self) -> int:
        """
        How often a pair played over one opener.
        """
        return self.scores.tables.games_per_opener

    @property
    def num_openers(self) -> int:
        """
        The number of openers.
        """
        return self.values.shape[2] // self.games_per_opener

    @property
    def bootstraps(self) -> int:
        """
        Resamples behind an interval of the audit.
        """
        return min(self.options.bootstraps, MOST_BOOTSTRAPS)

    @property
    def seed(self) -> int:
        """
        The seed of the run.
        """
        return self.scores.seed

    @cached_property
    def means(self) -> Floats:
        """
        The systems' scores.
        """
        return system_means(self.values)

    @cached_property
    def ranks(self) -> list[int]:
        """
        The systems' ranks by score.
        """
        return ranks_of(self.means)

    @cached_property
    def better(self) -> NDArray[np.bool_]:
        """
        ``[i, j]``: the ranking tells ``i`` from ``j``, and ``i`` is better.
        """
        draws = draw_means(
            self.values, self.options.bootstraps, self.seed, self.games_per_opener
        )
        return significantly_better(draws, partners=self.options.partners)

    @cached_property
    def least_claim(self) -> float | None:
        """
        The smallest difference of two systems that the ranking tells apart; `None`
        where it tells none apart.
        """
        gaps = self.means[:, None] - self.means[None, :]
        return float(gaps[self.better].min()) if self.better.any() else None

    @cached_property
    def honest(self) -> list[int]:
        """
        The systems that are no floors; all of them, where all are floors.
        """
        places = [k for k, name in enumerate(self.systems) if not is_floor(name)]
        return places or list(range(len(self.systems)))

    @property
    def compared(self) -> list[int]:
        """
        The systems whose order is in question: those that are no floors, or all, where
        fewer than two are none.
        """
        return self.honest if len(self.honest) > 1 else list(range(len(self.systems)))

    @property
    def claims(self) -> int:
        """
        How many pairs of the compared systems the ranking tells apart.
        """
        return int(self.better[np.ix_(self.compared, self.compared)].sum())

    @property
    def claims_text(self) -> str:
        """
        How many pairs the ranking tells apart, of how many, in words.
        """
        size = len(self.compared)
        text = f'{self.claims} of {size * (size - 1) // 2} pairs of systems'
        return text if size == len(self.systems) else f'{text} that are no floors'

    @property
    def by_rank(self) -> list[int]:
        """
        The systems, best first.
        """
        return sorted(range(len(self.systems)), key=lambda k: (self.ranks[k], k))

    def first_games(self, num_openers: int | None = None) -> Floats:
        """
        Return the games that the systems began, over the first so many openers.
        """
        return self.values[
            :, :, : min(self.num_openers, num_openers or self.num_openers)
        ]

    def free_name(self, name: str) -> str:
        """
        Return a name that no system of the run has, this one if it is free.
        """
        manifest = self.plan.manifest
        while name in manifest.everybody:
            name += '-audit'
        return name

    def names(self, places: Sequence[int]) -> list[str]:
        """
        Return the names of these systems.
        """
        return [self.systems[k] for k in places]

    def score(self, value: float | None) -> str:
        """
        Return a score as text, with as many digits as tell the systems apart.
        """
        return number(value, self._digits)

    @cached_property
    def _digits(self) -> int:
        spread = float(np.ptp(self.means)) if len(self.means) else 0.0
        return 2 if spread >= 0.5 else 3


def outcome_of_equality(audited: Audited, gap: Difference) -> str:
    """
    Return whether a difference is none: shown as soon as its interval holds 0 and
    reaches no further than the least difference that the ranking claims.
    """
    reach = audited.least_claim or 0.0
    return outcome_of(
        shown=gap.is_within(-reach, reach), refuted=gap.is_beyond(0.0, 0.0)
    )


def ranks_of(means: Floats) -> list[int]:
    """
    Return ranks by score, equal scores sharing one.
    """
    return ranks_by_score([None if np.isnan(m) else float(m) for m in means])


def read_audited(run: RunFolder, options: AuditOptions) -> Audited:
    """
    Read the scores to audit.

    :raises UserError: for a run without scores, an unknown scorer or dimension, or
        fewer than two ranked systems.
    """
    signature, folder = choose_scores(run, stored_hash(run, options.scores))
    scores = read_run_scores(run, signature, {})
    tables = scores.tables
    dimension = _dimension(list(tables.scores), options.dimension)
    values = tables.scores[dimension]
    ranked = scores.ranked & ~np.isnan(system_means(values))
    if ranked.sum() < 2:
        raise UserError(
            f'{run.root}: fewer than two systems have a rank on {dimension}; there is '
            'no order to audit'
        )
    systems = tuple(np.array(tables.systems, object)[ranked].tolist())
    place = {name: k for k, name in enumerate(systems)}
    left_out = set(tables.systems) - set(systems)
    columns = [k for k, name in enumerate(tables.opponents) if name not in left_out]
    opponents = tuple(tables.opponents[k] for k in columns)
    return Audited(
        scores,
        folder,
        dimension,
        systems,
        opponents,
        values[ranked][:, columns],
        tuple(place.get(name, NO_SYSTEM) for name in opponents),
    )


def stored_hash(run: RunFolder, wanted: str | None) -> str | None:
    """
    Return what `choose_scores` understands: the hash of the scores of a scorer from
    outside the package, anything else as it is.
    """
    if wanted is None or not is_outside(wanted):
        return wanted
    for path in sorted((run.root / 'scores').glob('*/scorer.json')):
        record: dict[str, Any] = run.read_json(f'scores/{path.parent.name}/scorer.json')
        if (record.get('config') or {}).get('name') == wanted:
            return path.parent.name
    return wanted


def _dimension(known: Sequence[str], wanted: str | None) -> str:
    """
    Return the dimension to audit: the one that is asked for, else the overall one, else
    the first.
    """
    if wanted is None:
        return sorted(known, key=lambda name: name.casefold() != 'overall')[0]
    by_name = {name.casefold(): name for name in known}
    if wanted.casefold() not in by_name:
        raise UserError(
            f'--dimension {wanted}: no such scores; {nearest(wanted, known)}'
        )
    return by_name[wanted.casefold()]
