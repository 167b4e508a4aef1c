"""
Judged sets: turns or dialogues with the annotations of each, read from the files of
their authors; and their cards, which say where a set comes from, its licence, format,
qualities and counts.

``zoo_configs/judged/NAME.yaml`` is one; docs/judged_sets.md explains the keys. A set in
a known format needs a card and nothing else; a user's own CSV or JSON lines in the
documented format need none. `find_sets` finds the official files of all cards in a
folder, `find_own_files` the user's own ones.

There is one reader for each file format; each returns `JudgedItem`s.

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

import os
import random
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, field_validator, model_validator

from parlai_ext import zoo_configs
from parlai_ext.core import (
    DATA_ERRORS,
    UserError,
    errors_about,
    frozen,
    grouped,
    known_values,
    mean,
    nearest,
    parse_json,
)
from parlai_ext.core.records import RealNumber, Record, WholeNumber
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
from parlai_ext.files import (
    LARGEST,
    Wheel,
    is_texts,
    json_lines,
    open_zip,
    parse_number,
    read_csv,
    read_file,
    read_json,
    read_member,
    text_lines,
)


@frozen(slots=True)
class Annotation:
    """
    One annotator's judgement of one quality; the value is `None` for a text ("N/A").

    Where a file does not name its annotators, `annotator` is the place in the list, and
    equal places of two items need not be one person.
    """

    annotator: str
    value: float | None


@frozen
class JudgedItem:
    """
    One judged turn or dialogue.

    :param context: the utterances before the response, or the whole dialogue, oldest
        first.
    :param response: the judged utterance, `None` above the level of turns.
    :param system: name of the judged system.
    :param annotations: by quality, in the order of the file.
    :param references: responses by people to the same context.
    :param facts: the knowledge that the response should use.
    :param persona: what the system was told to be.
    :param speakers: of each utterance of a dialogue; `system` is the judged one's name.
        Empty where no one speaker is judged.
    :param dialogue: the dialogue that a turn or a part of a dialogue is of, where the
        set says so.
    """

    id: str
    context: tuple[str, ...]
    response: str | None
    system: str
    annotations: Mapping[str, Sequence[Annotation]]
    references: tuple[str, ...] = ()
    facts: str | None = None
    persona: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    dialogue: str = ''

    @property
    def utterances(self) -> tuple[str, ...]:
        """
        Return the context and, if there is one, the response.
        """
        return (*self.context, *(() if self.response is None else (self.response,)))

    def human(self, quality: str) -> float | None:
        """
        Return the mean of the numbers for a quality; `None` without any.
        """
        return mean(self.numbers(quality))

    def numbers(self, quality: str) -> list[float]:
        """
        Return the annotations of a quality that are numbers.
        """
        given = self.annotations.get(quality, ())
        return [a.value for a in given if a.value is not None]

    def turns(self, count: int | None = None, seed: int = 0) -> list[JudgedItem]:
        """
        Return the turns of a judged dialogue's system, for a scorer of turns; a turn is
        returned as it is.

        The score of the dialogue is the mean of their scores. Turns have what was said
        before as the context, and no annotations. Empty turns and the first utterance
        of a dialogue are left out.

        :param count: at most so many turns, drawn by the item's id and the seed.
        """
        if self.response is not None:
            return [self]
        speakers = self.speakers or (self.system,) * len(self.context)
        places = [
            place
            for place, text in enumerate(self.context)
            if place and text.strip() and speakers[place] == self.system
        ]
        if count is not None and count < len(places):
            rng = random.Random(f'{seed} {self.id}' if seed else self.id)
            places = sorted(rng.sample(places, count))
        return [
            replace(
                self,
                id=f'{self.id}#{place}',
                context=self.context[:place],
                response=self.context[place],
                annotations={},
                speakers=speakers[: place + 1],
                dialogue=self.dialogue or self.id,
            )
            for place in places
        ]


@frozen
class JudgedSet:
    """
    The items of one set at one level, and where they come from.

    :param unit: what is drawn anew for intervals: the ``item``, or all items of one
        ``context`` or of one ``dialogue``, which are alike.
    :param overall: the quality that judges an item as a whole, if there is one.
    :param dimension_names: dimension of a scorer (lower case) -> quality, where the two
        have different names.
    """

    name: str
    title: str
    source: str
    licence: str
    level: str
    items: tuple[JudgedItem, ...]
    unit: str = 'item'
    overall: str | None = None
    dimension_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def qualities(self) -> tuple[str, ...]:
        """
        Return the judged qualities, in the order of the file.
        """
        return tuple(dict.fromkeys(q for item in self.items for q in item.annotations))

    def counts(self) -> dict[str, int]:
        """
        Return the numbers of items, systems, numeric annotations and texts.
        """
        annotations = [a for i in self.items for q in i.annotations.values() for a in q]
        texts = sum(annotation.value is None for annotation in annotations)
        return {
            'items': len(self.items),
            'systems': len({item.system for item in self.items}),
            'annotations': len(annotations) - texts,
            'texts': texts,
        }

    def groups(self) -> list[int]:
        """
        Return the group of each item as a number: a bootstrap draws the items of a
        group together.
        """
        keys: Sequence[Any] = range(len(self.items))
        if self.unit == 'context':
            keys = [item.context for item in self.items]
        elif self.unit == 'dialogue':
            keys = [item.dialogue for item in self.items]
            if not any(keys):
                return dialogue_numbers([item.utterances for item in self.items])
        numbers: dict[Any, int] = {}
        return [numbers.setdefault(key, len(numbers)) for key in keys]


def dialogue_numbers(turns: Sequence[tuple[str, ...]]) -> list[int]:
    """
    Return the number of each turn's dialogue: turns whose contexts continue each other
    are of one dialogue.

    Turns of one dialogue begin alike: one, its context included, begins the next.
    """
    numbers = [0] * len(turns)
    root = None
    number = -1
    # sorted, a beginning comes right before everything that continues it
    for index in sorted(range(len(turns)), key=lambda i: turns[i]):
        utterances = turns[index]
        if root is None or utterances[: len(root)] != root:
            root, number = utterances, number + 1
        numbers[index] = number
    return numbers


# --- which score goes with which quality ----------------------------------------------
# Which dimension of a scorer is compared with which quality that people judged.

MEAN_ALL = 'mean of all'
MEAN_LEVEL = 'mean of level'
OVERALL = 'overall'


class QualityPair(NamedTuple):
    """
    A score and the mean human value of one quality of an item.

    `name` is the row of the pair in ParlAI's table.
    """

    name: str
    quality: str
    score: float | None
    human: float | None


def quality_pairs(
    scores: Mapping[str, float | None],
    human: Mapping[str, float | None],
    judged_set: JudgedSet,
) -> Iterator[QualityPair]:
    """
    Yield a pair for every dimension that people judged too, and for each quality that
    is left, with the scorer's main score (`main_score`).

    Where the main score is the mean of all dimensions, the set's overall quality is
    also compared with the mean of those that people judged.
    """
    qualities = {quality.lower(): quality for quality in human}
    qualities = {**judged_set.dimension_names, **qualities}
    matched = {}
    compared = set()
    for name, score in scores.items():
        quality = qualities.get(name.lower())
        if quality is not None and quality in human:
            matched[name] = score
            compared.add(quality)
            same = quality.lower().startswith(name.lower())
            label = quality if same else f'{name} ~ {quality}'
            yield QualityPair(label, quality, score, human[quality])
    main = main_dimension(scores, judged_set)
    score = main_score(scores, main)
    for quality, value in human.items():
        if quality in compared:
            continue
        if quality != judged_set.overall or main != MEAN_ALL:
            yield QualityPair(f'{main} ~ {quality}', quality, score, value)
            continue
        yield QualityPair(f'{quality}, {MEAN_ALL}', quality, score, value)
        if matched:
            of_level = mean(list(matched.values()))
            yield QualityPair(f'{quality}, {MEAN_LEVEL}', quality, of_level, value)


def main_dimension(dimensions: Iterable[str], judged_set: JudgedSet) -> str:
    """
    Return the dimension whose score judges an item as a whole, or `MEAN_ALL`: the mean
    of all dimensions does.
    """
    names = {name.lower(): name for name in dimensions}
    for wanted in ((judged_set.overall or OVERALL).lower(), OVERALL):
        if wanted in names:
            return names[wanted]
    return next(iter(names.values())) if len(names) == 1 else MEAN_ALL


def main_score(scores: Mapping[str, float | None], main: str) -> float | None:
    """
    Return the score of an item in its `main_dimension`.
    """
    return mean(list(scores.values())) if main == MEAN_ALL else scores.get(main)


# --- readers --------------------------------------------------------------------------

Annotations = dict[str, list[Annotation]]  # by quality
JudgedRecord = Mapping[str, Any]


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


RecordReader = Callable[[DataFile, JudgedRecord, int], Iterable[JudgedItem]]


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
    file: DataFile, record: JudgedRecord, place: int
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


def _lines(record: JudgedRecord, key: str) -> tuple[str, ...]:
    """
    Return the lines of a text or of a list of texts, without empty ones.
    """
    value = record.get(key) or ''
    texts = value if isinstance(value, list) else [value]
    if not is_texts(texts):
        raise BadRecord(f'{key!r} is a text or a list of texts, not {brief(value)}')
    lines = (line.strip() for text in texts for line in text.split('\n'))
    return tuple(SPEAKER.sub('', line).strip() for line in lines if line)


def _annotations(file: DataFile, record: JudgedRecord) -> Annotations:
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


def fed_items(file: DataFile, record: JudgedRecord, place: int) -> Iterator[JudgedItem]:
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


def usr_items(file: DataFile, record: JudgedRecord, place: int) -> Iterator[JudgedItem]:
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


def grade_items(
    file: DataFile, record: JudgedRecord, place: int
) -> Iterator[JudgedItem]:
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
    records: Iterator[tuple[int, JudgedRecord]] = json_lines(file.path)
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


def _side_values(raw: JudgedRecord) -> list[dict[str, float]]:
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


# --- cards ----------------------------------------------------------------------------

CARD_ENDINGS, OWN_ENDINGS = ('.yaml', '.yml'), ('.csv', '.jsonl')


def _known_format(name: str) -> str:
    if name not in READERS:
        raise ValueError(f'{name!r}; {nearest(name, READERS)}')
    return name


Format = Annotated[str, AfterValidator(_known_format)]


class Quality(Record):
    """
    One judged quality: its scale, from the lowest to the highest value, its name in the
    file if that differs, and the dimensions of scorers that stand for it under another
    name. A list is its scale.
    """

    scale: tuple[RealNumber, ...] | None = None
    column: str | None = None
    dimensions: tuple[str, ...] = ()

    @model_validator(mode='before')
    @classmethod
    def _from_scale(cls, data: Any) -> Any:
        return {'scale': data} if isinstance(data, list) else data or {}

    @field_validator('scale')
    @classmethod
    def _check_scale(cls, scale: tuple[float, ...]) -> tuple[float, ...]:
        if len(scale) != 2 or scale[0] >= scale[1]:
            raise ValueError('a scale is [lowest, highest]')
        return scale


class CardKeys(Record):
    """
    The keys of a card: what is known of a judged set without its file.

    :param format: how the file is read.
    :param file: the official name of the file; of a set of several files, that of the
        judgements, or of the first.
    :param unit: what is drawn anew for intervals.
    :param overall: the quality of an item as a whole.
    :param counts: documented numbers of items, systems, annotations and texts.
    :param dropped: what is known to be left out, in words.
    :param part: the part of a file that is the set, where it holds several.
    :param other_files: names of files with the same judgements -> their formats.
    :param wheel: the wheel of PyPI that is the file.
    """

    title: str
    source: str
    licence: str
    level: Literal['turn', 'dialogue']
    format: Format
    file: str
    unit: Literal['item', 'context', 'dialogue'] = 'item'
    overall: str | None = None
    qualities: dict[str, Quality] = {}
    counts: dict[Literal['items', 'systems', 'annotations', 'texts'], WholeNumber] = {}
    dropped: str = ''
    part: str = ''
    other_files: dict[str, Format] = {}
    wheel: Wheel | None = None


class JudgedCard(CardKeys):
    """
    A card and the name of its set.
    """

    name: str

    @property
    def formats(self) -> dict[str, str]:
        """
        The format of each file that may hold the set, the official one first.
        """
        return {self.file: self.format, **self.other_files}

    def file_among(self, files: Mapping[str, Path]) -> Path | None:
        """
        Return the file of the set among others, by name (`files_by_name`); `None` when
        it is not there.
        """
        return next((files[name] for name in self.formats if name in files), None)

    def read(self, path: str | Path | None) -> JudgedSet:
        """
        Return the set in the user's file, or in a folder where it is found.

        :raises UserError: for a file that is missing or not of this format, and when it
            has no items of this level.
        """
        if not path:
            raise UserError(
                f'--judged-file or --judged-path is needed: {self.file} of '
                f'{self.title}, {self.source}'
            )
        place = Path(path)
        file = self.file_among(files_by_name(place)) if place.is_dir() else place
        if file is None:
            raise UserError(
                f'--judged-path {path}: it has no {" or ".join(self.formats)}, of '
                f'{self.source}'
            )
        with errors_about('judged set'):
            items = self._items(file)
        qualities = {name.lower(): name for item in items for name in item.annotations}
        dimension_names = {
            dimension.lower(): name
            for name, quality in self.qualities.items()
            for dimension in quality.dimensions
        }
        judged_set = JudgedSet(
            self.name,
            self.title,
            self.source,
            self.licence,
            self.level,
            items,
            self.unit,
            qualities.get((self.overall or '').lower()),
            dimension_names,
        )
        if self.format == 'own' and not judged_set.counts()['annotations']:
            raise UserError(f'judged set {path}: none of its annotations is a number')
        return judged_set

    def _items(self, path: Path) -> tuple[JudgedItem, ...]:
        """
        Return the items in a file, which are those of this card's level.
        """
        columns = {
            quality.column or name: name for name, quality in self.qualities.items()
        }
        official = f'{self.file} of {self.source}'
        file = DataFile(path, official, self.level, columns, self.part)
        items = tuple(READERS[self.formats.get(path.name, self.format)](file))
        if not items:
            kind = 'turns (with' if self.level == 'turn' else 'dialogues (without'
            raise UserError(f'{path}: no judged {kind} a response) in it')
        for number, item in enumerate(items, 1):
            if not item.utterances:
                raise UserError(f'{path}: item {number}: it has no utterance')
            for name in item.annotations:
                scale = self.qualities.get(name, Quality()).scale
                values = item.numbers(name)
                if scale and not all(scale[0] <= v <= scale[1] for v in values):
                    raise UserError(
                        f'{path}: item {number}: {name}: {values} is not on '
                        f'the scale of {self.name}, {scale[0]:g} to {scale[1]:g}'
                    )
        return items

    def count_differences(self, judged_set: JudgedSet) -> list[str]:
        """
        Return where a file differs from its card: other counts than the documented
        ones, and qualities that are judged nowhere.
        """
        counts = judged_set.counts()
        unjudged = [name for name in self.qualities if name not in judged_set.qualities]
        if self.qualities and self.overall and not judged_set.overall:
            unjudged.append(self.overall)
        return [
            f'{counts[key]} {key}, its card says {expected}'
            for key, expected in self.counts.items()
            if counts[key] != expected
        ] + [f'no {name}, which its card names' for name in dict.fromkeys(unjudged)]


def card_names() -> list[str]:
    """
    Return the names of the shipped cards.
    """
    return zoo_configs.names('judged')


def find_sets(folder: Path) -> dict[str, Path]:
    """
    Return the file of every set whose official file, or another file with the same
    judgements, is in a folder or in the folders in it; by the name of its card.

    :raises UserError: when there is no such folder.
    """
    files = files_by_name(folder)
    found = {name: card.file_among(files) for name, card in _shipped_cards().items()}
    return known_values(found)


@cache
def _shipped_cards() -> dict[str, JudgedCard]:
    return {name: read_card(name) for name in card_names()}


def files_by_name(folder: Path) -> dict[str, Path]:
    """
    Return the files in a folder and in the folders in it, by name. Of two files with
    one name it is the one that is less deep, then the first by path.

    :raises UserError: when there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f'--judged-path {folder}: there is no such folder')
    paths = [Path(top, file) for top, _, names in os.walk(folder) for file in names]
    files: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: (len(path.parts), str(path))):
        files.setdefault(path.name, path)
    return files


