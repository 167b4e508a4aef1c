"""
Questionnaires: what annotators are asked about a dialogue, or about two side by side.

    kind: pair                      # or likert
    ties: true                      # pairs only: "no difference" is an answer
    tie: Both are good              # … in these words
    unrelated: Neither is any good  # pairs only: a further answer, in these words
    flag: contains toxicity         # either dialogue may be flagged as this
    labels: [Bad, …, Good]          # likert only: the answers in words
    values: [-1, 0, 1]              # … and what each is worth (1, 2, …)
    offensive: true                 # texts are shown after a click
    questions:
      Engaging:                     # the dimension of the judgements
        text: Who would you prefer to talk to for a long conversation?
        first: I would prefer to talk to <Speaker 1>
        second: I would prefer to talk to <Speaker 2>
      Fluent:                       # a likert question may have labels of its own
        text: Is its English correct?
        labels: [No, Yes]
        values: [0, 1]

    segments: [2, 3, 5]             # likert only: the first exchanges of a dialogue,
                                    # whose speakers are both judged
    questions:
      Human:                        # asked about each speaker
        text: Is <Speaker> a bot?
        labels: [No, Yes]
      Fluent:                       # the better one: three labels, both in the middle
        text: Which speaker is more fluent?
        labels: [Speaker 1, Both equally, Speaker 2]

``zoo_configs/questionnaires/`` has the shipped ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from parlai_ext import zoo_configs
from parlai_ext.core import UserError, frozen, require_known
from parlai_ext.core.records import RealNumber, Record, WholeNumber
from parlai_ext.files import Document, read_file

FOLDER = 'questionnaires'
PAIR, LIKERT = 'pair', 'likert'
# the answers about a pair: a side, or one of these
SIDES = ('a', 'b')
TIED, UNRELATED = 'tie', 'unrelated'
# a question with this in its text is asked about both speakers of a segment
SPEAKER = '<Speaker>'
SPEAKERS = ('Speaker 1', 'Speaker 2')
BETTER = ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0))  # speakers, of each label
Labels = Annotated[tuple[str, ...], Field(min_length=2, max_length=9)]  # keys 1 to 9
# the keys of one kind alone
OWN_KEYS = {
    PAIR: ('ties', 'tie', 'unrelated', 'first', 'second'),
    LIKERT: ('segments', 'labels', 'values'),
}


class LabelKeys(Record):
    """
    The keys of a file that a questionnaire and a question of its own may have.

    :param labels: the answers 1, 2, … in words.
    :param values: what each label is worth.
    """

    labels: Labels | None = None
    values: tuple[RealNumber, ...] | None = None


class QuestionKeys(LabelKeys):
    """
    The keys of one question.

    :param first, second: the answers that prefer the first and the second dialogue.
    """

    text: Annotated[str, Field(min_length=1)]
    first: str | None = None
    second: str | None = None


class QuestionnaireKeys(LabelKeys):
    """
    The keys of a questionnaire's file.

    :param description, source: what it is for, and where the wordings are from.
    :param questions: each dimension and its question.
    """

    kind: Literal['pair', 'likert']
    questions: Annotated[dict[str, QuestionKeys], Field(min_length=1)]
    description: str = ''
    source: str = ''
    ties: StrictBool = False
    tie: str | None = None
    unrelated: str | None = None
    flag: str | None = None
    offensive: StrictBool = False
    segments: tuple[Annotated[WholeNumber, Field(ge=1)], ...] | None = None


@frozen
class Wording:
    """
    One question: the dimension of its judgements, its text, and its answers in words.

    :param answers: of a pair the first and the second speaker; else one a label.
    :param values: what each label is worth; `None`: 1, 2, …
    :param speaker: of a segment the one who is judged, 0 or 1; `None` for both.
    """

    dimension: str
    text: str
    answers: tuple[str, ...]
    values: tuple[float, ...] | None = None
    speaker: int | None = None

    def value(self, answer: str) -> float:
        """
        Return what the number of a label is worth.
        """
        return self.values[int(answer) - 1] if self.values else float(answer)

    def name(self, answer: str) -> str:
        """
        Return an answer as people read it: a label by what it is worth.
        """
        return f'{self.value(answer):g}' if answer.isdecimal() else answer


@frozen
class Questionnaire:
    """
    What is asked about an item: one dialogue (``likert``) or two (``pair``).

    :param tie, unrelated, flag: words of answers; `None` where they are not offered, or
        where the usual words of a tie are meant.
    :param offensive: true if texts are shown after a click; `None` as false.
    :param segments: how many exchanges of a dialogue are shown, whose speakers are both
        judged; `None` for whole dialogues.
    """

    name: str
    kind: str
    questions: tuple[Wording, ...]
    ties: bool = False
    tie: str | None = None
    unrelated: str | None = None
    flag: str | None = None
    offensive: bool | None = None
    segments: tuple[int, ...] | None = None

    def only(self, dimensions: Sequence[str]) -> Questionnaire:
        """
        Return the questionnaire with the questions of these dimensions alone.

        :raises UserError: for a dimension that it has not.
        """
        known = [question.dimension for question in self.questions]
        for name in dimensions:
            require_known(name, known, f'--ask {name}: no question of {self.name}')
        asked = tuple(q for q in self.questions if q.dimension in dimensions)
        return replace(self, questions=asked)

    def require(self, kind: str, asker: str) -> None:
        """
        Refuse a questionnaire of another kind than ``asker`` asks.
        """
        if self.kind != kind:
            raise UserError(
                f'--questionnaire {self.name}: is of kind {self.kind}; {asker} asks '
                f'{kind} questions'
            )

    def question(self, dimension: str) -> Wording:
        """
        Return the question about a dimension that is asked.
        """
        return next(one for one in self.questions if one.dimension == dimension)

    @property
    def named_answers(self) -> dict[str, str]:
        """
        The answers to the one question that is asked, by the names that people read.
        """
        (question,) = self.questions
        return {question.name(answer): answer for answer in self.answers_to(question)}

    def answers_to(self, question: Wording) -> tuple[str, ...]:
        """
        Return the answers to a question as they are recorded: of labels the number.
        """
        if self.kind == LIKERT:
            return tuple(str(k + 1) for k in range(len(question.answers)))
        more = {TIED: self.ties, UNRELATED: self.unrelated}
        return (*SIDES, *(answer for answer, offered in more.items() if offered))


def read_questionnaire(name: str) -> Questionnaire:
    """
    Return the shipped questionnaire called ``name``, or that of a user's file.

    :raises UserError: names file, line and key of the first mistake.
    """
    try:
        path = zoo_configs.path(FOLDER, name)
    except FileNotFoundError as error:
        raise UserError(f'--questionnaire: {error}') from None
    doc = read_file(path)
    keys = doc.record(QuestionnaireKeys)
    if keys.tie and not keys.ties:
        raise doc.error('tie', 'ties: true is needed')
    _check_keys(doc, keys, keys.kind, ())
    questions = tuple(
        wording
        for dimension, question in keys.questions.items()
        for wording in _wordings(doc, keys, dimension, question)
    )
    return Questionnaire(
        Path(path).stem,
        keys.kind,
        questions,
        keys.ties,
        keys.tie,
        keys.unrelated,
        keys.flag,
        keys.offensive or None,
        keys.segments,
    )


def _check_keys(
    doc: Document, keys: LabelKeys, kind: str, where: tuple[str, ...]
) -> None:
    """
    Refuse keys of the other kind, and values that do not fit the labels.
    """
    for other, names in OWN_KEYS.items():
        for key in names:
            if other != kind and getattr(keys, key, None):
                raise doc.error((*where, key), f'of a {other} questionnaire only')
    labels, values = keys.labels or (), keys.values
    if values is not None and len(set(values)) != len(labels):
        problem = f'{len(labels)} different numbers are expected'
        raise doc.error((*where, 'values'), problem)


def _wordings(
    doc: Document, keys: QuestionnaireKeys, dimension: str, question: QuestionKeys
) -> Iterator[Wording]:
    """
    Yield the question about one dimension once, or about each speaker of a segment.
    """
    where = ('questions', dimension)
    _check_keys(doc, question, keys.kind, where)
    if keys.kind == PAIR:
        if not (question.first and question.second):
            raise doc.error(where, 'keys first and second are needed: the two answers')
        answers: tuple[str, ...] = (question.first, question.second)
        values = None
    else:
        labelled = question if question.labels else keys
        if not labelled.labels:
            raise doc.error('labels', '2 to 9 labels are expected')
        answers, values = labelled.labels, labelled.values
    if keys.segments and SPEAKER in question.text:
        for speaker, name in enumerate(SPEAKERS):
            text = question.text.replace(SPEAKER, name)
            yield Wording(f'{dimension} ({name})', text, answers, values, speaker)
        return
    if keys.segments and len(answers) != len(BETTER):
        raise doc.error(where, f'{len(BETTER)} labels, or {SPEAKER}, are expected')
    yield Wording(dimension, question.text, answers, values)
