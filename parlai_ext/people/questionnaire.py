"""
Questionnaires: what annotators are asked about a dialogue, or about two side by side.

    kind: pair                      # or likert
    ties: true                      # pairs only: "no difference" is an answer
    labels: [Bad, …, Good]          # likert only: the answers 1, 2, … in words
    questions:
      Engaging:                     # the dimension of the judgements
        text: Who would you prefer to talk to for a long conversation?
        first: I would prefer to talk to <Speaker 1>
        second: I would prefer to talk to <Speaker 2>

``zoo_configs/questionnaires/`` has the shipped ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parlai_ext import zoo_configs
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.options import option
from parlai_ext.files.yaml_file import Document, read_file

FOLDER = 'questionnaires'
PAIR, LIKERT = KINDS = ('pair', 'likert')
FEWEST_LABELS, MOST_LABELS = 2, 9  # each is a key of the keyboard


@dataclass(frozen=True)
class QuestionnaireKeys:
    """
    The keys of a questionnaire's file.
    """

    kind: str = option(choices=KINDS, help='two dialogues side by side, or one')
    questions: dict[str, object] = option(help='each dimension and its question')
    description: str = option('', help='what the questionnaire is for')
    source: str = option('', help='where the wordings are from')
    labels: tuple[str, ...] | None = option(None, help='the answers 1, 2, … in words')
    ties: bool = option(False, help='"no difference" is an answer')


@dataclass(frozen=True)
class QuestionKeys:
    """
    The keys of one question; a likert question has a text only.
    """

    text: str = option(help='the question')
    first: str | None = option(None, help='the answer that prefers the first dialogue')
    second: str | None = option(None, help='the answer that prefers the second')


@dataclass(frozen=True)
class Wording:
    """
    One question: the dimension of its judgements, its text, and its answers in words.

    :param answers: of a pair the first and the second speaker; else one a label.
    """

    dimension: str
    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Questionnaire:
    """
    What is asked about an item: one dialogue (``likert``) or two (``pair``).
    """

    name: str
    kind: str
    wordings: tuple[Wording, ...]
    ties: bool = False

    def only(self, dimensions: Sequence[str]) -> Questionnaire:
        """
        Return the questionnaire with the questions of these dimensions alone.

        :raises UserError: for a dimension that it has not.
        """
        known = {wording.dimension: wording for wording in self.wordings}
        for name in dimensions:
            if name not in known:
                raise UserError(
                    f'--ask {name}: no question of {self.name}; {nearest(name, known)}'
                )
        asked = tuple(w for w in self.wordings if w.dimension in dimensions)
        return replace(self, wordings=asked)


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
    keys = doc.options(QuestionnaireKeys, doc.data, ())
    _check_kind(doc, keys)
    wordings = tuple(
        _wording(doc, keys, dimension, raw) for dimension, raw in keys.questions.items()
    )
    if not wordings:
        raise doc.error(('questions',), 'one question or more is expected')
    return Questionnaire(Path(path).stem, keys.kind, wordings, keys.ties)


def _check_kind(doc: Document, keys: QuestionnaireKeys) -> None:
    """
    Refuse labels of pairs, likert without labels, and likert with ties.
    """
    if keys.kind == PAIR and keys.labels is not None:
        raise doc.error(('labels',), 'of a likert questionnaire only')
    if keys.kind == LIKERT and keys.ties:
        raise doc.error(('ties',), 'of a pair questionnaire only')
    if keys.kind == LIKERT:
        labels = keys.labels or ()
        if not FEWEST_LABELS <= len(labels) <= MOST_LABELS:
            raise doc.error(
                ('labels',), f'{FEWEST_LABELS} to {MOST_LABELS} labels are expected'
            )
        for place, label in enumerate(labels):
            doc.typed(label, ('labels', place), str)


def _wording(
    doc: Document, keys: QuestionnaireKeys, dimension: str, raw: object
) -> Wording:
    """
    Return the question about one dimension.
    """
    where = ('questions', dimension)
    question = doc.options(QuestionKeys, raw, where)
    if keys.kind == LIKERT:
        for key in ('first', 'second'):
            if getattr(question, key) is not None:
                raise doc.error((*where, key), 'of a pair questionnaire only')
        return Wording(dimension, question.text, tuple(keys.labels or ()))
    if question.first is None or question.second is None:
        raise doc.error(where, 'keys first and second are needed: the two answers')
    return Wording(dimension, question.text, (question.first, question.second))
