"""
Readers of judged sets, one for each file format; each returns `JudgedItem`s.

``fed``: the authors' ``fed_data.json`` (Mehri and Eskenazi 2020), turns and dialogues.
``usr``: the authors' ``pc_usr_data.json`` and ``tc_usr_data.json`` (the same, 2020).
``grade``: the authors' ``human_judgement.json`` (Huang et al. 2020), three sets.
``dstc10``: the organisers' ``*_eval.json`` of DSTC10 Track 5, one object an item.
``dstc10_test``: their test sets, one list a column, means in place of annotations.
``own``: CSV with one annotation a row, or JSON lines with one item a line.

`interactive` reads what people said of whole dialogues, `votes` the tables of two
challenges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.data.judged import interactive, votes
from parlai_ext.data.judged.data_file import (
    Annotations,
    DataFile,
    annotation,
    is_number,
)
from parlai_ext.data.judged.judged_set import Annotation, JudgedItem
from parlai_ext.data.text_lines import is_texts, json_lines
from parlai_ext.files.csv_file import read_csv
from parlai_ext.files.human_scores import number

USER, SYSTEM = 'User: ', 'System: '
PEOPLE = ('human', 'user')  # how the names of partners begin in dialogues
PERSONA = 'your persona:'
NO_FACT = '_nofact'
ORIGINAL = 'Original Ground Truth'  # USR's name of the reference
DIALOG_KEYS = ('dialog', 'dialogue')
SYSTEM_KEYS = ('model', 'model_name', 'system')
OWN_NEEDED = ('context', 'system', 'quality', 'value')
OWN_COLUMNS = (*OWN_NEEDED, 'item', 'response', 'reference', 'fact', 'annotator')
LONGEST_FIRST_LINE = 1 << 20  # bytes by which a user's own file is recognized


def read_fed(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the turns (objects with a response) or the dialogues of ``fed_data.json``.

    Every line of a context and of a response is an utterance.
    """
    for item_number, raw in _objects(file):
        keys = ('context', 'response') if 'response' in raw else ('context',)
        texts = [_text(file, item_number, raw, key) for key in keys]
        annotations = _annotations(file, item_number, raw.get('annotations'))
        turn = file.level == 'turn'
        if turn != (len(keys) == 2):
            continue
        system, name = str(raw.get('system')), ''
        speakers, utterances = [], []
        for line in (line for text in texts for line in text.split('\n')):
            if line.startswith((USER, SYSTEM)):  # one without goes on with the turn
                name = system if line.startswith(SYSTEM) else USER.strip(': ')
            speakers.append(name)
            utterances.append(_without_speaker(line))
        yield JudgedItem(
            str(item_number),
            tuple(utterances[:-1] if turn else utterances),
            utterances[-1] if turn else None,
            system,
            annotations,
            speakers=() if turn else tuple(speakers),
        )


