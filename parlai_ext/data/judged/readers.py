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

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from parlai_ext.files.csv_file import read_csv
from parlai_ext.files.human_scores import number
from parlai_ext.files.json_file import is_texts, json_lines

USER, SYSTEM = 'User: ', 'System: '
SPEAKER = re.compile(f'^(?:{USER}|{SYSTEM})')
PEOPLE = ('human', 'user')  # how the names of partners begin in dialogues
PERSONA = 'your persona:'
NO_FACT = '_nofact'
ORIGINAL = 'Original Ground Truth'  # USR's name of the reference
DIALOG_KEYS = ('dialog', 'dialogue')
SYSTEM_KEYS = ('model', 'model_name', 'system')
OWN_NEEDED = ('context', 'system', 'quality', 'value')
OWN_COLUMNS = (*OWN_NEEDED, 'item', 'response', 'reference', 'fact', 'annotator')
LONGEST_FIRST_LINE = 1 << 20  # bytes by which a user's own file is recognized


@dataclass(frozen=True)
class RawItem:
    """
    One object of a file, and its number (from 1).
    """

    file: DataFile
    number: int
    data: Any

    def error(self, problem: str) -> UserError:
        """
        Return the error that names the file and the object.
        """
        return self.file.error(self.number, problem)

    def text(self, key: str, of: Any = None) -> str:
        """
        Return the text under a key, of the object itself or of one in it.
        """
        data = self.data if of is None else of
        value = data.get(key) if isinstance(data, dict) else None
        if not isinstance(value, str):
            raise self.error(f'key {key}: a text is expected')
        return value

    def lines(self, key: str) -> tuple[str, ...]:
        """
        Return the lines of a text or of a list of texts, without empty ones.
        """
        value = self.data.get(key) or ''
        texts = value if isinstance(value, list) else [value]
        if not is_texts(texts):
            raise self.error(f'key {key}: a text or a list of texts is expected')
        lines = (line.strip() for text in texts for line in text.split('\n'))
        return tuple(SPEAKER.sub('', line).strip() for line in lines if line)

    def annotations(self) -> Annotations:
        """
        Return the annotations: by quality a list of answers, or a mean.
        """
        raw = self.data.get('annotations')
        if not isinstance(raw, dict):
            raise self.error('key annotations: qualities with lists are expected')
        annotations = {}
        for name, answers in raw.items():
            if is_number(answers):
                answers = [answers]
            if not isinstance(answers, list):
                raise self.error(f'key annotations: {name}: a list is expected')
            annotations[self.file.columns.get(name, name)] = tuple(
                annotation(i, answer) for i, answer in enumerate(answers)
            )
        return annotations

    def judged(self, **data: Any) -> JudgedItem:
        """
        Return the judged item of the object, or of other data in its place; the
        organisers' sets differ a little in their keys.
        """
        raw = replace(self, data=data or self.data)
        system = next((raw.data[key] for key in SYSTEM_KEYS if raw.data.get(key)), '')
        dialogs = (raw.data.get(key) for key in DIALOG_KEYS)
        dialog = next((one for one in dialogs if isinstance(one, list)), [])
        context = tuple(raw.text('text', turn).strip() for turn in dialog)
        names = [str(turn.get('speaker') or '') for turn in dialog]
        people = [name.lower().startswith(PEOPLE) for name in names]
        response = None
        if self.file.level == 'turn':
            response = SPEAKER.sub('', raw.text('response').strip())
        facts = raw.lines('fact')
        persona = (line for line in facts if line.startswith(PERSONA))
        plain_facts = [one for one in facts if not one.startswith((PERSONA, NO_FACT))]
        return JudgedItem(
            str(raw.data.get('item') or raw.data.get('dialogue_id') or self.number),
            context if dialog else raw.lines('context'),
            response,
            str(system),
            raw.annotations(),
            raw.lines('reference'),
            '\n'.join(plain_facts) or None,
            tuple(line.removeprefix(PERSONA).strip() for line in persona),
            tuple(n if p else str(system) for n, p in zip(names, people, strict=True)),
        )


def raw_items(file: DataFile) -> Iterator[RawItem]:
    """
    Yield the objects of a JSON list.
    """
    for place, data in enumerate(file.read_json(list), 1):
        if not isinstance(data, dict):
            raise file.error(place, f'an object is expected, not {data!r:.40}')
        yield RawItem(file, place, data)


def read_fed(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the turns (objects with a response) or the dialogues of ``fed_data.json``.

    Every line of a context and of a response is an utterance.
    """
    for raw in raw_items(file):
        keys = ('context', 'response') if 'response' in raw.data else ('context',)
        lines = [line for key in keys for line in raw.text(key).split('\n')]
        annotations, turn = raw.annotations(), file.level == 'turn'
        if turn != (len(keys) == 2):
            continue
        system, name = str(raw.data.get('system')), ''
        speakers = []
        for line in lines:
            if line.startswith((USER, SYSTEM)):  # one without goes on with the turn
                name = system if line.startswith(SYSTEM) else USER.strip(': ')
            speakers.append(name)
        utterances = tuple(SPEAKER.sub('', line) for line in lines)
        yield JudgedItem(
            str(raw.number),
            utterances[:-1] if turn else utterances,
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
    for raw in raw_items(file):
        responses = raw.data.get('responses')
        if not isinstance(responses, list) or not all(
            isinstance(response, dict) for response in responses
        ):
            raise raw.error('key responses: a list of objects is expected')
        original = [
            raw.text('response', one)
            for one in responses
            if one.get('model') == ORIGINAL
        ]
        for place, response in enumerate(responses, 1):
            item = {**response, 'context': raw.data.get('context')}
            item |= {'fact': raw.data.get('fact'), 'reference': original}
            item['annotations'] = {
                q: answers
                for q, answers in response.items()
                if isinstance(answers, list)
            }
            yield raw.judged(**{**item, 'item': f'{raw.number}-{place}'})


def read_grade(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of one of the three sets in GRADE's own file.

    Its scores are a text that holds a list.
    """
    for raw in raw_items(file):
        if raw.data.get('Dataset') not in (file.part, f'{file.part}_EVAL'):
            continue
        try:
            scores = parse_json(raw.text('HumanScores'))
        except ValueError:
            raise raw.error('key HumanScores: no list') from None
        yield raw.judged(
            item=str(raw.data.get('ID', raw.number)),
            context=raw.text('Context').split('|||'),
            response=raw.data.get('Response'),
            model=raw.data.get('DialogModel'),
            annotations={'relevance': scores},
        )


def read_dstc10(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of an ``*_eval.json`` of DSTC10's organisers: a list of objects.
    """
    return (raw.judged() for raw in raw_items(file))


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
        yield RawItem(file, item_number, None).judged(
            context=context,
            response=response,
            reference=references,
            model=model,
            annotations=means,
        )


def read_own(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of a user's own set: CSV, or JSON lines with the keys of ``dstc10``.
    """
    if not file.path.endswith('.csv'):
        for line_number, raw in json_lines(Path(file.path)):
            yield RawItem(file, line_number, raw).judged()
        return
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
        item = RawItem(file, item_number, None)
        cells = {**row, 'response': row.get('response') or None}
        own = {quality: tuple(given) for quality, given in annotations[key].items()}
        yield replace(item.judged(**{**cells, 'annotations': {}}), annotations=own)


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
