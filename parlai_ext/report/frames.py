"""
A run and its ranking as pandas data frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parlai_ext.ranking.standings import best_first
from parlai_ext.report.columns import Row, csv_columns
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder

if TYPE_CHECKING:
    import pandas

# types of the data frame's columns: what does not exist is <NA>
PANDAS_TYPES = {'text': 'object', 'count': 'Int64', 'number': 'Float64', 'flag': 'bool'}


def leaderboard_frame(ranking: Ranking) -> pandas.DataFrame:
    """
    Return the leaderboard as a data frame: a row for each dimension and system.

    Rows are best first within each dimension. What the columns mean is declared in
    `report.columns`.
    """
    import pandas

    columns = csv_columns(ranking.tournament is not None)
    rows = [
        Row(ranking, standing)
        for dimension in ranking.dimensions
        for standing in best_first(ranking.standings[dimension])
    ]
    return pandas.DataFrame(
        {
            column.name: pandas.Series(
                [column.value_of(row) for row in rows], dtype=PANDAS_TYPES[column.kind]
            )
            for column in columns
        }
    )


def dialogues_frame(run: RunFolder) -> pandas.DataFrame:
    """
    Return the dialogues of a run as a data frame: a row for each utterance.

    `given` is true for utterances of the opener, `ended_by` the system that broke the
    dialogue off, if one did.
    """
    import pandas

    rows = (
        (
            *(dialogue.id, dialogue.opener_id),
            *(pairing.first, pairing.second, i),
            *(utterance.speaker, utterance.text, utterance.given),
            *(dialogue.ended_by, dialogue.reason),
        )
        for dialogue in run.iter_dialogues()
        for pairing in [run.pairing(dialogue.pairing_id)]
        for i, utterance in enumerate(dialogue.utterances)
    )
    columns = (
        *('dialogue_id', 'opener_id', 'first', 'second', 'utterance_index'),
        *('speaker', 'text', 'given', 'ended_by', 'reason'),
    )
    return pandas.DataFrame(rows, columns=columns)


def scores_frame(run: RunFolder, scorer_signature: str) -> pandas.DataFrame:
    """
    Return the scores of one scorer as a data frame: a row for each score.

    `utterance_index` is ``<NA>`` for a score of a whole dialogue, `value` where
    there is no score, for a `reason`.
    """
    import pandas

    scores = run.scores(scorer_signature)
    rows = (
        (
            *(score.dialogue_id, score.utterance_index, score.system),
            *(score.dimension, score.value, score.reason),
        )
        for shard in run.dialogue_shards()
        for scored in scores.by_dialogue(shard.pairing_id, shard.index).values()
        for score in scored.scores
    )
    columns = (
        *('dialogue_id', 'utterance_index', 'system'),
        *('dimension', 'value', 'reason'),
    )
    frame = pandas.DataFrame(rows, columns=columns)
    return frame.astype({'utterance_index': 'Int64', 'value': 'Float64'})
