"""
Judgements of whole dialogues as a judged set of the user's own, for the bench.

    judged.jsonl    one line for each dialogue and judged system, with all annotations
    judged.yaml     its card, which `run_bench --sets` and `--judged-card` name
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.people.run_dialogues import ShownTurn

FILE, CARD = 'judged.jsonl', 'judged.yaml'
PARTNER = 'user'  # whose turns no scorer of turns judges
MISSING = 'N/A'


def judged_lines(
    judgements: Sequence[HumanJudgement],
    turns: Mapping[tuple[str, str], Sequence[ShownTurn]],
) -> str:
    """
    Return the JSON lines of the judged dialogues; the places in a list of annotations
    are the annotators in the order of their names.

    :param turns: of each judged system and dialogue; others are left out.
    """
    annotators = sorted({j.rater or '' for j in judgements})
    dimensions = sorted({j.dimension for j in judgements})
    by_dialogue: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for j in judgements:
        given = by_dialogue.setdefault((j.system, j.dialogue_id or ''), {})
        given[j.dimension, j.rater or ''] = j.value
    lines = []
    for (system, dialogue), given in sorted(by_dialogue.items()):
        if (system, dialogue) not in turns:
            continue
        record = {
            'dialogue_id': dialogue,
            'system': system,
            'dialog': [
                {'speaker': system if turn.own else PARTNER, 'text': turn.text}
                for turn in turns[system, dialogue]
            ],
            'annotations': {
                name: [given.get((name, one), MISSING) for one in annotators]
                for name in dimensions
            },
        }
        lines.append(json.dumps(record, ensure_ascii=False) + '\n')
    return ''.join(lines)


def judged_card(dimensions: Sequence[str]) -> str:
    """
    Return the card of the judged set as YAML.
    """
    lines = [
        'title: dialogues of a run, judged by people',
        'source: your own run',
        'licence: yours',
        'level: dialogue',
        'format: own',
        f'file: {FILE}',
    ]
    if len(dimensions) == 1 or 'Overall' in dimensions:
        name = dimensions[0] if len(dimensions) == 1 else 'Overall'
        lines.append(f'overall: {json.dumps(name)}')
    return '\n'.join(lines) + '\n'
