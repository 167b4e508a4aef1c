"""
Finds the files of dialogues and tells their format.
"""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from glob import glob, has_magic
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.data import chatmatch_logs as chatmatch
from parlai_ext.data import dialogue_rows as rows
from parlai_ext.data import dstc9, model_chat, parlai_conversations, spot_the_bot
from parlai_ext.data.chat_exports import (
    INSPECT,
    LANGFUSE,
    LANGSMITH,
    MT_BENCH,
    TELEGRAM,
    looks_like_whatsapp,
    read_whatsapp,
)
from parlai_ext.data.chat_messages import OPENAI, SHAREGPT
from parlai_ext.data.corpora import END, Turns, archived_texts, marked_utterances
from parlai_ext.data.source_file import (
    ZIPPED_LOG,
    Reader,
    SourceFile,
    brief,
    first_json_problem,
)

SUFFIXES = ('.csv', '.json', '.jsonl', '.log', '.txt', ZIPPED_LOG)


@dataclass(frozen=True)
class Format:
    """
    How to read a format, and how a line of it begins. `self_chats`: ``NAME_1`` and
    ``NAME_2`` are one system in it. `columns`: its columns or keys may have other
    names.
    """

    read: Reader
    looks_like: Callable[[SourceFile], bool]
    example: str
    self_chats: bool = False
    columns: bool = False


# the first that fits is taken, so the logs of ChatMatch, which fit almost any text,
# come last
FORMATS = {
    'model_chat': Format(
        model_chat.read, model_chat.looks_like, '{"dialog": [{"agent_idx": 0, "text": "'
    ),
    'parlai': Format(
        parlai_conversations.read,
        parlai_conversations.looks_like,
        '{"dialog": [[{"id": "NAME", "text": "',
        self_chats=True,
    ),
    'spot_the_bot': Format(
        spot_the_bot.read,
        spot_the_bot.looks_like,
        '{"convo": [{"id": "NAME", "text": "',
    ),
    'telegram': Format(
        TELEGRAM.read, TELEGRAM.looks_like, '{"name": "NAME", "type": "personal_chat", '
    ),
    'inspect': Format(INSPECT.read, INSPECT.looks_like, '{"eval": {"model": "NAME"}, '),
    'mt_bench': Format(
        MT_BENCH.read, MT_BENCH.looks_like, '{"model_a": "NAME", "conversation_a": ['
    ),
    'langsmith': Format(
        LANGSMITH.read, LANGSMITH.looks_like, '{"inputs": {…}, "outputs": {…}}'
    ),
    'langfuse': Format(LANGFUSE.read, LANGFUSE.looks_like, '{"input": …, "output": …}'),
    'openai': Format(
        OPENAI.read,
        OPENAI.looks_like,
        '{"messages": [{"role": "user", "content": "',
    ),
    'sharegpt': Format(
        SHAREGPT.read,
        SHAREGPT.looks_like,
        '{"conversations": [{"from": "human", "value": "',
    ),
    'jsonl': Format(
        rows.read_json_dialogues,
        rows.looks_like_json,
        '{"dialogue_id": "1", "speaker": "NAME", "text": "',
        columns=True,
    ),
    'csv': Format(
        rows.read_csv_dialogues,
        rows.looks_like_csv,
        'dialogue_id,speaker,text',
        columns=True,
    ),
    'dstc9': Format(dstc9.read, dstc9.looks_like, '[{"context": "User: '),
    'whatsapp': Format(
        read_whatsapp, looks_like_whatsapp, '31/12/2023, 21:15 - NAME: '
    ),
    'chatmatch': Format(
        chatmatch.read, chatmatch.looks_like, 'NAME: text', self_chats=True
    ),
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
    reason = (
        first_json_problem(source) or f'its first line is {brief(source.first_line)}'
    )
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
    if path.suffix != ZIPPED_LOG and zipfile.is_zipfile(path):
        texts = archived_texts(path, '*.txt')
        lines = (line for text in texts for line in text.split('\n'))
        # other files of DailyDialog's archives hold labels
        yield from (marked_utterances(line) for line in lines if END in line)
        return
    source = SourceFile.from_path(path)
    if any(END in line for line in source.lines[:5]):
        yield from (marked_utterances(line) for line in source.lines if END in line)
        return
    for dialogue in FORMATS[detect_format(source)].read(source):
        if not dialogue.problems:
            yield tuple(t for turn in dialogue.turns if (t := turn.text.strip()))
