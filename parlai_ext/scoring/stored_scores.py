"""
Scores of items that were worked out before, by scorer signature and content of item.

A batch reaches the disk before the next one is begun, so that a killed command loses
one batch at most. No text of an item is in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from parlai_ext.core.nouns import content_id
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.store.atomic import locked
from parlai_ext.store.partial import PartialWork
from parlai_ext.view.progress import Bar

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
    The scores of one scorer signature that are kept in a file.
    """

    def __init__(self, path: Path, signature: str):
        self.work = PartialWork(path, signature)
        self.scores = {one: ItemScore(*own) for one, own in self.work.batches.items()}

    def missing(self, ids: Iterable[str], with_evidence: bool = False) -> list[str]:
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
        Store the scores of a batch.
        """
        for one, own in scores.items():
            self.work.put(one, [own.values, own.reasons, own.evidence, own.cut])
        self.work.save()
        self.scores |= scores


@contextmanager
def stored_scores(folder: Path, signature: str) -> Iterator[StoredScores]:
    """
    Let one process at a time read and add the scores of a signature.

    :raises UserError: when another one does.
    """
    path = folder / f'{content_id("bench scores", signature)}.jsonl'
    with locked(path.with_suffix('.lock')):
        yield StoredScores(path, signature)


def score_items(
    scorer: Scorer,
    items: Sequence[ScoringItem],
    folder: Path | None,
    bar: Bar,
    *,
    signature: str | None = None,
    with_evidence: bool = False,
) -> list[ItemScore]:
    """
    Return the scores of items, in order; equal items are scored once.

    :param folder: where scores are kept, so that a killed call goes on; `None`:
        nowhere.
    :param bar: told of each item that is scored; the others are not expected.
    :param signature: of what is kept; `None`: the scorer's.
    :raises UserError: when another process adds scores of this signature.
    """
    ids = [item_id(item) for item in items]
    by_id = dict(zip(ids, items, strict=True))
    name = signature or scorer.signature
    with nullcontext() if folder is None else stored_scores(folder, name) as store:
        scores = {} if store is None else store.scores
        missing = [one for one in by_id if one not in scores]
        bar.expect(len(missing) - len(items))
        # equal contexts are read together
        missing.sort(key=lambda one: by_id[one].context)
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            found = scorer.checked_scores([by_id[one] for one in batch])
            parts = (stored_part(one, with_evidence) for one in found)
            new = dict(zip(batch, parts, strict=True))
            scores |= new
            if store is not None:
                store.add(new)
            bar.update(len(batch))
    return [scores[one] for one in ids]
