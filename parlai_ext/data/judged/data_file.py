"""
A user's file of judgements, and what the readers of all formats share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.data.judged.judged_set import Annotation
from parlai_ext.files.human_scores import LARGEST
from parlai_ext.files.text_file import read_bytes, read_utf8

Annotations = dict[str, tuple[Annotation, ...]]


@dataclass(frozen=True)
class DataFile:
    """
    A user's file of judgements, and what its card says about it.

    :param official: the name and source of the official file, for messages.
    :param columns: name of a quality in the file -> its name in the set.
    :param part: the part of the file that is the set, where a file holds several.
    """

    path: str
    official: str
    level: str
    columns: Mapping[str, str]
    part: str = ''

    def __str__(self) -> str:
        return f'judged set {self.path}'

    def error(self, item_number: int, problem: str) -> UserError:
        """
        Return the error that names the file and the object (from 1).
        """
        return UserError(f'{self}: object {item_number}: {problem}')

    def neighbour(self, name: str) -> DataFile:
        """
        Return a file of the set that lies in the same folder.

        :raises UserError: when it does not.
        """
        path = Path(self.path).with_name(name)
        if not path.is_file():
            raise UserError(f'{self}: {name} must lie beside it; it is {self.official}')
        return DataFile(str(path), self.official, self.level, self.columns, self.part)

    def read_bytes(self) -> bytes:
        """
        Return the bytes of the file.

        :raises UserError: for a file that cannot be read, with the official one.
        """
        try:
            return read_bytes(self.path, 'judged set ')
        except OSError as e:
            raise UserError(f'{self}: {e.strerror}; it is {self.official}') from None

    def read_json(self, kind: type) -> Any:
        """
        Return the JSON value in the file, which must be a list or an object.
        """
        return self.parsed_json(self.read_bytes(), kind)

    def parsed_json(self, text: bytes, kind: type) -> Any:
        """
        Return the JSON value of a text of this file, a list or an object.
        """
        try:
            data = parse_json(text)
        except ValueError as e:
            raise UserError(f'{self}: not JSON: {e}') from None
        if not isinstance(data, kind):
            expected = 'a list of objects' if kind is list else 'an object'
            raise UserError(f'{self}: {expected} is expected, as in {self.official}')
        return data

    def tab_rows(self, needed: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """
        Yield line number and cells of a table with tabs, in which quotation marks mean
        nothing.

        :param needed: the names of the first columns.
        """
        lines = read_utf8(self.path, 'judged set ').split('\n')
        header = lines[0].rstrip('\r').split('\t')
        if header[: len(needed)] != list(needed):
            raise UserError(f'{self}:1: columns {", ".join(needed)} are expected')
        for line_number, line in enumerate(lines[1:], 2):
            cells = line.rstrip('\r').split('\t')
            if len(cells) >= len(needed):
                yield line_number, cells
            elif line.strip():
                raise UserError(f'{self}:{line_number}: {len(needed)} cells, with tabs')


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
