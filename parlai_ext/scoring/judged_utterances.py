"""
Which utterances of a dialogue are judged, and which systems cannot be.
"""

from __future__ import annotations

from parlai_ext.core.nouns import Dialogue


def judged_indices(
    dialogue: Dialogue, first_speaker_only: bool, include_given: bool = False
) -> list[int]:
    """
    Return the places of the utterances to judge.

    Given utterances, which no system said, are left out unless asked for. So are those
    of a system that broke the dialogue off: it would gain by falling silent after one
    good utterance.

    :param first_speaker_only: judge the first speaker's (even places), not both's.
    """
    return [
        i
        for i, utterance in enumerate(dialogue.utterances)
        if (i % 2 == 0 or not first_speaker_only)
        and (include_given or not utterance.given)
        and utterance.speaker != dialogue.ended_by
    ]


def unscored_systems(
    dialogue: Dialogue, first_speaker_only: bool, include_given: bool = False
) -> dict[str, str]:
    """
    Return, for each system to be judged that has nothing to judge, the reason.
    """
    judged = judged_indices(dialogue, first_speaker_only, include_given)
    scored = {dialogue.utterances[i].speaker for i in judged}
    sides = dialogue.utterances[:1] if first_speaker_only else dialogue.utterances[:2]
    speakers = {utterance.speaker for utterance in sides}
    if dialogue.ended_by and not (first_speaker_only and dialogue.utterances):
        speakers.add(dialogue.ended_by)  # it may not have come to say anything
    reasons = {}
    for name in sorted(speakers - scored):
        if dialogue.ended_by is None:
            reasons[name] = 'it says nothing that is judged'
        elif dialogue.ended_by == name:
            reasons[name] = f'it broke the dialogue off: {dialogue.reason}'
        else:
            reasons[name] = (
                f'{dialogue.ended_by} broke the dialogue off before it spoke'
            )
    return reasons
