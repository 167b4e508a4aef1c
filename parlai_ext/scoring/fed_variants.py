"""
FED, FED without complaints, FED without praise: arithmetic on what was asked once.

Table 1 of Sato et al. (2022) compares the three. A `Fed` with polarity ``both`` keeps
the D of every follow-up as evidence; to leave a side out afterwards needs no judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from parlai_ext.core.nouns import Dialogue, ScoredDialogue
from parlai_ext.scoring.fed import Fed, scored_dialogue, verdict_of

# as the paper calls them -> polarity
VARIANTS: Mapping[str, str] = {
    'FED': 'both',
    'w/o neg': 'positive',
    'w/o pos': 'negative',
}


def rescored(
    dialogue: Dialogue, scored: ScoredDialogue, fed: Fed, polarity: str
) -> ScoredDialogue:
    """
    Return what FED with another polarity says of a dialogue, from its evidence.

    :param scored: by ``fed``, which must have asked every follow-up that counts then.
    """
    options = replace(fed.options, polarity=polarity)
    verdicts = {
        index: verdict_of(
            fed.followups, options, dict(zip(fed.evidence_labels, row, strict=True))
        )
        for index, row in scored.evidence.items()
    }
    found = scored_dialogue(dialogue, verdicts, fed.followups.dialogue_level)
    missing = tuple(s for s in scored.scores if s.utterance_index is None)
    return replace(found, scores=found.scores + missing)
