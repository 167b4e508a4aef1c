"""
Dialogues and scores as records of a shard, and back.
"""

import sys
from collections.abc import Mapping
from typing import Any

from parlai_ext.core.nouns import Dialogue, Pairing, Score, ScoredDialogue, Utterance

METADATA_VERSION = '0.1'  # of ParlAI's Conversations format


def dialogue_record(dialogue: Dialogue, stem: str) -> dict[str, Any]:
    """
    Return a dialogue in ParlAI's Conversations format, with our fields beside.
    """
    acts = [
        {
            'id': utterance.speaker,
            'text': utterance.text,
            'given': utterance.given,
            **({'reference': utterance.references} if utterance.references else {}),
        }
        for utterance in dialogue.utterances
    ]
    return {
        'dialog': [acts[start : start + 2] for start in range(0, len(acts), 2)],
        'metadata_path': f'{stem}.metadata',
        'dialogue_id': dialogue.id,
        'pairing_id': dialogue.pairing_id,
        'opener_id': dialogue.opener_id,
        'ended_by': dialogue.ended_by,
        'reason': dialogue.reason,
    }


def dialogue_from_record(record: Mapping[str, Any]) -> Dialogue:
    """
    Return the dialogue of a record.
    """
    return Dialogue(
        id=record['dialogue_id'],
        pairing_id=record['pairing_id'],
        opener_id=record['opener_id'],
        utterances=tuple(
            Utterance(
                sys.intern(act['id']),
                act['text'],
                act['given'],
                tuple(act.get('reference', ())),
            )
            for pair in record['dialog']
            for act in pair
        ),
        ended_by=record['ended_by'],
        reason=record['reason'],
    )


def shard_metadata(pairing: Pairing, collect: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the metadata that ParlAI expects beside a file of conversations.

    The date is a constant: the same dialogues make the same bytes on every day.
    """
    return {
        'date': '1970-01-01 00:00:00',
        'opt': dict(collect),
        'self_chat': pairing.first == pairing.second,
        'speakers': list(dict.fromkeys(pairing.speakers)),
        'version': METADATA_VERSION,
        'pairing_id': pairing.id,
    }


def scored_record(scored: ScoredDialogue, source: str) -> dict[str, Any]:
    """
    Return the record of a dialogue's scores.

    :param source: the checksum of the shard file that holds the dialogue.
    """
    rows = []
    for score in scored.scores:
        if score.dialogue_id != scored.dialogue_id:
            raise ValueError(f'a score of {score.dialogue_id} in {scored.dialogue_id}')
        rows.append(
            {
                'utterance_index': score.utterance_index,
                'system': score.system,
                'dimension': score.dimension,
                'value': score.value,
                'reason': score.reason,
            }
        )
    return {
        'dialogue_id': scored.dialogue_id,
        'dialogues': source,
        'scores': rows,
        'evidence': {str(at): row for at, row in scored.evidence.items()},
        'truncated': {str(at): n for at, n in scored.truncated.items()},
    }


def scored_from_record(record: Mapping[str, Any]) -> ScoredDialogue:
    """
    Return the scored dialogue of a record.
    """
    dialogue_id = record['dialogue_id']
    evidence = {
        int(at): tuple(row) if isinstance(row, list) else row
        for at, row in record['evidence'].items()
    }
    return ScoredDialogue(
        dialogue_id=dialogue_id,
        scores=tuple(Score(dialogue_id=dialogue_id, **row) for row in record['scores']),
        evidence={at: evidence[at] for at in sorted(evidence)},
        truncated={int(at): n for at, n in record['truncated'].items()},
    )