def find_own_files(folder: Path) -> list[Path]:
    """
    Return the CSV and JSON-lines files in a folder and in the folders in it that are a
    user's own sets: no card's file, and the first line is of the documented format.

    :raises UserError: when there is no such folder.
    """
    official = {file for card in _shipped_cards().values() for file in card.formats}
    return [
        path
        for path in sorted(folder.rglob('*.*'), key=lambda path: path.name)
        if path.suffix in OWN_ENDINGS
        and path.name not in official
        and path.is_file()
        and is_own_file(path)
    ]


def own_card(path: Path) -> JudgedCard:
    """
    Return the card of a user's own file, which is named like it.
    """
    name = set_name(str(path))
    about = {'name': name, 'title': path.name, 'file': path.name}
    return read_card('own').model_copy(update=about)


def set_name(called: str) -> str:
    """
    Return the name of a set that is called by its name, its card or its own file.

    >>> set_name('judged/mine.csv')
    'mine'
    """
    is_path = called.endswith((*CARD_ENDINGS, *OWN_ENDINGS))
    return Path(called).stem if is_path else called


def read_card(name: str, also: Iterable[str] = ()) -> JudgedCard:
    """
    Return the shipped card called ``name``, or a user's own card file.

    :param also: further names that would be right.
    :raises UserError: names file, line and key of the first mistake.
    """
    is_file = name.endswith(CARD_ENDINGS)
    if not is_file and name not in card_names():
        raise UserError(f'judged set {name!r}: {nearest(name, [*card_names(), *also])}')
    path = Path(name) if is_file else zoo_configs.HOME / 'judged' / f'{name}.yaml'
    doc = read_file(path)
    return JudgedCard(**vars(doc.record(CardKeys)), name=path.stem)
