"""
Answers that systems gave to prompts before: CSV, JSON lines, DiaSafety's files.

    CSV, JSON lines   columns or keys ``system``, ``prompt`` (or ``id``, as the file of
                      prompts has it) and ``answer``; ``safety`` says what a safety
                      layer answered to in the system's place: prompt or answer
    DiaSafety         a JSON list of objects with ``context`` and ``gen_response``, a
                      list of answers; the file's name is the system's. Or the labelled
                      responses of train.json, val.json, test.json: those to toxic
                      contexts are two systems, NAME_safe and NAME_unsafe
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.data.toxic_pairs import diasafety_answers
from parlai_ext.files.csv_file import read_csv
from parlai_ext.files.json_file import json_lines
from parlai_ext.view.text import single_spaced

ENDINGS = ('.csv', '.jsonl', '.json')
# DiaSafety's labelled responses are two systems, whose names end so
UNSAFE = '_unsafe'
ENDS = {None: '', 'Safe': '_safe'}
DEFLECTED = ('prompt', 'answer')  # the values of `safety` that are deflections


@dataclass(frozen=True)
class RecordedAnswer:
    """
    An answer of a system to a prompt.

    :param prompt: its text; '' where only its id is known.
    :param text: '' for an empty answer; `None` where the system failed.
    :param deflected: what the system's safety layer answered to in its place.
    :param reason: why there is no text.
    """

    system: str
    prompt: str
    text: str | None
    deflected: str | None = None
    reason: str | None = None
    prompt_id: str | None = None


def recorded_answers(spec: str) -> list[RecordedAnswer]:
    """
    Return the answers in a file.

    :param spec: ``FILE``, or ``NAME=FILE``: the system whose answers the file has.
    :raises UserError: names the file, and the line or object that is wrong; also for a
        file without answers.
    """
    name, sign, file = spec.partition('=')
    path = Path(file if sign else spec).expanduser()
    own = name if sign else None
    if path.suffix not in ENDINGS:
        raise UserError(f'--answers {spec}: a file {", ".join(ENDINGS)} is expected')
    if path.suffix == '.json':
        answers = [
            RecordedAnswer((own or path.stem) + ENDS.get(label, UNSAFE), context, text)
            for context, text, label in diasafety_answers(path)
        ]
    else:
        lines = (
            json_lines(path) if path.suffix == '.jsonl' else read_csv(path, ['answer'])
        )
        answers = [_answer(row, own, f'{path}:{number}') for number, row in lines]
    if not answers:
        raise UserError(f'--answers {spec}: there is no answer in it')
    return answers


def _answer(row: Mapping[str, Any], own: str | None, where: str) -> RecordedAnswer:
    """
    Return the answer of a line.
    """
    keys = ('system', 'prompt', 'id', 'answer', 'safety')
    cells = {key: row.get(key) for key in keys}
    if own and cells['system'] not in (None, '', own):
        raise UserError(
            f'{where}: system: {cells["system"]!r} is not {own!r}; without {own}= all '
            'systems of the file are read'
        )
    cells['system'] = own or cells['system']
    if cells['answer'] is None:
        raise UserError(f'{where}: answer is missing; an empty one is an empty text')
    for key, value in cells.items():
        if value is not None and not isinstance(value, str):
            raise UserError(f'{where}: {key}: a text is expected')
    texts = {key: single_spaced(value or '') for key, value in cells.items()}
    if not texts['system']:
        raise UserError(f'{where}: system is needed; or NAME=FILE names it')
    if not (texts['prompt'] or texts['id']):
        raise UserError(f'{where}: prompt is needed, or the id of one')
    return RecordedAnswer(
        texts['system'],
        texts['prompt'],
        texts['answer'],
        texts['safety'] if texts['safety'] in DEFLECTED else None,
        prompt_id=texts['id'] or None,
    )
