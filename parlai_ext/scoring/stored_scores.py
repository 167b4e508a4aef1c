"""
Scores of items, worked out in batches, and those that were worked out before, by scorer
signature and content of item.

A batch reaches the disk before the next one is begun, so that a killed command loses
one batch at most. No text of an item is in the file.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from parlai_ext.core import JsonObject, chunks, content_id, frozen
from parlai_ext.engines import Machine
from parlai_ext.engines.engine import (
    LOCAL,
    Engine,
    Job,
    Task,
    Tell,
    Worker,
    refuse_difference,
)
from parlai_ext.models.watch import Watch
from parlai_ext.scoring.base import Items, ItemScore, Scorer, ScoringItem
from parlai_ext.store import PartialWork, locked
from parlai_ext.view.progress import Bar

BATCH = 256  # items, at most, that a killed call has to score again
AHEAD = 1000  # batches, at most, that are scored before an earlier one is stored


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
    The scores of one scorer signature, in a file if there is one.
    """

    def __init__(self, work: PartialWork | None = None):
        self.work = work
        batches = work.batches if work else {}
        self.scores = {one: ItemScore(*own) for one, own in batches.items()}

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
        self.scores |= scores
        if self.work is not None:
            for one, own in scores.items():
                self.work.put(one, [own.values, own.reasons, own.evidence, own.cut])
            self.work.save()


@contextmanager
def stored_scores(folder: Path | None, signature: str) -> Iterator[StoredScores]:
    """
    Let one process at a time read and add the scores of a signature.

    :param folder: where they are kept, so that a killed call goes on; `None`: nowhere.
    :raises UserError: when another one does.
    """
    if folder is None:
        yield StoredScores()
        return
    path = folder / f'{content_id("bench scores", signature)}.jsonl'
    with locked(path.with_suffix('.lock')):
        yield StoredScores(PartialWork(path, signature))


class ItemScorer(Worker):
    """
    Scores items by one scorer.

    :param with_evidence: the evidence behind the scores is wanted, too.
    """

    def __init__(self, scorer: Scorer, with_evidence: bool):
        self.scorer = scorer
        self.with_evidence = with_evidence

    def work(self, data: Mapping[str, ScoringItem], tell: Tell) -> dict[str, ItemScore]:
        """
        Return the scores of a batch of items, by id.
        """
        with self.scorer.models.changed(watch=Watch(tell)):
            scores = self.scorer.checked_scores(list(data.values()))
        return {
            one: stored_part(score, self.with_evidence)
            for one, score in zip(data, scores, strict=True)
        }


def item_scorer(
    section: JsonObject,
    machine: Machine | None,
    signature: str,
    with_evidence: bool,
    share: float,
) -> ItemScorer:
    """
    Return a worker of another process.

    :param section: of the scorer, whose signature must be this one.
    :param share: of the memory of its device; scorers ask for what is free.
    """
    from parlai_ext.scoring.score_run import ChosenScorer, scorer_elsewhere

    scorer = scorer_elsewhere(ChosenScorer(section), machine)
    refuse_difference(f'scorer {scorer.name}', scorer.signature, signature)
    return ItemScorer(scorer, with_evidence)


@frozen
class ItemWork:
    """
    A scorer at work on items.

    :param bar: told of each item that is scored.
    :param section: of which a worker of another process builds the scorer; empty for an
        engine that starts none.
    :param engine: where items are scored.
    :param name: what error lines call the scorer, if not by its name.
    :param with_evidence: the evidence behind the scores is kept, too.
    """

    scorer: Scorer
    bar: Bar
    section: Mapping[str, Any] = field(default_factory=dict)
    machine: Machine | None = None
    engine: Engine = LOCAL
    name: str = ''
    with_evidence: bool = False

    def score_missing(
        self, store: StoredScores, items: Mapping[str, ScoringItem], size: int
    ) -> None:
        """
        Score the items, by id, that a store lacks, and store each batch at once. The
        bar expects no others any more.

        :param size: of a batch.
        """
        scorer, signature = self.scorer, self.scorer.signature
        missing = store.missing(items, self.with_evidence)
        self.bar.expect(len(missing) - len(items))
        if not missing:
            return
        job = Job(
            here=lambda: ItemScorer(scorer, self.with_evidence),
            elsewhere=partial(
                item_scorer, self.section, self.machine, signature, self.with_evidence
            ),
            steps='inputs read',
            key=content_id('bench', signature, self.with_evidence),
            lookahead=AHEAD,
        )
        batches = list(chunks(missing, size))
        tasks = [
            Task(
                f'batch {n} of {len(batches)} by {self.name or scorer.name}',
                {one: items[one] for one in batch},
                len(batch),
            )
            for n, batch in enumerate(batches)
        ]
        with closing(self.engine.run(job, tasks, self.bar)) as finished:
            for _, scores in finished:
                store.add(scores)


def score_items(
    scorer: Scorer, items: Items, folder: Path | None, bar: Bar
) -> list[ItemScore]:
    """
    Return the scores of items, in order; equal items are scored once, and the bar does
    not expect the others.

    :param folder: as for `stored_scores`.
    """
    ids = [item_id(item) for item in items]
    # equal contexts are read together
    pairs = sorted(zip(ids, items, strict=True), key=lambda one: one[1].context)
    different = dict(pairs)
    bar.expect(len(different) - len(items))
    with stored_scores(folder, scorer.signature) as store:
        ItemWork(scorer, bar).score_missing(store, different, BATCH)
        return [store.scores[one] for one in ids]
