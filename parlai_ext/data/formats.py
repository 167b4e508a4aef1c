"""
Finds the files of dialogues and tells their format.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from glob import glob, has_magic
from itertools import islice
from pathlib import Path

from parlai_ext.core import UserError, nearest
from parlai_ext.data.chat_logs import FORMATS
from parlai_ext.data.corpora import END, Turns, archived_texts, marked_utterances
from parlai_ext.data.source_file import (
    ZIPPED_LOG,
    BadRecord,
    SourceFile,
    brief,
    numbered_records,
)
from parlai_ext.view import single_spaced

JSON_KEY = re.compile(r'"(\w+)": ?')
SUFFIXES = ('.csv', '.json', '.jsonl', '.log', '.txt', ZIPPED_LOG)


def find_files(given: Sequence[str]) -> list[Path]:
    """
    Return the files that paths, folders and patterns name, each once, by name.

    :raises UserError: for a path without any.
    """
    paths = list(dict.fromkeys(path for pattern in given for path in _files(pattern)))
    resolved: dict[Path, Path] = {}
    for path in paths:
        other = resolved.setdefault(path.resolve(), path)
        if other != path:
            raise UserError(f'{other} and {path} are one file; name it once')
    return sorted(paths, key=lambda path: (path.name, str(path)))


def _files(given: str) -> list[Path]:
    """
    Return the files that one path, folder or glob pattern names.
    """
    path = Path(given)
    if path.is_dir():
        inside = [entry for entry in path.iterdir() if not entry.name.startswith('.')]
        if paths := [p for p in inside if p.is_file() and p.suffix in SUFFIXES]:
            return paths
        folders = sorted(entry.name for entry in inside if entry.is_dir())
        hint = f'; it has folders: {", ".join(folders[:8])}' if folders else ''
        known = ', '.join(SUFFIXES)
        raise UserError(f'{path}: no files with dialogues ({known}){hint}')
    if path.exists():
        return [path]
    if has_magic(given):
        if paths := [Path(path) for path in glob(given) if Path(path).is_file()]:
            return paths
        raise UserError(f'{given}: no file fits this pattern')
    raise UserError(f'{given}: no such file or folder')


def detect_format(source: SourceFile, before: str | None = None) -> str:
    """
    Return the name of a file's format.

    :param before: the format of the file before it, taken for one that fits no format.
    :raises UserError: when there is none either.
    """
    for name, form in FORMATS.items():
        if (form.columns or not source.columns) and form.looks_like(source):
            return name
    if before is not None:
        return before
    if not source.first_line:
        raise UserError(f'{source.file}: the file is empty')
    if source.file.endswith('.csv'):
        return 'csv'  # whose reader says what is wrong with the header
    raise _unknown_format(source)


def _unknown_format(source: SourceFile) -> UserError:
    """
    Return the error about a file in no known format, with the three nearest formats.
    """
    reason = f'its first line is {brief(source.first_line)}'
    is_json = source.first_line.lstrip().startswith(('{', '['))
    if is_json:
        for line, place, record in islice(numbered_records(source), 1):
            match record:
                case BadRecord():
                    reason = f'line {line}: {place}{record}'
                case {'messages': [dict() as message, *_]}:
                    reason = f'its messages have the keys {brief(", ".join(message))}'
                case _:
                    reason = f'its objects have the keys {brief(", ".join(record))}'
    start = single_spaced(' '.join(line[:200] for line in source.lines[:20]))[:200]
    keys = {*JSON_KEY.findall(start)}

    def likeness(name: str) -> tuple[int, float]:
        example = FORMATS[name].example
        ratio = SequenceMatcher(None, example, start).ratio()
        return len(keys.intersection(JSON_KEY.findall(example))), ratio

    names = [n for n, form in FORMATS.items() if (form.example[0] in '{[') == is_json]
    nearest_three = sorted(names, key=likeness, reverse=True)[:3]
    width = max(map(len, nearest_three))
    return UserError(
        f'{source.file}: no dialogues in a known format; {reason}; the nearest are:',
        [
            *(f'  {name:{width}}  {FORMATS[name].example}' for name in nearest_three),
            '--columns gives other names of columns or keys, --help lists all formats',
        ],
    )


def read_sources(
    paths: Sequence[Path],
    wanted: str | None,
    columns: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, SourceFile]]:
    """
    Yield the files, one at a time in memory, each with the format that all have.

    :param columns: the files' own names of columns or keys, by ours.
    :raises UserError: for an unknown format, or files of two.
    """
    if wanted is not None and wanted not in FORMATS:
        raise UserError(f'--format {wanted}: {nearest(wanted, FORMATS)}')
    first = None
    for path in paths:
        source = SourceFile.from_path(path, columns)
        name = wanted or detect_format(source, first[0] if first else None)
        if columns and not FORMATS[name].columns:
            with_columns = [key for key, form in FORMATS.items() if form.columns]
            raise UserError(
                f'--columns: for the formats {" and ".join(with_columns)}, not {name}'
            )
        if first is not None and first[0] != name:
            raise UserError(
                f'{first[1]} looks like {first[0]}, {source.file} like {name}: '
                'name files of one format, or say it with --format'
            )
        first = first or (name, source.file)
        yield name, source


def read_dialogue_texts(given: Sequence[str]) -> list[Turns]:
    """
    Return the utterances of every dialogue in files, folders or patterns. Dialogues of
    fewer than two utterances, and those that cannot be read, are left out.

    :raises UserError: when a path names no file, or no dialogue is in one of them.
    """
    dialogues = []
    for path in find_files(given):
        is_archive = path.suffix != ZIPPED_LOG and zipfile.is_zipfile(path)
        if is_archive:  # other files of DailyDialog's archives hold labels
            lines = '\n'.join(archived_texts(path, '*.txt')).split('\n')
        else:
            source = SourceFile.from_path(path)
            lines = [*source.lines]
        if is_archive or any(END in line for line in lines[:5]):
            texts = [marked_utterances(line) for line in lines if END in line]
        else:
            texts = [
                tuple(t for turn in dialogue.turns if (t := turn.text.strip()))
                for dialogue in FORMATS[detect_format(source)].read(source)
                if not dialogue.problems
            ]
        long = [turns for turns in texts if len(turns) > 1]
        if not long:
            raise UserError(f'{path}: no dialogue of two utterances or more is in it')
        dialogues += long
    return dialogues
