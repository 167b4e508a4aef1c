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
from parlai_ext.data.corpora import END, archived_texts, marked_utterances
from parlai_ext.data.formats import FORMATS, detect_format, find_files
from parlai_ext.data.source_file import SourceFile

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
