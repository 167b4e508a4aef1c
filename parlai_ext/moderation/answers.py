"""
Recorded answers of systems to the same prompts, read from files.

    *.csv      columns system, prompt, answer; others are left alone
    *.jsonl    objects with the same keys, one a line
    *.json     of DiaSafety: generations/*.json, ten answers of one system to each
               context; or train.json, val.json, test.json, whose responses to toxic
               contexts become two systems, NAME_safe and NAME_unsafe

``NAME=FILE`` names the system of a file that does not; without it the file's own name
counts. A system may answer a prompt several times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import content_id
from parlai_ext.data.corpora import json_lines
from parlai_ext.data.toxic_pairs import AGREEMENT, ToxicData, diasafety
from parlai_ext.files.csv_file import read_csv
from parlai_ext.files.json_file import read_json

SAFE, UNSAFE = '_safe', '_unsafe'  # end the names of DiaSafety's labelled responses
GENERATED = 'gen_response'


@dataclass(frozen=True)
class SystemAnswer:
    """
    One answer of a system to a prompt; blanks and line breaks are one blank.
    """

    system: str
    prompt: str
    answer: str

    @property
    def id(self) -> str:
        """
        An id that says nothing about the system to who reads it.
        """
        return content_id('answer', self.system, self.prompt, self.answer)

    @property
    def prompt_id(self) -> str:
        """
        The same for all answers to prompts with the same text.
        """
        return content_id('prompt', self.prompt)


def read_answers(specs: Sequence[str]) -> list[SystemAnswer]:
    """
    Return the answers in all files, in their order; an empty answer is an answer.

    :param specs: ``FILE`` or ``NAME=FILE``.
    :raises UserError: names the file, and the line or object that is wrong.
    """
    answers: list[SystemAnswer] = []
    for spec in specs:
        name, equals, rest = spec.partition('=')
        named = bool(equals) and not Path(spec).expanduser().exists()
        path = Path(rest if named else spec).expanduser()
        if path.suffix not in READERS:
            raise UserError(
                f'--answers {spec}: a file {", ".join(READERS)} is expected'
            )
        size = len(answers)
        answers += READERS[path.suffix](path, name if named else None)
        if len(answers) == size:
            raise UserError(f'--answers {spec}: there is no answer in it')
    return answers


def systems_of(answers: Sequence[SystemAnswer]) -> tuple[str, ...]:
    """
    Return the names of the systems in the order of their first answers.
    """
    return tuple(dict.fromkeys(answer.system for answer in answers))


def check_system(flag: str, name: str, systems: Sequence[str]) -> None:
    """
    Refuse the name of a system that has no answers.
    """
    if name not in systems:
        raise UserError(f'{flag} {name}: has no answers; {nearest(name, systems)}')


def _csv_answers(path: Path, name: str | None) -> Iterator[SystemAnswer]:
    for line, row in read_csv(path, ('prompt', 'answer')):
        yield _answer(f'{path}:{line}', row, name)


def _jsonl_answers(path: Path, name: str | None) -> Iterator[SystemAnswer]:
    for line, row in json_lines(path):
        yield _answer(f'{path}:{line}', row, name)


def _answer(where: str, row: Mapping[str, Any], name: str | None) -> SystemAnswer:
    """
    Return the answer of one row, the name of its system checked.
    """
    for key in ('prompt', 'answer'):
        if not isinstance(row.get(key), str):
            raise UserError(f'{where}: {key}: a text is expected')
    if name and row.get('system') not in (None, name):
        raise UserError(
            f'{where}: system: {row["system"]!r} is not {name!r}; FILE without '
            f'{name}= reads all systems in it'
        )
    system = name or row.get('system')
    if not isinstance(system, str) or not system.strip():
        raise UserError(f'{where}: system: a name is expected; or say NAME=FILE')
    prompt = _one_line(row['prompt'])
    if not prompt:
        raise UserError(f'{where}: prompt: is empty')
    return SystemAnswer(system.strip(), prompt, _one_line(row['answer']))


def _diasafety_answers(path: Path, name: str | None) -> Iterator[SystemAnswer]:
    rows = read_json(path, list)
    name = name or path.stem
    if not rows or not isinstance(rows[0], dict) or GENERATED not in rows[0]:
        yield from _labelled_answers(path, name)
        return
    for place, row in enumerate(rows, 1):
        texts = row.get(GENERATED) if isinstance(row, dict) else None
        if not isinstance(texts, list) or not isinstance(row.get('context'), str):
            raise UserError(
                f'{path}: object {place}: a text context and a list {GENERATED} '
                'are expected'
            )
        for text in texts:
            where = f'{path}: object {place}'
            yield _answer(where, {'prompt': row['context'], 'answer': text}, name)


def _labelled_answers(path: Path, name: str) -> Iterator[SystemAnswer]:
    """
    Yield the responses to toxic contexts, those called safe and unsafe as two systems.
    """
    for pair, _ in diasafety(path, ToxicData()):
        if pair.answer and pair.features['category'] == AGREEMENT:
            ending = SAFE if pair.features['label'] == 'Safe' else UNSAFE
            yield SystemAnswer(name + ending, pair.prompt, pair.answer)


def _one_line(text: str) -> str:
    return ' '.join(text.split())


READERS: Mapping[str, Callable[[Path, str | None], Iterator[SystemAnswer]]] = {
    '.csv': _csv_answers,
    '.jsonl': _jsonl_answers,
    '.json': _diasafety_answers,
}
