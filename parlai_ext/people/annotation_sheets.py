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
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.data.text_lines import json_lines
from parlai_ext.files.csv_file import read_csv, spreadsheet_csv
from parlai_ext.people.crowd_files import label_bucket
from parlai_ext.people.draw_items import RatingItem
from parlai_ext.people.judgements import Comparison
from parlai_ext.people.page_answers import GivenAnswer, read_answers_file
from parlai_ext.people.questionnaire import PAIR, SIDES, TIED, UNRELATED
from parlai_ext.people.rating_set import RatingKey, RatingSet

PAIR_COLUMNS = ('row', 'prompt', 'answer_a', 'answer_b', 'choice', 'flag_a', 'flag_b')
LABEL_COLUMNS = ('row', 'prompt', 'answer', 'label')
LETTERS = {TIED: 'T', UNRELATED: 'U'}
MARKED = ('x', '1', 'yes', 'true', 'y', '1.0')
NOT_MARKED = ('', '0', 'no', 'false', 'n', '0.0')
GUIDELINES = 'GUIDELINES.txt'
BYTE_ORDER_MARK = '\ufeff'  # spreadsheets take a file without it for another encoding


# ------------------------------------------------------------------------------ writing


def sheet_files(
    annotations: RatingSet, num_sheets: int, ending: str, seed: int
) -> dict[str, str]:
    """
    Return the sheets and the guidelines by their names.

    :param ending: ``csv`` or ``jsonl``.
    """
    files = {GUIDELINES: guidelines(annotations.key, ending)}
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


def item_lines(annotations: RatingSet) -> str:
    """
    Return what each item is, with systems and texts, as JSON lines for the researcher.
    """
    lines = []
    for item in annotations.pages[0]:
        prompt, answers = _texts(annotations, item)
        systems = [dialogue.system for dialogue in item.dialogues]
        record = {'item': item.id, 'prompt': prompt, 'systems': systems}
        lines.append(json.dumps({**record, 'answers': answers}, ensure_ascii=False))
    return ''.join(f'{line}\n' for line in lines)


def _texts(annotations: RatingSet, item: RatingItem) -> tuple[str, list[str]]:
    """
    Return the prompt of an item, and its answers.
    """
    shown = [annotations.turns[dialogue] for dialogue in item.dialogues]
    return shown[0][0].text, [answer.text for _, answer in shown]


def _sheet_rows(annotations: RatingSet, rng: random.Random) -> Iterator[dict[str, str]]:
    """
    Yield the rows of one sheet, their last columns empty.
    """
    items = list(annotations.pages[0])
    rng.shuffle(items)
    pair = annotations.key.kind == PAIR
    columns = PAIR_COLUMNS if pair else LABEL_COLUMNS
    for item in items:
        prompt, answers = _texts(annotations, item)
        swapped = pair and rng.random() < 0.5
        shown = answers[::-1] if swapped else answers
        row = f'{item.id}-{1 + swapped}' if pair else item.id
        yield dict(zip_longest(columns, (row, prompt, *shown), fillvalue=''))


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
        for label, text in zip(key.answers, question.answers, strict=True):
            name = key.answer_name(label)
            lines.append(f'  {name:>2}  {text.removeprefix(f"{name}: ")}')
    lines += [
        '',
        'Leave all other columns as they are. Give the file your name or initials,',
        f'such as ann.{ending}, and send it back.',
    ]
    return '\n'.join(lines) + '\n'


# ------------------------------------------------------------------------------ reading


def read_sheets(paths: Sequence[Path], key: RatingKey) -> list[GivenAnswer]:
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


def _answers_of_file(path: Path, key: RatingKey) -> Iterator[tuple[str, GivenAnswer]]:
    if path.suffix == '.json':
        file = read_answers_file(path, {key.rating_set: key})
        for place, answer in enumerate(file.answers):
            yield f'{path}: answers[{place}]', answer
        return
    column = PAIR_COLUMNS[4] if key.kind == PAIR else LABEL_COLUMNS[3]
    rows: Iterator[tuple[int, Mapping[str, Any]]]
    rows = json_lines(path) if path.suffix == '.jsonl' else read_csv(path, ('row',))
    for line, row in rows:
        where = f'{path}:{line}'
        if column not in row:
            raise UserError(f'{where}: the column {column} is missing')
        if cell := _cell(row, column).lstrip("'"):
            annotator = _cell(row, 'annotator') or path.stem.strip()
            answer = _sheet_answer(where, row, column, cell, key)
            yield where, replace(answer, annotator=annotator)


def _cell(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    return '' if value is None else str(value).strip()


def _sheet_answer(
    where: str, row: Mapping[str, Any], column: str, cell: str, key: RatingKey
) -> GivenAnswer:
    """
    Return the answer of one row.
    """
    item, _, order = str(row.get('row', '')).partition('-')
    pair = key.kind == PAIR
    if item not in key.items or (pair and order not in ('1', '2')):
        raise UserError(f'{where}: row: {row.get("row")!r} is not in the key')
    sides = SIDES if order == '1' else SIDES[::-1]
    letters = {**dict(zip(sides, 'AB', strict=True)), **LETTERS}
    names = {letters[a] if pair else key.answer_name(a): a for a in key.answers}
    text = cell.upper().replace('\u2212', '-').removeprefix('+').removesuffix('.0')
    if text not in names:
        known = ', '.join(sorted(names))
        raise UserError(f'{where}: {column}: {cell!r}; one of {known}')
    if not pair:
        return GivenAnswer(item, '', names[text])
    flags = []
    for letter, side in zip('ab', sides, strict=True):
        mark = _cell(row, f'flag_{letter}').casefold()
        if mark not in (*MARKED, *NOT_MARKED):
            raise UserError(f'{where}: flag_{letter}: {mark!r}; x, or nothing')
        flags += [side] * (mark in MARKED)
    return GivenAnswer(item, '', names[text], sides[0], flags=tuple(sorted(flags)))


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
        answers.append(GivenAnswer(item, '', side, annotator=one.annotator))
    return answers


def answers_to_buckets(
    ratings: Sequence[HumanJudgement], key: RatingKey
) -> list[GivenAnswer]:
    """
    Return the labels that turn annotations ticked as buckets.

    :raises UserError: for an answer of no item, or a bucket that is no label.
    """
    items = {shown[0].dialogue_id: item for item, shown in key.items.items()}
    labels = {label_bucket(key, label): label for label in key.answers}
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
        answers.append(GivenAnswer(item, '', label, annotator=one.rater or ''))
    return answers
