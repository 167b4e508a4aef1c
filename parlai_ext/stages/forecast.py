"""
What a run will cost: dialogues, utterances, scorings, disk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parlai_ext.stages.plan import Plan

# bytes on disk, measured on the demo run; longer replies cost more
BYTES_PER_UTTERANCE = 200
BYTES_PER_SCORED_UTTERANCE = 700


def forecast(plan: Plan, run_dir: str | None = None) -> dict[str, Any]:
    """
    Return how much there is to do, and how much of it is done already.
    """
    protocol = plan.protocol
    dialogues = len(plan.pairings) * len(plan.openers)
    given = min((len(o.utterances) for o in plan.openers), default=0)
    made = protocol.num_turns - given
    judged = made if protocol.score == 'both' else judged_by_first(protocol, given)
    utterances = dialogues * protocol.num_turns
    shards = len(plan.pairings) * math.ceil(len(plan.openers) / plan.shard_size)
    disk = utterances * BYTES_PER_UTTERANCE
    disk += dialogues * judged * BYTES_PER_SCORED_UTTERANCE
    return {
        'protocol': protocol.name,
        'targets': len(plan.roster.targets),
        'partners': len(plan.roster.partners),
        'pairings': len(plan.pairings),
        'dialogues': dialogues,
        'utterances_to_generate': dialogues * made,
        'utterances_to_score': dialogues * judged,
        'disk_bytes': disk,
        'shards': shards,
        'shards_done': _done(run_dir),
        'left_out': list(plan.left_out),
    }


def judged_by_first(protocol: Any, given: int) -> int:
    """
    Return how many utterances of a full dialogue are the first speaker's own.
    """
    return len([i for i in range(given, protocol.num_turns) if i % 2 == 0])


def in_words(found: Mapping[str, Any]) -> str:
    """
    Return a forecast as lines to print.
    """
    lines = [
        f'protocol   {found["protocol"]}',
        f'systems    {found["targets"]} targets, {found["partners"]} partners',
        f'dialogues  {found["dialogues"]:,} in {found["pairings"]} pairings',
        f'utterances {found["utterances_to_generate"]:,} to generate, '
        f'{found["utterances_to_score"]:,} to score',
        f'disk       about {found["disk_bytes"] / 1e6:,.0f} MB',
        f'done       {found["shards_done"]} of {found["shards"]} shards',
    ]
    lines += [f'left out   {name}' for name in found['left_out']]
    return '\n'.join(lines)


def _done(run_dir: str | None) -> int:
    return len(list(Path(run_dir).glob('dialogues/*/*.jsonl'))) if run_dir else 0
