"""
The terms of `composite`, kept on disk: what a language model and a sentence encoder say
of a response does not change while weights are tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from parlai_ext.core.nouns import content_id
from parlai_ext.core.progress import bar_of
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.composite import Composite

BLOCK = 24  # items that are scored and kept together

Evidence = tuple[
    float, ...
]  # the terms in the order of `TERMS`, and the repeated share


class TermCache:
    """
    Evidence of responses by their content and the models that gave it.
    """

    def __init__(self, file: Path, models: Mapping[str, str]):
        self.scorer = Composite.from_section(models, ModelHandle())
        self.scorer.load_models()
        loaded = self.scorer.models.loaded.values()
        self.models = ' '.join(model.signature for model in loaded)
        self.file = file
        self.known: dict[str, Evidence] = {}
        if file.exists():
            for line in file.read_text(encoding='utf-8').split('\n'):
                if line.endswith('}'):
                    row = json.loads(line)
                    self.known[row['id']] = tuple(row['evidence'])

    def evidence(self, items: Sequence[ScoringItem], name: str) -> list[Evidence]:
        """
        Return the evidence of each item; what is not known yet is computed.

        :param name: what the progress bar calls the items.
        """
        ids = [self._id(item) for item in items]
        missing = {
            one: item
            for one, item in zip(ids, items, strict=True)
            if one not in self.known
        }
        # equal contexts are read once
        todo = sorted(missing.items(), key=lambda pair: pair[1].context)
        with bar_of(name, len(todo)) as bar:
            for start in range(0, len(todo), BLOCK):
                self._score(todo[start : start + BLOCK])
                bar.update(len(todo[start : start + BLOCK]))
        return [self.known[one] for one in ids]

    def _id(self, item: ScoringItem) -> str:
        return content_id('terms', self.models, list(item.context), item.response)

    def _score(self, block: Sequence[tuple[str, ScoringItem]]) -> None:
        scores = self.scorer.checked_scores([item for _, item in block])
        with self.file.open('a', encoding='utf-8') as out:
            for (one, _), score in zip(block, scores, strict=True):
                evidence = tuple(value or 0.0 for value in score.evidence)
                self.known[one] = evidence
                print(json.dumps({'id': one, 'evidence': evidence}), file=out)
