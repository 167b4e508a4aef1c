"""
The values from which the terms of `composite` are made, kept on disk: what a language
model and a sentence encoder say of a response does not change while weights are tried.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import fsum
from pathlib import Path

from parlai_ext.core.nouns import content_id
from parlai_ext.core.progress import bar_of
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem, row_cosines
from parlai_ext.scoring.composite import repeated_share, words_of
from parlai_ext.scoring.likelihood import answers_without_context, response_answers

BLOCK = 24  # items that are scored and kept together


@dataclass(frozen=True)
class TermValues:
    """
    Values of one response.

    :param tokens: of the response, its end token included.
    :param after, alone: log-probability of the response after its context, and after
        no context; sums over its tokens.
    :param last, joined: cosine with the last turn, and with the last four turns joined.
    :param nearest: the largest cosine with one of the last four turns.
    :param words: of the response.
    :param repeated: share that was said before.
    """

    tokens: int
    after: float
    alone: float
    last: float
    joined: float
    nearest: float
    words: int
    repeated: float


class TermCache:
    """
    Values of responses by their content and the models that gave them.
    """

    def __init__(self, file: Path, handle: ModelHandle, judge: str, encoder: str):
        self.judge = handle.likelihood(judge)
        self.encoder = handle.embedder(encoder)
        self.models = f'{self.judge.signature} {self.encoder.signature}'
        self.file = file
        self.known: dict[str, TermValues] = {}
        if file.exists():
            for line in file.read_text(encoding='utf-8').split('\n'):
                if line:
                    row = json.loads(line)
                    one = row.pop('id')
                    self.known[one] = TermValues(**row)

    def values(self, items: Sequence[ScoringItem], name: str) -> list[TermValues]:
        """
        Return the values of each item; those that are not known yet are computed.

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
                self._compute(dict(todo[start : start + BLOCK]))
                bar.update(len(todo[start : start + BLOCK]))
        return [self.known[one] for one in ids]

    def _id(self, item: ScoringItem) -> str:
        return content_id('terms', self.models, list(item.context), item.response)

    def _compute(self, items: dict[str, ScoringItem]) -> None:
        block = list(items.values())
        after = response_answers(self.judge, block)
        alone = answers_without_context(self.judge, block)
        with self.file.open('a', encoding='utf-8') as out:
            for one, item, first, second in zip(
                items, block, after, alone, strict=True
            ):
                words = words_of(item.response or '')
                values = TermValues(
                    len(first.continuations[0]),
                    fsum(first.continuations[0]),
                    fsum(second.continuations[0]),
                    *self._cosines(item),
                    len(words),
                    repeated_share(words, [words_of(text) for text in item.context]),
                )
                self.known[one] = values
                print(json.dumps({'id': one, **asdict(values)}), file=out)

    def _cosines(self, item: ScoringItem) -> tuple[float, float, float]:
        """
        Return the cosine with the last turn, with the last four, and the largest.
        """
        if not item.context:
            return 0.0, 0.0, 0.0
        turns = list(item.context[-4:])
        vectors = self.encoder.encode([*turns, ' '.join(turns), item.response or ''])
        cosines = [
            value or 0.0
            for value in row_cosines(
                vectors[:-1], vectors[-1:].repeat(len(turns) + 1, 0)
            )
        ]
        return cosines[-2], cosines[-1], max(cosines[:-1])
