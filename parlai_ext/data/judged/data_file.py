"""
A user's file of judgements, and what the readers of all formats share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.data.judged.judged_set import Annotation
from parlai_ext.files.human_scores import LARGEST
from parlai_ext.files.json_file import read_json
from parlai_ext.files.text_file import text_lines

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
        return replace(self, path=str(path))

    def read_json(self, kind: type) -> Any:
        """
        Return the JSON value in the file, which must be a list or an object.
        """
        try:
            return read_json(self.path, kind, 'judged set ')
        except UserError as error:
            raise UserError(f'{error}; it is {self.official}') from None

    def tab_rows(self, needed: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """
        Yield line number and cells of a table with tabs, in which quotation marks mean
        nothing.

        :param needed: the names of the first columns.
        """
        rows = ((n, line.split('\t')) for n, line in text_lines(Path(self.path)))
        _, header = next(rows, (1, []))
        if header[: len(needed)] != list(needed):
            raise UserError(f'{self}:1: columns {", ".join(needed)} are expected')
        for line_number, cells in rows:
            if len(cells) < len(needed):
                raise UserError(f'{self}:{line_number}: {len(needed)} cells, with tabs')
            yield line_number, cells


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
