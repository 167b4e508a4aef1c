"""
The answers files that rating pages export, read against the keys of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.core.options import option
from parlai_ext.core.progress import counted
from parlai_ext.core.records import WrongType, record_from_json
from parlai_ext.files.json_file import read_json
from parlai_ext.people.draw_items import SIDES
from parlai_ext.people.judgements import TIE, Comparison, Judgements
from parlai_ext.people.questionnaire import LIKERT
from parlai_ext.people.rating_set import TIED, UNRELATED, RatingKey, answers_to

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

    def is_fast(self, seconds: float | None) -> bool:
        """
        True for a time that is known and too short.
        """
        return seconds is not None and seconds < self.min_seconds

    def notes(self, times: Iterable[tuple[str, float | None]]) -> list[str]:
        """
        Return a note on how many answers were too fast, and whose.

        :param times: the annotator and the seconds of each answer.
        """
        given: Counter[str] = Counter()
        fast: Counter[str] = Counter()
        for annotator, seconds in times:
            given[annotator] += 1
            fast[annotator] += self.is_fast(seconds)
        total = sum(fast.values())
        if not total:
            return []
        named = [
            f'{name} {number} of {given[name]}'
            for name, number in sorted(fast.items(), key=lambda f: (-f[1], f[0]))
            if number
        ]
        more = f', … ({len(named)} annotators)' if len(named) > MOST_NAMED else ''
        done = (
            'left out'
            if self.drop_fast
            else 'counted; --drop-fast true leaves them out'
        )
        return [
            f'{total} of {sum(given.values())} answers were given in less than '
            f'{self.min_seconds:g} s, too fast to read ({", ".join(named[:MOST_NAMED])}'
            f'{more}); they are {done}'
        ]


@dataclass(frozen=True)
class PageAnswer:
    """
    One answer: of a pair ``a``, ``b``, ``tie`` or ``unrelated``, else the number of a
    label.

    :param left: which dialogue of a pair stood on the left.
    :param flags: which dialogues of the item were flagged, ``a`` or ``b``.
    :param seconds: how long the item had been shown until this answer.
    """

    item: str
    dimension: str
    answer: str
    left: str | None = None
    seconds: float | None = None
    flags: tuple[str, ...] | None = None


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
    answers: tuple[PageAnswer, ...]


Answered = tuple[str, str, str, str]  # rating set, annotator, item, dimension


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
    latest: dict[Answered, PageAnswer] = {}
    notes = []
    files = [read_answers_file(path, keys) for path in counted(paths, 'file')]
    for file in sorted(files, key=lambda file: file.saved):
        for answer in file.answers:
            place = (file.rating_set, file.annotator, answer.item, answer.dimension)
            latest[place] = answer
    total = sum(len(file.answers) for file in files)
    if total > len(latest):
        notes.append(
            f'{total - len(latest)} answers were given again later; the last ones count'
        )
    times = [(place[1].strip(), answer.seconds) for place, answer in latest.items()]
    notes += rule.notes(times)
    if rule.drop_fast:
        latest = {p: a for p, a in latest.items() if not rule.is_fast(a.seconds)}
    notes += _side_notes(latest)
    contexts = {
        d.dialogue_id: d.opener_id
        for key in keys.values()
        for dialogues in key.items.values()
        for d in dialogues
    }
    return Judgements(
        ratings=(*_ratings(latest, keys), *_flag_ratings(latest, keys)),
        comparisons=tuple(_comparisons(latest, keys)),
        contexts=contexts,
        lower_is_better=frozenset({FLAGGED}),
        notes=tuple(notes),
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
    allowed = answers_to(key)
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
    return file


def _ratings(
    latest: Mapping[Answered, PageAnswer], keys: Mapping[str, RatingKey]
) -> Iterator[HumanJudgement]:
    for (rating_set, annotator, item, dimension), answer in latest.items():
        key = keys[rating_set]
        if key.kind == LIKERT:
            (dialogue,) = key.items[item]
            yield HumanJudgement(
                dialogue.system,
                dimension,
                key.value(answer.answer),
                annotator.strip(),
                dialogue.dialogue_id,
            )


def _comparisons(
    latest: Mapping[Answered, PageAnswer], keys: Mapping[str, RatingKey]
) -> Iterator[Comparison]:
    for (rating_set, annotator, item, dimension), answer in latest.items():
        key = keys[rating_set]
        if key.kind != LIKERT:
            first, second = key.items[item]
            yield Comparison(
                annotator.strip(),
                dimension,
                first.system,
                second.system,
                VALUES[answer.answer],
                first.dialogue_id,
                second.dialogue_id,
                item,
            )


def _flag_ratings(
    latest: Mapping[Answered, PageAnswer], keys: Mapping[str, RatingKey]
) -> Iterator[HumanJudgement]:
    """
    Yield, for each dialogue that could be flagged, 1 if it was and 0 if not.
    """
    for (rating_set, annotator, item, dimension), answer in latest.items():
        key = keys[rating_set]
        if key.flag and dimension == key.questions[0].dimension:
            for side, shown in zip(SIDES, key.items[item], strict=False):
                flagged = float(side in (answer.flags or ()))
                name = annotator.strip()
                yield HumanJudgement(
                    shown.system, FLAGGED, flagged, name, shown.dialogue_id
                )


def _side_notes(latest: Mapping[Answered, PageAnswer]) -> list[str]:
    """
    Return a note on how often the left dialogue was preferred: about half, if sides do
    not matter.
    """
    chosen = [a for a in latest.values() if a.left in SIDES and a.answer in SIDES]
    if not chosen:
        return []
    left = sum(a.answer == a.left for a in chosen)
    return [f'the left dialogue was preferred in {left} of {len(chosen)} answers']
