"""
Rows of a bench for several scorers together: the mean of their ranks on each set.

A rank needs all items of a set, so that this is made of a bench's scores and is no
scorer. In a bench file, under ``mean_ranks``, each has a label and its members:

    mean_ranks:
      composite and FED: [composite, 'FED, complaints']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from parlai_ext.bench.plan import MEAN_RANK, Variant
from parlai_ext.bench.score_sets import ScorerResult, SetScores
from parlai_ext.data.judged.judged_set import JudgedSet
from parlai_ext.data.judged.qualities import OVERALL, main_dimension, main_score
from parlai_ext.ranking.ensembles import mean_rank_scores

DIMENSION = OVERALL.capitalize()
NOT_RANKED = 'a member of the mean rank has no score for it'


def mean_rank_results(
    mean_ranks: Mapping[str, Sequence[str]],
    results: Sequence[ScorerResult],
    sets: Mapping[str, JudgedSet],
) -> list[ScorerResult]:
    """
    Return the mean ranks as results like those of scorers.

    :param mean_ranks: by label, the labels of the members.
    :param results: of the scorers; a mean rank with a member that is not among them is
        left out.
    :param sets: the judged sets by name, with the items that were scored.
    """
    by_label = {result.variant.label: result for result in results}
    return [
        _mean_rank(label, [by_label[name] for name in members], sets)
        for label, members in mean_ranks.items()
        if all(name in by_label for name in members)
    ]


def _mean_rank(
    label: str, members: Sequence[ScorerResult], sets: Mapping[str, JudgedSet]
) -> ScorerResult:
    names = [member.variant.label for member in members]
    signatures = [member.signature for member in members]
    whole = [signature for signature in signatures if signature is not None]
    fitted = {name: None for m in members for name in m.fitted_on}
    return ScorerResult(
        Variant(label, {'name': MEAN_RANK, 'of': names}),
        '|'.join([MEAN_RANK, *(f'({signature})' for signature in whole)])
        if len(whole) == len(signatures)
        else None,
        (DIMENSION,),
        members[0].level,
        fitted_on=tuple(fitted),
        sets={name: _set_scores(members, one) for name, one in sets.items()},
    )


def _set_scores(
    members: Sequence[ScorerResult], judged_set: JudgedSet
) -> SetScores | str:
    """
    Return the mean ranks of a set's items, or why there are none.
    """
    table = []
    for member in members:
        scores = member.sets.get(judged_set.name, 'it was not scored')
        if isinstance(scores, str):
            return f'{member.variant.label}: {scores}'
        main = main_dimension(member.dimensions, judged_set)
        values = [main_score(one, main) for one in scores.values]
        table.append([np.nan if value is None else value for value in values])
    means = mean_rank_scores(np.array(table).reshape(len(members), -1))
    known = [float(mean) if np.isfinite(mean) else None for mean in means]
    missing = known.count(None)
    reasons = {NOT_RANKED: missing} if missing else {}
    return SetScores([{DIMENSION: value} for value in known], reasons)
