"""
Scores of items that were worked out before, by scorer signature and content of item.

A line of a file holds one batch with its checksum and reaches the disk before the next
batch is begun, so that a killed bench loses one batch at most. No text of an item is in
the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from parlai_ext.core.nouns import content_id
from parlai_ext.core.progress import Bar
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.store.atomic import append_synced, locked, make_folder
from parlai_ext.store.lines import decode, encode

BATCH = 256  # items, at most, that a killed call has to score again


def item_id(item: ScoringItem, company: str = '') -> str:
    """
    Return the id of an item, which depends on all that a scorer may see of it.

    :param company: stands for the other items, where a score depends on them.
    """
    return content_id(
        *('item', company) if company else ('item',),
        list(item.context),
        item.response,
        item.speaker,
        list(item.references),
        item.facts,
        list(item.persona),
        dict(item.extras),
    )


def stored_part(score: ItemScore, with_evidence: bool) -> ItemScore:
    """
    Return the part of a score that is stored.
    """
    return ItemScore(
        dict(score.values),
        {name: reason for name, reason in score.reasons.items() if reason},
        score.evidence if with_evidence else None,
        score.cut,
    )


class StoredScores:
    """
    The file of one scorer signature in the folder of a bench.
    """

    def __init__(self, folder: Path, signature: str):
        self.signature = signature
        self.path = self.file_path(folder, signature)
        self.scores: dict[str, ItemScore] = {}
        self._end = self._read()

    @staticmethod
    def file_path(folder: Path, signature: str) -> Path:
        """
        Return the file of a signature's scores.
        """
        return folder / f'{content_id("bench scores", signature)}.jsonl'

    @classmethod
    def lock_path(cls, folder: Path, signature: str) -> Path:
        """
        Return the lock file that is held by the process that adds scores.
        """
        return cls.file_path(folder, signature).with_suffix('.lock')

    def missing(self, ids: Sequence[str], with_evidence: bool = False) -> list[str]:
        """
        Return the different ids without a score, or without evidence, in order.
        """
        return [
            one
            for one in dict.fromkeys(ids)
            if one not in self.scores
            or (with_evidence and self.scores[one].evidence is None)
        ]

    def add(self, scores: Mapping[str, ItemScore]) -> None:
        """
        Store the scores of a batch. What a kill left half-written is cut off.
        """
        rows = {
            one: [s.values, s.reasons, s.cut, s.evidence] for one, s in scores.items()
        }
        lines = [encode({'scores': rows})]
        if self._end == 0:
            lines = [encode({'signature': self.signature}), *lines]
        make_folder(self.path.parent)
        data = ''.join(f'{line}\n' for line in lines).encode()
        append_synced(self.path, self._end, data)
        self._end += len(data)
        self.scores |= scores

    def _read(self) -> int:
        """
        Read the file up to its first damaged line; return how many bytes are sound.
        """
        end = 0
        data = self.path.read_bytes() if self.path.exists() else b''
        for line in data.split(b'\n')[:-1]:
            try:
                record = decode(line)
                scores = {
                    one: ItemScore(values, reasons, evidence, cut)
                    for one, (values, reasons, cut, evidence) in record.get(
                        'scores', {}
                    ).items()
                }
            except (ValueError, TypeError, AttributeError):
                break
            self.scores |= scores
            end += len(line) + 1
        return end


def score_items(
    scorer: Scorer, items: Sequence[ScoringItem], folder: Path | None, bar: Bar
) -> list[ItemScore]:
    """
    Return the scores of items, in order; equal items are scored once.

    :param folder: where scores are kept, so that a killed call goes on; `None`:
        nowhere.
    :param bar: told of each item that has its score.
    :raises UserError: when another process works with this scorer in the folder.
    """
    ids = [item_id(item) for item in items]
    by_id = dict(zip(ids, items, strict=True))
    with ExitStack() as stack:
        scores: dict[str, ItemScore] = {}
        store = None
        if folder is not None:
            make_folder(folder)
            stack.enter_context(
                locked(StoredScores.lock_path(folder, scorer.signature))
            )
            store = StoredScores(folder, scorer.signature)
            scores = store.scores
        missing = [one for one in by_id if one not in scores]
        bar.skip(len(items) - len(missing))
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            found = scorer.checked_scores([by_id[one] for one in batch])
            parts = (stored_part(one, with_evidence=False) for one in found)
            scores |= (new := dict(zip(batch, parts, strict=True)))
            if store is not None:
                store.add(new)
            bar.update(len(batch))
    return [scores[one] for one in ids]
