"""
The mean scores of one speaker of a dialogue.
"""

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
    of_dialogue: dict[str, list[float]] = {}
    for score in scored.scores:
        values.setdefault(score.dimension, [])
        if score.value is not None and score.system == judged:
            into = of_dialogue if score.utterance_index is None else values
            into.setdefault(score.dimension, []).append(score.value)
    # a score of the whole dialogue counts, not the mean of its turns
    values.update(of_dialogue)
    if dialogue.ended_by == judged:
        return dict.fromkeys(values)
    return {d: sum(v) / len(v) if v else None for d, v in values.items()}
