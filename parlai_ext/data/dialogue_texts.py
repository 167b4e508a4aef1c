"""
The utterances of dialogues to train on, from any file that `import_dialogues` reads and
from DailyDialog's own files, zipped or not.

DailyDialog has one dialogue a line, ``__eou__`` after each utterance. Who speaks is not
kept.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.data.corpora import END
from parlai_ext.data.formats import FORMATS, detect_format, find_files
from parlai_ext.data.source_file import SourceFile
from parlai_ext.files.text_file import utf8_bytes
from parlai_ext.files.zip_file import open_zip

Texts = tuple[str, ...]


def read_dialogue_texts(given: Sequence[str]) -> list[Texts]:
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


def _file_texts(path: Path) -> Iterator[Texts]:
    if zipfile.is_zipfile(path):
        try:
            yield from _archived_texts(path)
        except zipfile.BadZipFile as error:
            raise UserError(f'{path}: it cannot be read: {error}') from None
        return
    source = SourceFile.from_path(path)
    if any(END in line for line in source.lines[:5]):
        yield from _marked_texts(source.lines)
        return
    for dialogue in FORMATS[detect_format(source)].read(source):
        if not dialogue.problems:
            texts = (turn.text.strip() for turn in dialogue.turns)
            yield tuple(text for text in texts if text)


def _archived_texts(path: Path) -> Iterator[Texts]:
    with open_zip(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith('.txt'):
                data = utf8_bytes(archive.read(name), f'{path}: {name}')
                yield from _marked_texts(data.decode('utf-8', 'replace').split('\n'))


def _marked_texts(lines: Sequence[str]) -> Iterator[Texts]:
    """
    Yield the utterances of each line that has the mark; other files of DailyDialog's
    archives hold labels.
    """
    for line in lines:
        if END in line:
            texts = (text.strip() for text in line.split(END))
            yield tuple(text for text in texts if text)
