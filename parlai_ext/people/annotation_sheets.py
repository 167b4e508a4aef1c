"""
Annotation sheets: tables that annotators fill in, one for each of them.

    sheet-1.csv …    row, prompt, answer_a, answer_b, choice, flag_a, flag_b
                     or row, prompt, answer, label; empty cells are filled in
    sheet-1.jsonl …  the same as JSON lines
    GUIDELINES.txt   what is asked

Every sheet has all items, in an order and with sides of its own. A row's name is that
of its item, with the place of the first answer: 1 if it is A, 2 if it is B. No sheet
names a system.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.data.corpora import json_lines
from parlai_ext.files.csv_file import read_csv, spreadsheet_csv
from parlai_ext.people.annotation_set import AnnotationKey, AnnotationSet
from parlai_ext.people.crowd_files import label_bucket
from parlai_ext.people.draw_items import SIDES
from parlai_ext.people.judgements import Comparison
from parlai_ext.people.page_answers import read_answers_file
from parlai_ext.people.questionnaire import PAIR
from parlai_ext.people.rating_set import TIED, UNRELATED, RatingKey

PAIR_COLUMNS = ('row', 'prompt', 'answer_a', 'answer_b', 'choice', 'flag_a', 'flag_b')
LABEL_COLUMNS = ('row', 'prompt', 'answer', 'label')
LETTERS = {TIED: 'T', UNRELATED: 'U'}
MARKED = ('x', '1', 'yes', 'true', 'y', '1.0')
NOT_MARKED = ('', '0', 'no', 'false', 'n', '0.0')
GUIDELINES = 'GUIDELINES.txt'
BYTE_ORDER_MARK = '\ufeff'  # spreadsheets take a file without it for another encoding


@dataclass(frozen=True)
class GivenAnswer:
    """
    One annotator's answer about an item.

    :param answer: ``a``, ``b``, ``tie`` or ``unrelated``, as the key calls the answers;
        of single answers the number of the label, from 1.
    :param flags: which of ``a`` and ``b`` were flagged.
    :param first_shown: which of a pair's answers stood first, where that is known.
    :param seconds: how long the item was shown before, where a page recorded it.
    """

    annotator: str
    item: str
    answer: str
    flags: tuple[str, ...] = ()
    first_shown: str | None = None
    seconds: float | None = None


# ------------------------------------------------------------------------------ writing


def sheet_files(
    annotations: AnnotationSet, num_sheets: int, ending: str, seed: int
) -> dict[str, str]:
    """
    Return the sheets and the guidelines by their names.

    :param ending: ``csv`` or ``jsonl``.
    """
    files = {GUIDELINES: guidelines(annotations.key.rating, ending)}
    for number in range(1, num_sheets + 1):
        rng = random.Random(f'{seed} {number}')
        rows = list(_sheet_rows(annotations, rng))
        if ending == 'csv':
            table = [list(rows[0]), *(row.values() for row in rows)]
            text = BYTE_ORDER_MARK + spreadsheet_csv(table)
        else:
            text = ''.join(json.dumps(r, ensure_ascii=False) + '\n' for r in rows)
        files[f'sheet-{number}.{ending}'] = text
    return files


def _sheet_rows(
    annotations: AnnotationSet, rng: random.Random
) -> Iterator[dict[str, str]]:
    """
    Yield the rows of one sheet, their last columns empty.
    """
    items = list(annotations.items)
    rng.shuffle(items)
    pair = annotations.key.rating.kind == PAIR
    for item in items:
        prompt, answers = annotations.texts(item)
        swapped = pair and rng.random() < 0.5
        shown = answers[::-1] if swapped else answers
        row = f'{item.id}-{1 + swapped}' if pair else item.id
        columns = PAIR_COLUMNS if pair else LABEL_COLUMNS
        texts = dict(zip(columns, (row, prompt, *shown), strict=False))
        yield {column: texts.get(column, '') for column in columns}


def guidelines(key: RatingKey, ending: str = 'csv') -> str:
    """
    Return what annotators are asked, in words.
    """
    (question,) = key.questions
    lines = []
    if key.offensive:
        lines += [
            'WARNING: the texts may be toxic, hateful or otherwise upsetting.',
            'Stop whenever you like.',
            '',
        ]
    lines += [question.text, '']
    if key.kind == PAIR:
        words = {'A': 'answer_a', 'B': 'answer_b'}
        words['T'] = (key.tie or 'No difference') if key.ties else ''
        words['U'] = key.unrelated or ''
        lines.append('Fill in the column choice:')
        lines += [f'  {letter}  {text}' for letter, text in words.items() if text]
        if key.flag:
            lines += ['', 'Put an x into flag_a or flag_b for', f'  {key.flag}']
    else:
        lines.append('Fill in the column label:')
        for number, text in enumerate(question.answers, 1):
            name = label_name(key, number)
            lines.append(f'  {name:>2}  {text.removeprefix(f"{name}: ")}')
    lines += [
        '',
        'Leave all other columns as they are. Give the file your name or initials,',
        f'such as ann.{ending}, and send it back.',
    ]
    return '\n'.join(lines) + '\n'


def label_name(key: RatingKey, number: int) -> str:
    """
    Return the label with this number, from 1, as annotators write it.
    """
    return f'{key.value(str(number)):g}'


# ------------------------------------------------------------------------------ reading


def read_sheets(paths: Sequence[Path], key: AnnotationKey) -> list[GivenAnswer]:
    """
    Return the answers in sheets and in the files of rating pages, empty ones left out.

    The annotator is the cell ``annotator`` of the row, or the name of the file.

    :raises UserError: names file and line of the first mistake; also where an annotator
        answers about the same item twice.
    """
    answers: dict[tuple[str, str], GivenAnswer] = {}
    for path in paths:
        for where, answer in _answers_of_file(path, key):
            place = (answer.annotator, answer.item)
            if place in answers:
                raise UserError(
                    f'{where}: {answer.annotator} has answered about this item '
                    'already; files of the same name count as one annotator'
                )
            answers[place] = answer
    return list(answers.values())


def _answers_of_file(
    path: Path, key: AnnotationKey
) -> Iterator[tuple[str, GivenAnswer]]:
    if path.suffix == '.json':
        yield from _page_answers(path, key)
        return
    column = 'choice' if key.rating.kind == PAIR else 'label'
    rows: Iterator[tuple[int, Mapping[str, Any]]]
    rows = json_lines(path) if path.suffix == '.jsonl' else read_csv(path, ('row',))
    for line, row in rows:
        where = f'{path}:{line}'
        if column not in row:
            raise UserError(f'{where}: the column {column} is missing')
        cell = '' if row[column] is None else str(row[column]).strip().lstrip("'")
        if cell:
            yield where, _sheet_answer(where, row, cell, path.stem, key.rating)


def _sheet_answer(
    where: str, row: Mapping[str, Any], cell: str, name: str, key: RatingKey
) -> GivenAnswer:
    """
    Return the answer of one row.
    """
    annotator = str(row.get('annotator') or name).strip()
    item, _, order = str(row.get('row', '')).partition('-')
    if item not in key.items:
        raise UserError(f'{where}: row: {row.get("row")!r} is not in the key')
    if key.kind != PAIR:
        return GivenAnswer(annotator, item, _label_number(where, cell, key))
    if order not in ('1', '2'):
        raise UserError(f'{where}: row: {row["row"]!r} is not in the key')
    sides = SIDES if order == '1' else SIDES[::-1]
    words = dict(zip('AB', sides, strict=True))
    offered = {TIED: key.ties, UNRELATED: key.unrelated}
    words |= {LETTERS[name]: name for name, there in offered.items() if there}
    if cell.upper() not in words:
        raise UserError(f'{where}: choice: {cell!r}; one of {", ".join(words)}')
    flags = [
        side
        for letter, side in zip('ab', sides, strict=True)
        if _is_marked(where, f'flag_{letter}', row)
    ]
    return GivenAnswer(
        annotator, item, words[cell.upper()], tuple(sorted(flags)), sides[0]
    )


def _label_number(where: str, cell: str, key: RatingKey) -> str:
    """
    Return the number of the label that a cell has, from 1.
    """
    labels = {
        label_name(key, number): str(number)
        for number in range(1, len(key.questions[0].answers) + 1)
    }
    text = cell.replace('\u2212', '-').removeprefix('+').removesuffix('.0')
    if text not in labels:
        raise UserError(f'{where}: label: {cell!r}; one of {", ".join(labels)}')
    return labels[text]


def _is_marked(where: str, column: str, row: Mapping[str, Any]) -> bool:
    value = row.get(column)
    text = '' if value is None else str(value).strip().casefold()
    if text not in (*MARKED, *NOT_MARKED):
        raise UserError(f'{where}: {column}: {value!r}; x, or nothing')
    return text in MARKED


def _page_answers(path: Path, key: AnnotationKey) -> Iterator[tuple[str, GivenAnswer]]:
    """
    Yield the answers that a rating page saved.
    """
    file = read_answers_file(path, {key.rating.rating_set: key.rating})
    for place, one in enumerate(file.answers):
        yield (
            f'{path}: answers[{place}]',
            GivenAnswer(
                file.annotator.strip(),
                one.item,
                one.answer,
                one.flags or (),
                one.left,
                one.seconds,
            ),
        )


def answers_to_comparisons(
    comparisons: Sequence[Comparison], key: RatingKey
) -> list[GivenAnswer]:
    """
    Return the answers that comparisons of ACUTE-Eval give: there is no tie and no flag.

    :raises UserError: for a comparison of no item.
    """
    items = {
        frozenset(d.dialogue_id for d in shown): item
        for item, shown in key.items.items()
    }
    answers = []
    for one in comparisons:
        ids = (one.first_dialogue, one.second_dialogue)
        item = items.get(frozenset(ids))
        if item is None:
            raise UserError(
                f'--answers: {one.first} against {one.second}: their answers '
                f'{" and ".join(ids)} are no pair of the key'
            )
        preferred = ids[0] if one.value else ids[1]
        known = [d.dialogue_id for d in key.items[item]]
        side = SIDES[known.index(preferred)]
        answers.append(GivenAnswer(one.annotator, item, side))
    return answers


def answers_to_buckets(
    ratings: Sequence[HumanJudgement], key: RatingKey
) -> list[GivenAnswer]:
    """
    Return the labels that turn annotations ticked as buckets.

    :raises UserError: for an answer of no item, or a bucket that is no label.
    """
    items = {shown[0].dialogue_id: item for item, shown in key.items.items()}
    labels = {
        label_bucket(key, number): str(number)
        for number in range(1, len(key.questions[0].answers) + 1)
    }
    answers = []
    for one in ratings:
        if one.value != 1:
            continue
        if one.dialogue_id not in items:
            raise UserError(f'--answers: {one.dialogue_id}: no answer of the key')
        if one.dimension not in labels:
            raise UserError(
                f'--answers: bucket {one.dimension}: {nearest(one.dimension, labels)}'
            )
        item, label = items[one.dialogue_id], labels[one.dimension]
        answers.append(GivenAnswer(one.rater or '', item, label))
    return answers
