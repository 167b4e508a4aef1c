"""
What annotators get: rating pages, and annotation sheets.

A page is an offline HTML file on which people compare or rate dialogues. It holds the
dialogues, the questions and a script, and nothing that says which system spoke. Order
and sides are drawn anew for each annotator, in the browser.

Sheets are tables that annotators fill in, one for each of them.

    sheet-1.csv …    row, prompt, answer_a, answer_b, choice, flag_a, flag_b
                     or row, prompt, answer, label; empty cells are filled in
    sheet-1.jsonl …  the same as JSON lines
    GUIDELINES.txt   what is asked, by `terminal/guidelines.txt.j2`

Every sheet has all items, in an order and with sides of its own. A row's name is that
of its item, with the place of the first answer: 1 if it is A, 2 if it is B. No sheet
names a system.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest

from parlai_ext.core.records import record_to_json
from parlai_ext.people.questionnaire import PAIR
from parlai_ext.people.rating_set import FORMAT, RatingItem, RatingKey, RatingSet, Turns
from parlai_ext.store import json_lines_text
from parlai_ext.view import spreadsheet_csv
from parlai_ext.view.page import render_page, template_text, terminal_lines

PAIR_COLUMNS = ('row', 'prompt', 'answer_a', 'answer_b', 'choice', 'flag_a', 'flag_b')
LABEL_COLUMNS = ('row', 'prompt', 'answer', 'label')
GUIDELINES = 'GUIDELINES.txt'
BYTE_ORDER_MARK = '\ufeff'  # spreadsheets take a file without it for another encoding


# ------------------------------------------------------------------------------ pages


def render_rating_page(
    key: RatingKey, page: int, items: Sequence[RatingItem], turns: Turns
) -> str:
    """
    Return one rating page as one HTML file.

    :param page: its number, from 1.
    :param turns: of every dialogue of the items.
    """
    names = ('rating_set', 'kind', 'ties', 'tie', 'unrelated', 'flag')
    data = {
        'format': FORMAT,
        'page': page,
        **{name: getattr(key, name) for name in names},
        'offensive': bool(key.offensive),
        'segments': bool(key.segments),
        'questions': record_to_json(key.questions),
        'items': [
            {
                'id': item.id,
                'dialogues': [
                    [asdict(turn) for turn in turns[dialogue][: item.num_turns]]
                    for dialogue in item.dialogues[: 1 if key.segments else None]
                ],
            }
            for item in items
        ],
    }
    return render_page(
        'rating.html.j2',
        style='rating.css',
        script=template_text('rating.js'),
        data=data,
        page=page,
        key=key,
        num_items=len(items),
    )


# ----------------------------------------------------------------------------- sheets


def sheet_files(
    annotations: RatingSet, num_sheets: int, ending: str, seed: int
) -> dict[str, str]:
    """
    Return the sheets and the guidelines by their names.

    :param ending: ``csv`` or ``jsonl``.
    """
    key = annotations.key
    (question,) = key.questions
    lines = terminal_lines(
        'guidelines',
        key=key,
        question=question,
        labels=zip(key.named_answers, question.answers, strict=True),
        ending=ending,
    )
    files = {GUIDELINES: '\n'.join([*lines, ''])}
    pair = key.kind == PAIR
    columns = PAIR_COLUMNS if pair else LABEL_COLUMNS
    for number in range(1, num_sheets + 1):
        rng = random.Random(f'{seed} {number}')
        items = list(annotations.pages[0])
        rng.shuffle(items)
        rows = []
        for item in items:
            prompt, answers = _texts(annotations, item)
            swapped = pair and rng.random() < 0.5
            shown = answers[::-1] if swapped else answers
            row = f'{item.id}-{1 + swapped}' if pair else item.id
            # the last columns are left to be filled in
            cells = zip_longest(columns, (row, prompt, *shown), fillvalue='')
            rows.append(dict(cells))
        if ending == 'csv':
            table = [list(rows[0]), *(row.values() for row in rows)]
            text = BYTE_ORDER_MARK + spreadsheet_csv(table)
        else:
            text = json_lines_text(rows)
        files[f'sheet-{number}.{ending}'] = text
    return files


def item_lines(annotations: RatingSet) -> str:
    """
    Return what each item is, with systems and texts, as JSON lines for the researcher.
    """
    records = []
    for item in annotations.pages[0]:
        prompt, answers = _texts(annotations, item)
        records.append(
            {
                'item': item.id,
                'prompt': prompt,
                'systems': [dialogue.system for dialogue in item.dialogues],
                'answers': answers,
            }
        )
    return json_lines_text(records)


def _texts(annotations: RatingSet, item: RatingItem) -> tuple[str, list[str]]:
    """
    Return the prompt of an item, and its answers.
    """
    shown = [annotations.turns[dialogue] for dialogue in item.dialogues]
    return shown[0][0].text, [answer.text for _, answer in shown]
