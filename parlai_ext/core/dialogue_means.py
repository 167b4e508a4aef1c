"""
What the scores of one dialogue amount to, for whoever is judged in it.
"""

from __future__ import annotations

from parlai_ext.core.nouns import Dialogue, ScoredDialogue


def dialogue_means(
    dialogue: Dialogue, scored: ScoredDialogue, judged: str
) -> dict[str, float | None]:
    """
    Return the judged system's mean score of one dialogue, by dimension.

    A dialogue that the judged system itself broke off has no score: otherwise a
    system could gain by falling silent after one good utterance.
    """
    values: dict[str, list[float]] = {}
    whole: dict[str, list[float]] = {}
    for score in scored.scores:
        values.setdefault(score.dimension, [])
        if score.value is not None and score.system == judged:
            into = whole if score.utterance_index is None else values
            into.setdefault(score.dimension, []).append(score.value)
    values.update(whole)  # what is said of a whole dialogue is no mean of its turns
    if dialogue.ended_by == judged:
        return dict.fromkeys(values)
    return {d: sum(v) / len(v) if v else None for d, v in values.items()}
