"""
Human judgements as a reference: system means, and their draws over raters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.ranking.intervals import draw_counts
from parlai_ext.ranking.table import Floats


@dataclass(frozen=True)
class Panel:
    """
    For each rater and system the sum and the number of judgements, ``[rater, system]``.

    A judgement without a rater counts as a rater of its own. Raters who saw several
    systems are drawn together, so that one draw moves all of these; those who saw one
    system are drawn within it, so that no draw leaves it without a judge.
    """

    sums: Floats
    counts: Floats

    @classmethod
    def of(cls, judgements: Sequence[HumanJudgement], systems: Sequence[str]) -> Panel:
        """
        Return the panel of the judgements of these systems.
        """
        column = {name: i for i, name in enumerate(systems)}
        used = [one for one in judgements if one.system in column]
        # sorted, so that the order of the rows in a file changes nothing
        used.sort(key=lambda one: (one.system, one.rater or '', one.value))
        units: dict[tuple[str, str], list[HumanJudgement]] = defaultdict(list)
        for k, one in enumerate(used):
            key = ('row', f'{k:09}') if one.rater is None else ('rater', one.rater)
            units[key].append(one)
        sums = np.zeros((len(units), len(systems)))
        counts = np.zeros((len(units), len(systems)))
        for u, key in enumerate(sorted(units)):
            for one in units[key]:
                sums[u, column[one.system]] += one.value
                counts[u, column[one.system]] += 1
        return cls(sums, counts)

    def means(self) -> Floats:
        """
        Return each system's mean judgement, NaN when it has none.
        """
        with np.errstate(invalid='ignore'):
            return self.sums.sum(axis=0) / self.counts.sum(axis=0)

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """
        Return ``[draw, system]`` mean judgements of raters drawn with replacement.
        """
        seen = (self.counts > 0).sum(axis=1)
        only = self.counts.argmax(axis=1)
        strata = [np.flatnonzero(seen > 1)]
        strata += [
            np.flatnonzero((seen == 1) & (only == s))
            for s in range(self.counts.shape[1])
        ]
        weights = np.zeros((draws, len(seen)))
        for units in strata:
            weights[:, units] = draw_counts(len(units), draws, rng)
        with np.errstate(invalid='ignore'):
            return (weights @ self.sums) / (weights @ self.counts)
