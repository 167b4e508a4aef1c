"""
Finds the files of dialogues and tells their format.
"""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from glob import glob, has_magic
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.data import chat_logs, parlai_logs, study_logs
from parlai_ext.data import dialogue_rows as rows
from parlai_ext.data.corpora import END, Turns, archived_texts, marked_utterances
from parlai_ext.data.source_file import (
    ZIPPED_LOG,
    BadRecord,
    SourceFile,
    brief,
    numbered_records,
)

SUFFIXES = ('.csv', '.json', '.jsonl', '.log', '.txt', ZIPPED_LOG)


# the first that fits is taken, so the logs of ChatMatch, which fit almost any text,
# come last
FORMATS = {
    'model_chat': parlai_logs.MODEL_CHAT,
    'parlai': parlai_logs.CONVERSATIONS,
    'spot_the_bot': study_logs.SPOT_THE_BOT,
    **chat_logs.FORMATS,
    'jsonl': rows.JSON_LINES,
    'csv': rows.CSV,
    'dstc9': study_logs.DSTC9,
    'whatsapp': study_logs.WHATSAPP,
    'chatmatch': study_logs.CHATMATCH,
}


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
    reason = f'its first line is {brief(source.first_line)}'
    if source.first_line.lstrip().startswith(('{', '[')):
        line, place, record = next(numbered_records(source))
        if isinstance(record, BadRecord):
            reason = f'line {line}: {place}{record}'
    likeness = SequenceMatcher(b=source.first_line[:80])

    def alike(name: str) -> float:
        likeness.set_seq1(FORMATS[name].example)
        return likeness.ratio()

    nearest_three = sorted(FORMATS, key=alike, reverse=True)[:3]
    examples = '; '.join(f'{name} {FORMATS[name].example}' for name in nearest_three)
    raise UserError(
        f'{source.file}: no dialogues in a known format; {reason}; the nearest begin: '
        f'{examples}; formats (--format): {", ".join(FORMATS)}; --columns names the '
        'columns of a table'
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
    first: tuple[str, str] | None = None
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
        texts = [texts for texts in _file_texts(path) if len(texts) > 1]
        if not texts:
            raise UserError(f'{path}: no dialogue of two utterances or more is in it')
        dialogues += texts
    return dialogues


def _file_texts(path: Path) -> Iterator[Turns]:
    is_archive = path.suffix != ZIPPED_LOG and zipfile.is_zipfile(path)
    if is_archive:  # other files of DailyDialog's archives hold labels
        lines = '\n'.join(archived_texts(path, '*.txt')).split('\n')
    else:
        source = SourceFile.from_path(path)
        lines = [*source.lines]
    if is_archive or any(END in line for line in lines[:5]):
        yield from (marked_utterances(line) for line in lines if END in line)
        return
    for dialogue in FORMATS[detect_format(source)].read(source):
        if not dialogue.problems:
            yield tuple(t for turn in dialogue.turns if (t := turn.text.strip()))
