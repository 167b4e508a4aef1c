"""
Scores of responses, kept in a folder, so that a benchmark that was killed goes on.
"""

from collections.abc import Sequence
from pathlib import Path

from parlai_ext.bench.stored_scores import item_id, stored_part, stored_scores
from parlai_ext.core.progress import bar_of
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem

BLOCK = 24  # items that are scored and kept together


def kept_scores(
    scorer: Scorer,
    items: Sequence[ScoringItem],
    folder: Path,
    name: str,
    signature: str | None = None,
) -> list[ItemScore]:
    """
    Return the scores of items with their evidence; what is not in the folder is scored.

    :param name: what the progress bar calls the items.
    :param signature: of what is kept; by default the scorer's.
    """
    ids = [item_id(item) for item in items]
    by_id = dict(zip(ids, items, strict=True))
    with stored_scores(folder, signature or scorer.signature) as kept:
        # equal contexts are read once
        missing = sorted(kept.missing(ids), key=lambda one: by_id[one].context)
        with bar_of(name, len(missing)) as bar:
            for start in range(0, len(missing), BLOCK):
                block = missing[start : start + BLOCK]
                scores = scorer.checked_scores([by_id[one] for one in block])
                kept.add(
                    {
                        one: stored_part(score, with_evidence=True)
                        for one, score in zip(block, scores, strict=True)
                    }
                )
                bar.update(len(block))
        return [kept.scores[one] for one in ids]
