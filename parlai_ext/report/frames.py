"""
A run and its ranking as pandas data frames.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas

from parlai_ext.core import Dialogue, ScoredDialogue
from parlai_ext.scoring.base import UTTERANCE_COLUMNS
from parlai_ext.store import RunFolder

KEYS = UTTERANCE_COLUMNS[:4]  # that tell the rows of scores apart
DIALOGUE_COLUMNS = (
    'dialogue_id',
    'opener_id',
    'first',
    'second',
    'utterance_index',
    'speaker',
    'text',
    'given',
    'ended_by',
    'reason',
)


def dialogues_frame(run: RunFolder) -> pandas.DataFrame:
    """
    Return the dialogues of a run as a data frame: a row for each utterance.

    `given` is true for utterances of the opener, `ended_by` the system that broke the
    dialogue off, if one did.
    """
    rows = (
        (
            dialogue.id,
            dialogue.opener_id,
            *run.pairing(dialogue.pairing_id).speakers,
            i,
            utterance.speaker,
            utterance.text,
            utterance.given,
            dialogue.ended_by,
            dialogue.reason,
        )
        for dialogue in run.iter_dialogues()
        for i, utterance in enumerate(dialogue.utterances)
    )
    return pandas.DataFrame(list(rows), columns=DIALOGUE_COLUMNS)


def scores_frame(run: RunFolder, scorer_signature: str) -> pandas.DataFrame:
    """
    Return the scores of one scorer of a run, in the form of `score_frame`.
    """
    pairs = run.scores(scorer_signature).scored_dialogues()
    known = [(dialogue, scored) for dialogue, scored in pairs if scored is not None]
    scores = (score for _, scored in known for score in scored.scores)
    return score_frame(known, list(dict.fromkeys(s.dimension for s in scores)))


def score_frame(
    scored_dialogues: Iterable[tuple[Dialogue, ScoredDialogue]],
    dimensions: Sequence[str],
) -> pandas.DataFrame:
    """
    Return scores as a data frame: a row for each judged utterance, a column for each
    dimension.

    A score of a whole dialogue has a row without `utterance_index` and `text`. `reason`
    says why scores of the row are NaN; `cut_tokens` counts the tokens of the context
    that the model did not see.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for dialogue, scored in scored_dialogues:
        for score in scored.scores:
            index, text, cut = score.utterance_index, None, 0
            if index is not None:
                text = dialogue.utterances[index].text
                cut = scored.truncated.get(index, 0)
            key = (dialogue.id, index, score.system, text)
            values = {'reason': {}, 'cut_tokens': cut}
            row = rows.setdefault(key, dict(zip(KEYS, key, strict=True)) | values)
            row[score.dimension] = score.value
            row['reason'] |= {score.reason: None} if score.reason else {}
    for row in rows.values():
        row['reason'] = '; '.join(row['reason']) or None
    columns = [*KEYS, *dimensions, *UTTERANCE_COLUMNS[len(KEYS) :]]
    types = dict.fromkeys(('utterance_index', 'cut_tokens'), 'Int64')
    types |= dict.fromkeys(dimensions, 'float64')
    return pandas.DataFrame(list(rows.values()), columns=columns).astype(types)
