"""
What annotators' answers about recorded answers come to, as in Zhang et al. (2021).

Pairs: how often each system won, was tied, unrelated, or lost (Table 6); each answer
about a pair counts for both of its systems, and shares are of all that was answered
about a system. Single answers: how often each label was given, and the mean label.
Both: how far annotators agree (Fleiss, Krippendorff), on how many items how many of
them agree (Table 5), and which annotators cannot be told from guessing by their control
items.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parlai_ext.people.annotation_set import AnnotationKey
from parlai_ext.people.annotation_sheets import GivenAnswer, label_name
from parlai_ext.people.draw_items import SIDES
from parlai_ext.people.questionnaire import PAIR
from parlai_ext.people.ranking import number_names, sparse_tables
from parlai_ext.people.rating_set import TIED, UNRELATED, KeyDialogue, RatingKey
from parlai_ext.ranking.annotator_agreement import (
    Alpha,
    Kappa,
    fleiss_kappa,
    krippendorff_alpha,
)
from parlai_ext.ranking.intervals import draw_ratios, known_intervals
from parlai_ext.ranking.proportions import wilson_interval

OUTCOMES = WINS, TIES, UNRELATEDS, LOSES = ('wins', 'tied', 'unrelated', 'loses')
FLAGGED, MEAN = 'flagged', 'mean'


@dataclass(frozen=True)
class Share:
    """
    How often something was said of a system, of how many answers about it.

    :param value: the share; of `MEAN` the mean label.
    """

    system: str
    name: str
    count: float
    total: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class AnnotatorControls:
    """
    What an annotator said of control items.

    :param failed: items on which the bad answer was preferred, or given the best label.
    :param decided: items with an answer for one side; of single answers all.
    :param chance: the share of failed items of one who guesses.
    """

    annotator: str
    num_answers: int
    failed: int
    decided: int
    chance: float
    low: float | None
    high: float | None

    @property
    def fails(self) -> bool:
        """
        True if the annotator cannot be told from one who guesses, or does worse.
        """
        return self.high is not None and self.high >= self.chance


@dataclass(frozen=True)
class ItemAgreement:
    """
    What annotators said of one item.

    :param leading: the answer that most gave; `None` where two lead.
    :param votes: how many gave it.
    """

    item: str
    counts: Mapping[str, int]
    leading: str | None
    votes: int
    num_annotators: int


@dataclass(frozen=True)
class AnnotationResults:
    """
    All that is reported of an annotation set.

    :param answer_names: the answers in the order of tables.
    :param num_answers, num_annotators: that the results are of; controls do not count.
    :param annotators: all of them, also those who were left out.
    :param head_to_head: (system, opponent) -> how often each outcome was.
    """

    kind: str
    answer_names: tuple[str, ...]
    num_answers: int
    num_annotators: int
    annotators: tuple[AnnotatorControls, ...]
    shares: tuple[Share, ...]
    items: tuple[ItemAgreement, ...]
    kappa: Kappa
    alpha: Alpha
    head_to_head: Mapping[tuple[str, str], Mapping[str, int]]
    notes: tuple[str, ...]


def annotation_results(
    answers: Sequence[GivenAnswer],
    key: AnnotationKey,
    *,
    drop_failed: bool = False,
    min_agreeing: int = 0,
    bootstraps: int = 1000,
    seed: int = 0,
) -> AnnotationResults:
    """
    Return the tables of all answers.

    :param drop_failed: leave out annotators who cannot be told from guessing.
    :param min_agreeing: count only items to which so many annotators gave one answer.
    """
    rating = key.rating
    annotators = control_table(answers, key)
    notes = []
    if drop_failed and (bad := {one.annotator for one in annotators if one.fails}):
        notes.append(f'left out by their control items: {len(bad)} of the annotators')
        answers = [answer for answer in answers if answer.annotator not in bad]
    answers = [a for a in answers if not _is_control(rating.items[a.item], key)]
    chosen = [a for a in answers if a.first_shown and a.answer in SIDES]
    if chosen:
        first = sum(a.answer == a.first_shown for a in chosen)
        notes.append(
            f'the answer that stood first was preferred in {first} of {len(chosen)} '
            'answers for one side'
        )
    items = item_agreements(answers, rating)
    if min_agreeing:
        agreed = {one.item for one in items if one.votes >= min_agreeing}
        notes.append(
            f'{len(agreed)} of {len(items)} items have {min_agreeing} equal answers or '
            'more; the others are left out'
        )
        answers = [answer for answer in answers if answer.item in agreed]
        items = [one for one in items if one.item in agreed]
    by_item: dict[str, dict[str, float]] = defaultdict(dict)
    numbers = {name: float(k) for k, name in enumerate(all_answers(rating))}
    for answer in answers:
        by_item[answer.item][answer.annotator] = numbers[answer.answer]
    prompts = {item: rating.items[item][0].opener_id for item in by_item}
    pair = rating.kind == PAIR
    return AnnotationResults(
        rating.kind,
        tuple(answer_name(rating, name) for name in all_answers(rating)),
        len(answers),
        len({answer.annotator for answer in answers}),
        annotators,
        tuple(_shares(answers, rating, bootstraps, seed)),
        tuple(items),
        fleiss_kappa(by_item, prompts, bootstraps, seed),
        krippendorff_alpha(by_item, 'nominal' if pair else 'ordinal'),
        head_to_head(answers, rating) if pair else {},
        tuple(notes),
    )


def all_answers(key: RatingKey) -> tuple[str, ...]:
    """
    Return every answer that an item can have, as `GivenAnswer` calls it.
    """
    if key.kind == PAIR:
        more = {TIED: key.ties, UNRELATED: key.unrelated}
        return (*SIDES, *(name for name, offered in more.items() if offered))
    return tuple(str(k + 1) for k in range(len(key.questions[0].answers)))


def answer_name(key: RatingKey, answer: str) -> str:
    """
    Return an answer as people read it: a label by what it is worth.
    """
    return answer if key.kind == PAIR else label_name(key, int(answer))


def _is_control(shown: Iterable[KeyDialogue], key: AnnotationKey) -> bool:
    return any(one.system in key.controls for one in shown)


# ----------------------------------------------------------------- systems (Table 6)


def outcomes(answer: GivenAnswer, key: RatingKey) -> list[tuple[str, str]]:
    """
    Return each system of an answered pair with what the answer says of it.
    """
    names = [shown.system for shown in key.items[answer.item]]
    if answer.answer in SIDES:
        sides = zip(names, SIDES, strict=True)
        return [(n, WINS if side == answer.answer else LOSES) for n, side in sides]
    outcome = {TIED: TIES, UNRELATED: UNRELATEDS}[answer.answer]
    return [(name, outcome) for name in names]


def head_to_head(
    answers: Sequence[GivenAnswer], key: RatingKey
) -> dict[tuple[str, str], Counter[str]]:
    """
    Return how often each outcome was, for each system against each other one.
    """
    table: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for answer in answers:
        (one, its), (other, others) = outcomes(answer, key)
        table[one, other][its] += 1
        table[other, one][others] += 1
    return dict(table)


def _shares(
    answers: Sequence[GivenAnswer], key: RatingKey, bootstraps: int, seed: int
) -> list[Share]:
    """
    Return what was said of each system, as shares of all answers about it.
    """
    said: list[tuple[GivenAnswer, str, dict[str, float]]] = []
    names = [answer_name(key, name) for name in all_answers(key)] + [MEAN]
    if key.kind == PAIR:
        names = [*OUTCOMES, *([FLAGGED] if key.flag else [])]
    for answer in answers:
        if key.kind == PAIR:
            for side, (system, outcome) in zip(
                SIDES, outcomes(answer, key), strict=True
            ):
                flagged = float(side in answer.flags)
                said.append((answer, system, {outcome: 1.0, FLAGGED: flagged}))
        else:
            worth = {answer_name(key, answer.answer): 1.0}
            worth[MEAN] = key.value(answer.answer)
            said.append((answer, key.items[answer.item][0].system, worth))
    if not said:
        return []
    systems, system = number_names([system for _, system, _ in said])
    _, prompt = number_names([key.items[a.item][0].opener_id for a, _, _ in said])
    _, annotator = number_names([answer.annotator for answer, _, _ in said])
    totals = sparse_tables(np.ones(len(said)), system, prompt, annotator)
    counts = [
        sparse_tables(
            np.array([worth.get(name, 0.0) for _, _, worth in said]),
            *(system, prompt, annotator),
        )
        for name in names
    ]
    draws = draw_ratios(
        [table for tables in zip(*counts, strict=True) for table in tables],
        [total for total in totals for _ in names],
        bootstraps,
        seed,
    )
    intervals = iter(known_intervals(draws))
    return [
        Share(name_of_system, name, count, total, count / total, *next(intervals))
        for i, name_of_system in enumerate(systems)
        for k, name in enumerate(names)
        for count, total in [(float(counts[k][i].sum()), int(totals[i].sum()))]
    ]


# ------------------------------------------------------------------ items (Table 5)


def item_agreements(
    answers: Sequence[GivenAnswer], key: RatingKey
) -> list[ItemAgreement]:
    """
    Return what was said of each item, in the order of the key.
    """
    given: dict[str, Counter[str]] = defaultdict(Counter)
    for answer in answers:
        given[answer.item][answer_name(key, answer.answer)] += 1
    agreements = []
    for item in key.items:
        if counts := given.get(item):
            (first, votes), *others = counts.most_common()
            leads = not others or others[0][1] < votes
            agreements.append(
                ItemAgreement(
                    item, counts, first if leads else None, votes, counts.total()
                )
            )
    return agreements


# ------------------------------------------------------------- annotators (controls)


def control_table(
    answers: Sequence[GivenAnswer], key: AnnotationKey
) -> tuple[AnnotatorControls, ...]:
    """
    Return what each annotator said of the control items.

    Of a pair only an answer for one side decides: who guesses fails half of those. Of
    single answers the best label fails: who guesses fails one of the number of labels.
    """
    rating = key.rating
    pair = rating.kind == PAIR
    labels = all_answers(rating)
    best = max(labels, key=rating.value) if not pair else ''
    by_annotator: dict[str, list[GivenAnswer]] = defaultdict(list)
    for answer in answers:
        by_annotator[answer.annotator].append(answer)
    rows = []
    for annotator, given in sorted(by_annotator.items()):
        controls = [a for a in given if _is_control(rating.items[a.item], key)]
        if pair:
            controls = [a for a in controls if a.answer in SIDES]
        failed = sum(map(_failed_test(key, best), controls))
        low = high = None
        if controls:
            low, high = wilson_interval(failed, len(controls))
        chance = 0.5 if pair else 1 / len(labels)
        rows.append(
            AnnotatorControls(
                annotator, len(given), failed, len(controls), chance, low, high
            )
        )
    return tuple(rows)


def _failed_test(key: AnnotationKey, best: str) -> Callable[[GivenAnswer], bool]:
    """
    Return a test that is true for an answer that prefers the bad side of a control, or
    gives a bad answer the best label.
    """

    def failed(answer: GivenAnswer) -> bool:
        if key.rating.kind != PAIR:
            return answer.answer == best
        shown = key.rating.items[answer.item][SIDES.index(answer.answer)]
        return shown.system in key.controls

    return failed
