"""
Which files hold the dialogues, what is in them, and in which format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.data import chatmatch_logs as chatmatch
from parlai_ext.data import dstc9
from parlai_ext.data import parlai_conversations
from parlai_ext.data import dialogue_rows as rows
from parlai_ext.data import spot_the_bot
from parlai_ext.data.source_dialogue import Reader, Source, brief

SUFFIXES = ('.csv', '.json', '.jsonl', '.log', '.txt')
BOM = b'\xef\xbb\xbf'


@dataclass(frozen=True)
class Format:
    """
    How dialogues lie in files; `self_chats` when ``NAME_1`` and ``NAME_2`` are one
    system by the format's own habit.
    """

    read: Reader
    looks_like: Callable[[Source], bool]
    self_chats: bool = False


# the first that fits is taken: logs would take almost any text
FORMATS = {
    'parlai': Format(
        parlai_conversations.read, parlai_conversations.looks_like, self_chats=True
    ),
    'spot_the_bot': Format(spot_the_bot.read, spot_the_bot.looks_like),
    'jsonl': Format(rows.read_json, rows.looks_like_json),
    'csv': Format(rows.read_csv, rows.looks_like_csv),
    'dstc9': Format(dstc9.read, dstc9.looks_like),
    'chatmatch': Format(chatmatch.read, chatmatch.looks_like, self_chats=True),
}


def find_files(given: Sequence[str]) -> list[Path]:
    """
    Return the files that paths, folders and patterns name, each once, by name.

    :raises UserError: for a path without any.
    """
    found: dict[Path, None] = {}
    for one in given:
        found.update(dict.fromkeys(_files(one)))
    stems: dict[str, Path] = {}
    for path in found:
        other = stems.setdefault(str(path.resolve()), path)
        if other != path:
            raise UserError(f'{other} and {path} are one file; name it once')
    return sorted(found, key=lambda path: (path.name, str(path)))


def _files(given: str) -> list[Path]:
    path = Path(given)
    if path.is_dir():
        return _in_folder(path)
    if path.exists():
        return [path]
    if has_magic(given):
        if found := [Path(one) for one in glob(given) if Path(one).is_file()]:
            return found
        raise UserError(f'{given}: no file fits this pattern')
    raise UserError(f'{given}: no such file or folder')


def _in_folder(folder: Path) -> list[Path]:
    """
    Return the files of a folder that may hold dialogues, not those of folders in it.
    """
    inside = [one for one in folder.iterdir() if not one.name.startswith('.')]
    if found := [p for p in inside if p.is_file() and p.suffix in SUFFIXES]:
        return found
    folders = sorted(one.name for one in inside if one.is_dir())
    hint = f'; it has folders: {", ".join(folders[:8])}' if folders else ''
    raise UserError(f'{folder}: no files with dialogues ({", ".join(SUFFIXES)}){hint}')


def load(path: Path) -> Source:
    """
    Return a file's lines. Only the line feed ends one; a byte order mark and the
    carriage return before a line feed are no part of the text.
    """
    data = path.read_bytes().removeprefix(BOM)
    text = data.decode('utf-8', 'surrogateescape')
    lines = tuple(line.removesuffix('\r') for line in text.split('\n'))

    def beside(suffix: str) -> bytes | None:
        other = path.with_suffix(suffix)
        return other.read_bytes() if other.is_file() else None

    return Source(str(path), path.stem, lines, beside)


def format_of(source: Source, before: str | None = None) -> str:
    """
    Return the name of a file's format; what looks like none is a bad one of the format
    ``before`` it.

    :raises UserError: when there is none either.
    """
    for name, form in FORMATS.items():
        if form.looks_like(source):
            return name
    if before is not None:
        return before
    first = next((line for line in source.lines if line.strip()), None)
    if first is None:
        raise UserError(f'{source.file}: the file is empty')
    if source.file.endswith('.csv'):
        return 'csv'  # whose reader says what is wrong with the header
    raise UserError(
        f'{source.file}: no dialogues in a known format; its first line is '
        f'{brief(first)}; formats (--format): {", ".join(FORMATS)}'
    )


def sources(paths: Sequence[Path], wanted: str | None) -> Iterator[tuple[str, Source]]:
    """
    Yield the files, one at a time in memory, each with the format that all have.

    :raises UserError: for an unknown format, or files of two.
    """
    if wanted is not None and wanted not in FORMATS:
        raise UserError(f'--format {wanted}: {nearest(wanted, FORMATS)}')
    first: tuple[str, str] | None = None
    for path in paths:
        source = load(path)
        name = wanted or format_of(source, first[0] if first else None)
        if first is not None and first[0] != name:
            raise UserError(
                f'{first[1]} looks like {first[0]}, {source.file} like {name}: '
                'name files of one format, or say it with --format'
            )
        first = first or (name, source.file)
        yield name, source
