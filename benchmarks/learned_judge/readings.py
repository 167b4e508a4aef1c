"""
Read all responses once, and keep what the models say of them on disk.

    python -m benchmarks.learned_judge.readings --data FOLDER --out FOLDER SET …
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.learned_judge.items import SETS, drawn_items, read_judged_set
from parlai_ext.core.progress import bar_of
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.learned_inputs import LAYERS, read_responses

BLOCK = 96


def judged_rows(folder: Path, name: str) -> list[dict]:
    """
    Return the drawn items of a set as plain data.
    """
    judged = read_judged_set(folder, name)
    rows = []
    for item in drawn_items(judged, SETS[name]):
        context = [text.strip() for text in item.context if text.strip()]
        human = {q: item.human(q) for q in item.annotations}
        rows.append(
            {
                'id': item.id,
                'set': name,
                'system': item.system,
                'dialogue': item.dialogue,
                'context': context[-6:],
                'context_key': hash_of(item.context if not item.dialogue else item.id),
                'response': (item.response or '').strip(),
                'references': list(item.references)[:3],
                'human': human,
                'overall': judged.overall,
            }
        )
    return rows


def hash_of(value: object) -> str:
    from parlai_ext.core.nouns import content_id

    return content_id(json.dumps(value))


def read_rows(rows: list[dict], out: Path, name: str, judge: str) -> None:
    """
    Read rows block by block; a block that is there already is left out.
    """
    handle = ModelHandle()
    model, encoder = handle.likelihood(judge), handle.embedder('minilm')
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    rows = sorted(rows, key=lambda row: (row['context'], row['id']))
    (folder / 'rows.json').write_text(json.dumps(rows), encoding='utf-8')
    with bar_of(name, len(rows)) as bar:
        for first in range(0, len(rows), BLOCK):
            file = folder / f'{first:06d}.npz'
            block = rows[first : first + BLOCK]
            bar.update(len(block))
            if file.exists():
                continue
            items = [ScoringItem(tuple(r['context']), r['response']) for r in block]
            readings = read_responses(model, encoder, items, LAYERS)
            temporary = file.with_suffix('.tmp.npz')
            np.savez(
                temporary,
                states=np.stack([r.states for r in readings]).astype(np.float16),
                vectors=np.stack([r.vectors for r in readings]).astype(np.float16),
                answers=np.array([r.answers for r in readings], np.float32),
                logprobs=np.concatenate([r.logprobs for r in readings]).astype('f4'),
                alone=np.concatenate([r.alone for r in readings]).astype('f4'),
                lengths=np.array([len(r.logprobs) for r in readings]),
            )
            temporary.rename(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--data', required=True)
    parser.add_argument('--out', required=True)
    parser.add_argument('--judge', default='smollm2-135m-q4')
    parser.add_argument('sets', nargs='*', default=list(SETS))
    opt = parser.parse_args()
    for name in opt.sets or SETS:
        rows = judged_rows(Path(opt.data), name)
        read_rows(rows, Path(opt.out), name, opt.judge)


if __name__ == '__main__':
    main()
