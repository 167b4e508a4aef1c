"""
The answers files that rating pages export, read against the keys of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.core.options import option
from parlai_ext.core.progress import counted
from parlai_ext.core.records import WrongType, record_from_json
from parlai_ext.files.json_file import read_json
from parlai_ext.people.judgements import TIE, Comparison, Judgements
from parlai_ext.people.questionnaire import LIKERT, SIDES, TIED, UNRELATED
from parlai_ext.people.rating_set import RatingKey

FORMAT = 'parlai_ext ratings'
VALUES = {SIDES[0]: 1.0, SIDES[1]: 0.0, TIED: TIE, UNRELATED: TIE}
MOST_NAMED = 20  # annotators with fast answers, in a note
FLAGGED = 'Flagged'  # the dimension of flags: 1 where a dialogue was flagged


@dataclass(frozen=True)
class FastAnswers:
    """
    Which answers were given faster than an item can be read, and whether they count.

    They do unless the user says otherwise: a time is a hint and no proof, and which
    answers count is part of a study's design, to be settled before its ranking is seen.
    """

    min_seconds: float = option(
        # of careless answers to questionnaires: Huang et al., "Detecting and deterring
        # insufficient effort responding to surveys", J. of Business and Psychology
        # 27(1), 2012
        2.0,
        low=0,
        metavar='SECONDS',
        help='rating pages: answers in less time since the item was shown are named by '
        'annotator in a note (0: none)',
    )
    drop_fast: bool = option(
        False, help='rating pages: leave out answers below --min-seconds'
    )

    def checked(
        self, answers: Sequence[GivenAnswer]
    ) -> tuple[Sequence[GivenAnswer], list[str]]:
        """
        Return the answers that count, and a note on how many were too fast, and whose.
        """
        kept = [
            a for a in answers if a.seconds is None or a.seconds >= self.min_seconds
        ]
        given = Counter(answer.annotator for answer in answers)
        fast = given - Counter(answer.annotator for answer in kept)
        total = sum(fast.values())
        if not total:
            return answers, []
        named = [
            f'{name} {number} of {given[name]}'
            for name, number in sorted(fast.items(), key=lambda f: (-f[1], f[0]))
        ]
        more = f', … ({len(named)} annotators)' if len(named) > MOST_NAMED else ''
        done = 'counted; --drop-fast true leaves them out'
        note = (
            f'{total} of {len(answers)} answers were given in less than '
            f'{self.min_seconds:g} s, too fast to read ({", ".join(named[:MOST_NAMED])}'
            f'{more}); they are {"left out" if self.drop_fast else done}'
        )
        return kept if self.drop_fast else answers, [note]


@dataclass(frozen=True)
class GivenAnswer:
    """
    One annotator's answer: of a pair ``a``, ``b``, ``tie`` or ``unrelated``, else the
    number of a label, from 1.

    :param left: which of a pair stood first, on the left, where that is known.
    :param seconds: how long the item had been shown until this answer.
    :param flags: which of the item were flagged, ``a`` or ``b``.
    """

    item: str
    dimension: str
    answer: str
    left: str | None = None
    seconds: float | None = None
    flags: tuple[str, ...] | None = None
    annotator: str = ''
    rating_set: str = ''


@dataclass(frozen=True)
class PageAnswers:
    """
    The file that one annotator's browser saved.

    :param saved: when, in milliseconds since 1970: of two answers to the same question,
        the later one counts.
    """

    format: str
    rating_set: str
    page: int
    annotator: str
    saved: float
    answers: tuple[GivenAnswer, ...]


def read_page_answers(
    paths: Sequence[str | Path],
    keys: Mapping[str, RatingKey],
    rule: FastAnswers,
) -> Judgements:
    """
    Return what the answers files of rating pages say.

    An annotator may send a file twice, and answer the same item on two pages: the
    answer that was saved last counts.

    :param keys: the rating sets of the run.
    :param rule: which answers were too fast, and whether they count.
    :raises UserError: names file and place of the first mistake.
    """
    files = [read_answers_file(path, keys) for path in counted(paths, 'file')]
    files.sort(key=lambda file: file.saved)
    every = [answer for file in files for answer in file.answers]
    latest = {(a.rating_set, a.annotator, a.item, a.dimension): a for a in every}
    notes = []
    if repeated := len(every) - len(latest):
        notes.append(f'{repeated} answers were given again later; the last ones count')
    answers, fast_notes = rule.checked(list(latest.values()))
    ratings, comparisons = _judgements_of(answers, keys)
    contexts = {
        d.dialogue_id: d.opener_id
        for key in keys.values()
        for dialogues in key.items.values()
        for d in dialogues
    }
    return Judgements(
        ratings=tuple(ratings),
        comparisons=tuple(comparisons),
        contexts=contexts,
        lower_is_better=frozenset({FLAGGED}),
        notes=(*notes, *fast_notes, *side_notes(answers)),
    )


def read_answers_file(path: str | Path, keys: Mapping[str, RatingKey]) -> PageAnswers:
    """
    Return the answers of one file, each checked against the key of its rating set.
    """
    data = read_json(path, dict, 'answers ')
    try:
        file: PageAnswers = record_from_json(PageAnswers, data)
    except WrongType as error:
        raise UserError(f'{path}: no answers of a rating page: {error}') from None
    if file.format != FORMAT:
        raise UserError(f'{path}: format: {FORMAT!r} is expected, not {file.format!r}')
    if not file.annotator.strip():
        raise UserError(f'{path}: annotator: is empty')
    key = keys.get(file.rating_set)
    if key is None:
        raise UserError(
            f'{path}: rating_set: {file.rating_set!r} is of no key in this run; the '
            'key is in the folder that rate_dialogues wrote'
        )
    dimensions = {question.dimension for question in key.questions}
    allowed = key.answers
    for place, answer in enumerate(file.answers):
        where = f'{path}: answers[{place}]'
        if answer.item not in key.items:
            raise UserError(f'{where}.item: {answer.item!r} is not in the rating set')
        if answer.dimension not in dimensions:
            raise UserError(f'{where}.dimension: {answer.dimension!r} was not asked')
        if answer.answer not in allowed:
            raise UserError(
                f'{where}.answer: {answer.answer!r}; one of {", ".join(allowed)} is '
                'expected'
            )
    name, rating_set = file.annotator.strip(), file.rating_set
    answers = (replace(a, annotator=name, rating_set=rating_set) for a in file.answers)
    return replace(file, answers=tuple(answers))


def _judgements_of(
    answers: Iterable[GivenAnswer], keys: Mapping[str, RatingKey]
) -> tuple[list[HumanJudgement], list[Comparison]]:
    """
    Return answers as ratings and comparisons. Each dialogue that could be flagged has a
    rating, too: 1 if it was and 0 if not.
    """
    ratings, flagged, comparisons = [], [], []
    for answer in answers:
        key = keys[answer.rating_set]
        name, shown = answer.annotator, key.items[answer.item]
        if key.kind == LIKERT:
            (one,) = shown
            about = (answer.dimension, key.value(answer.answer), name, one.dialogue_id)
            ratings.append(HumanJudgement(one.system, *about))
        else:
            first, second = shown
            comparisons.append(
                Comparison(
                    name,
                    answer.dimension,
                    first.system,
                    second.system,
                    VALUES[answer.answer],
                    first.dialogue_id,
                    second.dialogue_id,
                    answer.item,
                )
            )
        if key.flag and answer.dimension == key.questions[0].dimension:
            for side, one in zip(SIDES, shown, strict=False):
                value = float(side in (answer.flags or ()))
                flag = HumanJudgement(one.system, FLAGGED, value, name, one.dialogue_id)
                flagged.append(flag)
    return [*ratings, *flagged], comparisons


def side_notes(answers: Iterable[GivenAnswer]) -> list[str]:
    """
    Return a note on how often the side that stood first was preferred: about half, if
    sides do not matter.
    """
    chosen = [a for a in answers if a.left in SIDES and a.answer in SIDES]
    if not chosen:
        return []
    first = sum(a.answer == a.left for a in chosen)
    return [
        f'the side that stood first was preferred in {first} of {len(chosen)} answers '
        'for one side'
    ]
