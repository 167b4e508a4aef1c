"""
The card of a judged set: where it comes from, its licence, format, qualities, counts.

``zoo_configs/judged/NAME.yaml`` is one; docs/judged_sets.md explains the keys. A set in
a known format needs a card and nothing else; a user's own CSV or JSON lines in the
documented format need none. `find_sets` finds the official files of all cards in a
folder, `find_own_files` the user's own ones.
"""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, field_validator, model_validator

from parlai_ext import zoo_configs
from parlai_ext.core import UserError, errors_about, known_values, nearest
from parlai_ext.core.records import RealNumber, Record, WholeNumber
from parlai_ext.data.judged.judged_set import JudgedItem, JudgedSet
from parlai_ext.data.judged.readers import READERS, DataFile, is_own_file
from parlai_ext.files import Wheel, read_file

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
