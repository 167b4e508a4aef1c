"""
The looks at a run that stops when it is settled, and the file that holds them.

What is decided depends on the stored scores alone: a run that was killed decides the
same when it goes on, and whoever ranks its scores finds the same decisions.
"""

from dataclasses import replace
from itertools import compress

from parlai_ext.core import content_id, record_to_json
from parlai_ext.ranking.intervals import LEVEL, Floats
from parlai_ext.ranking.standings import fold_games, known_means
from parlai_ext.ranking.stopping_rule import (
    WHEN_RANKED,
    Stopping,
    settle_pairs,
    settled_ranks,
)
from parlai_ext.results.rank import Reference, RunScores, chosen_dimension
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import STOPPING_FILE, RunFolder, StopRecord


def look_at_scores(
    scores: RunScores,
    *,
    margin: float,
    planned: int,
    dimension: str | None,
    used: int | None = None,
) -> Stopping:
    """
    Return which pairs of the ranked targets are settled by the scores of a run.

    :param planned: openers that would be played at most.
    :param used: openers at the last look; by default those of the run.
    :param dimension: the one that is watched, as for `scores_by_opener`.
    :raises UserError: for a dimension without scores.
    """
    run = scores.run
    name, means, systems, n_pairs = scores_by_opener(scores, dimension)
    # the openers of each block are those that the run had when it was looked at
    last = used or len(run.openers)
    every = (*run.manifest.grown_from, len(run.openers))
    numbers = [n for n in every if n <= last] or every[-1:]
    looks, pairs = settle_pairs(means, systems, numbers, margin, n_pairs)
    return Stopping(
        rule=WHEN_RANKED,
        dimension=name,
        margin=margin,
        confidence=LEVEL,
        planned=planned,
        n_pairings=len(run.pairings),
        looks=looks,
        pairs=pairs,
        ranks=settled_ranks(systems, pairs),
        scores=scores.scorer_signature,
        n_later=len(run.openers) - numbers[-1],
    )


def scores_by_opener(
    scores: RunScores, wanted: str | None
) -> tuple[str, Floats, list[str], int]:
    """
    Return a dimension, on it the means of the ranked targets over their partners,
    ``[system, opener]``, with their names, and the number of pairs of all targets,
    which share the error.

    :param wanted: the dimension, as for `chosen_dimension`.
    """
    tables, ranked = scores.tables, scores.ranked
    name = chosen_dimension(tables.scores, wanted, '--stop-dimension')
    means = known_means(fold_games(tables.scores[name], tables.games_per_opener))
    n_pairs = len(ranked) * (len(ranked) - 1) // 2
    return name, means[ranked], list(compress(tables.systems, ranked)), n_pairs


def write_stopping(run: RunFolder, stopping: Stopping) -> None:
    """
    Write the looks so far, and what came of them into the manifest.
    """
    run.write_json(STOPPING_FILE, record_to_json(stopping))
    note = {key: getattr(stopping, key) for key in StopRecord.model_fields}
    run.record_stop(StopRecord(**{**note, 'scores': content_id(stopping.scores)}))


def with_stopping(
    ranking: Ranking, scores: RunScores, _reference: Reference
) -> Ranking:
    """
    Return a ranking with the looks that led to the run's number of openers, worked out
    anew from its scores; as it is where that was fixed, or these are not the scores
    that were looked at.
    """
    run = scores.run
    note = run.manifest.stop
    if not note or note.scores != content_id(scores.scorer_signature):
        return ranking
    if note.dimension not in scores.tables.scores or not run.openers:
        return ranking
    stopping = look_at_scores(
        scores,
        margin=note.margin,
        planned=note.planned,
        dimension=note.dimension,
        used=note.used,
    )
    return replace(ranking, stopping=stopping)