def read_usr(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of USR's own files: a list of contexts, each with the responses.

    The reference is the response of the original dialogue, as in the organisers' copy.
    """
    for context_number, raw in _objects(file):
        responses = raw.get('responses')
        if not isinstance(responses, list) or not all(
            isinstance(response, dict) for response in responses
        ):
            problem = 'key responses: a list of objects is expected'
            raise file.error(context_number, problem)
        original = [
            _text(file, context_number, response, 'response')
            for response in responses
            if response.get('model') == ORIGINAL
        ]
        for place, response in enumerate(responses):
            answers = {q: a for q, a in response.items() if isinstance(a, list)}
            item = {**response, 'context': raw.get('context'), 'fact': raw.get('fact')}
            item |= {'reference': original, 'annotations': answers}
            item['item'] = f'{context_number}-{place + 1}'
            yield _item(file, context_number, item)


def read_grade(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of one of the three sets in GRADE's own file.

    Its scores are a text that holds a list.
    """
    for item_number, raw in _objects(file):
        if raw.get('Dataset') not in (file.part, f'{file.part}_EVAL'):
            continue
        try:
            scores = parse_json(_text(file, item_number, raw, 'HumanScores'))
        except ValueError:
            raise file.error(item_number, 'key HumanScores: no list') from None
        item = {
            'item': str(raw.get('ID', item_number)),
            'context': _text(file, item_number, raw, 'Context').split('|||'),
            'response': raw.get('Response'),
            'model': raw.get('DialogModel'),
            'annotations': {'relevance': scores},
        }
        yield _item(file, item_number, item)


def read_dstc10(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of an ``*_eval.json`` of DSTC10's organisers: a list of objects.
    """
    for item_number, raw in _objects(file):
        yield _item(file, item_number, raw)


def read_dstc10_test(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of a test set of DSTC10's organisers, whose columns are lists.

    Only the qualities of the card are read; others have added columns of their own.
    """
    data = file.read_json(dict)
    names = ('contexts', 'responses', 'reference', 'models', 'scores')
    columns = [data.get(name) for name in names]
    if not all(isinstance(column, list) for column in columns):
        raise UserError(f'{file}: lists {", ".join(names)} are expected')
    for item_number, row in enumerate(zip(*columns, strict=True), 1):
        context, response, references, model, scores = row
        if not isinstance(scores, dict):
            raise file.error(item_number, 'key scores: an object is expected')
        means = {q: [number(str(scores[q]))] for q in file.columns if q in scores}
        raw = {'context': context, 'response': response, 'reference': references}
        yield _item(file, item_number, {**raw, 'model': model, 'annotations': means})


def read_own(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of a user's own set: CSV, or JSON lines with the keys of ``dstc10``.
    """
    if file.path.endswith('.csv'):
        yield from _own_rows(file)
        return
    for line_number, raw in json_lines(Path(file.path)):
        yield _item(file, line_number, raw)


def is_own_file(path: Path) -> bool:
    """
    True if the first line of a file is that of a user's own set: a header with the
    needed columns, or an object with annotations. Its other lines may be wrong.
    """
    with path.open('rb') as file:
        line = file.readline(LONGEST_FIRST_LINE).decode('utf-8-sig', 'replace').strip()
    if path.suffix == '.csv':
        return set(OWN_NEEDED) <= {cell.strip().strip('"') for cell in line.split(',')}
    try:
        first = parse_json(line)
    except ValueError:
        return False
    return isinstance(first, dict) and 'annotations' in first


def _own_rows(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of a CSV file; rows of one item need not stand together.
    """
    firsts: dict[tuple[str, ...], dict[str, str]] = {}
    annotations: dict[tuple[str, ...], dict[str, list[Annotation]]] = {}
    rows = read_csv(file.path, OWN_NEEDED, OWN_COLUMNS, called='judged set ')
    for line, row in rows:
        for column in ('context', 'quality'):
            if not row[column]:
                raise UserError(f'{file}:{line}: column {column}: is empty')
        keys = ('item', 'context', 'response', 'system')
        key = tuple(row.get(name, '') for name in keys)
        firsts.setdefault(key, row)
        quality = file.columns.get(row['quality'], row['quality'])
        given = annotations.setdefault(key, {}).setdefault(quality, [])
        annotator = row.get('annotator') or str(len(given))
        given.append(Annotation(annotator, number(row['value'])))
    for item_number, (key, row) in enumerate(firsts.items(), 1):
        raw: dict[str, Any] = {**row, 'reference': row.get('reference', '').split('\n')}
        raw['response'] = row.get('response') or None
        own = {quality: tuple(given) for quality, given in annotations[key].items()}
        item = _item(file, item_number, {**raw, 'annotations': {}})
        yield replace(item, annotations=own)


def _objects(file: DataFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    Yield the number and the object of each item of a JSON list.
    """
    for item_number, raw in enumerate(file.read_json(list), 1):
        if not isinstance(raw, dict):
            raise file.error(item_number, f'an object is expected, not {raw!r:.40}')
        yield item_number, raw


def _item(
    file: DataFile,
    item_number: int,
    raw: Any,
) -> JudgedItem:
    """
    Return the item of one object; the organisers' sets differ a little in their keys.
    """
    system = str(next((raw[key] for key in SYSTEM_KEYS if raw.get(key)), ''))
    dialog = next(
        (raw[key] for key in DIALOG_KEYS if isinstance(raw.get(key), list)), ()
    )
    context = tuple(_text(file, item_number, turn, 'text').strip() for turn in dialog)
    names = [str(turn.get('speaker') or '') for turn in dialog]
    people = [name.lower().startswith(PEOPLE) for name in names]
    if not dialog:
        context = _lines(file, item_number, raw, 'context')
    response = None
    if file.level == 'turn':
        response = _without_speaker(_text(file, item_number, raw, 'response').strip())
    facts = _lines(file, item_number, raw, 'fact')
    persona = tuple(
        line.removeprefix(PERSONA).strip() for line in facts if line.startswith(PERSONA)
    )
    plain_facts = [line for line in facts if not line.startswith((PERSONA, NO_FACT))]
    return JudgedItem(
        str(raw.get('item') or raw.get('dialogue_id') or item_number),
        context,
        response,
        system,
        _annotations(file, item_number, raw.get('annotations')),
        _lines(file, item_number, raw, 'reference'),
        '\n'.join(plain_facts) or None,
        persona,
        tuple(n if p else system for n, p in zip(names, people, strict=True)),
    )


def _annotations(file: DataFile, item_number: int, raw: Any) -> Annotations:
    """
    Return the annotations of an object: by quality a list of answers, or a mean.
    """
    if not isinstance(raw, dict):
        expected = 'qualities with lists are expected'
        raise file.error(item_number, f'key annotations: {expected}')
    annotations = {}
    for name, answers in raw.items():
        if is_number(answers):
            answers = [answers]
        if not isinstance(answers, list):
            raise file.error(
                item_number, f'key annotations: {name}: a list is expected'
            )
        annotations[file.columns.get(name, name)] = tuple(
            annotation(i, answer) for i, answer in enumerate(answers)
        )
    return annotations


def _text(file: DataFile, item_number: int, raw: Any, key: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    if not isinstance(value, str):
        raise file.error(item_number, f'key {key}: a text is expected')
    return value


def _lines(
    file: DataFile, item_number: int, raw: Mapping[str, Any], key: str
) -> tuple[str, ...]:
    """
    Return the lines of a text or of a list of texts, without empty ones.
    """
    value = raw.get(key) or ''
    texts = value if isinstance(value, list) else [value]
    if not is_texts(texts):
        raise file.error(
            item_number, f'key {key}: a text or a list of texts is expected'
        )
    lines = (line.strip() for text in texts for line in text.split('\n'))
    return tuple(_without_speaker(line).strip() for line in lines if line)


def _without_speaker(line: str) -> str:
    """
    Return a line without the ``User:`` or ``System:`` before the utterance.
    """
    return line.removeprefix(USER).removeprefix(SYSTEM)


READERS: Mapping[str, Callable[[DataFile], Iterator[JudgedItem]]] = {
    'fed': read_fed,
    'dstc10': read_dstc10,
    'dstc10_test': read_dstc10_test,
    'usr': read_usr,
    'grade': read_grade,
    'own': read_own,
    'dstc9': interactive.read_dstc9,
    'spot_the_bot': interactive.read_spot_the_bot,
    'chitchat': interactive.read_chitchat,
    'dstc7': votes.read_dstc7,
    'dbdc3': votes.read_dbdc3,
    'wochat': votes.read_wochat,
}
