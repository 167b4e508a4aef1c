"""
Small public files that are fetched on request, because they may not be shipped:
DiaSafety, ToxiChat and the Track's list of swear words by name, from their authors'
repositories, with their licences.

A file is known by its checksum, so that it does not matter who gives it. A program of
others is read for the literals that it assigns; nothing in it is run.
"""

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from parlai_ext import zoo_configs
from parlai_ext.core import UserError, frozen
from parlai_ext.data.toxic_pairs import ToxicData
from parlai_ext.engines import data_folder
from parlai_ext.files import read_file, sha256

MOST_BYTES = 5_000_000
RAW = 'https://raw.githubusercontent.com/'
TRACK_WORDS = 'track_2021'


@frozen
class PublicSet:
    """
    A set of files in a public repository.

    :param place: repository, commit and folder.
    :param checksums: sha256 by the name of the file.
    """

    licence: str
    place: str
    checksums: Mapping[str, str]
    instead: str = '--toxic-data FOLDER'


def moderation_data(name: str) -> Any:
    """
    Return what a shipped file of `zoo_configs/moderation/` holds.
    """
    return read_file(zoo_configs.HOME / 'moderation' / f'{name}.yaml').data


SETS = {
    name: PublicSet(**about) for name, about in moderation_data('public_sets').items()
}


def fetch_public_set(name: str) -> Path:
    """
    Return the folder of a set; fetch its files where they are not there yet.

    :raises UserError: when they cannot be had, with what to do instead.
    """
    chosen = SETS[name]
    folder = Path(data_folder(), 'toxic_sets', name)
    if not folder.is_dir():
        owner, repository, *_ = chosen.place.split('/')
        print(f'{name}: {chosen.licence}, https://github.com/{owner}/{repository}')
    for file, checksum in chosen.checksums.items():
        what = f'the files of {name!r} ({chosen.licence})'
        url = f'{RAW}{chosen.place}/{file}'
        read_pinned(url, checksum, folder / file, what, chosen.instead)
    return folder


def with_public_sets(data: ToxicData) -> ToxicData:
    """
    Return the options with the folder of a public set in the place of its name; a file
    or folder of this name comes first.
    """
    places = (data.path or '').split(',')
    for number, part in enumerate(places):
        name = part.strip()
        if name in SETS and not Path(name).exists():
            places[number] = str(fetch_public_set(name))
    return replace(data, path=','.join(places))


def track_words() -> list[str]:
    """
    Return the swear words by which the Track filtered, as its program lists them.
    """
    folder = fetch_public_set(TRACK_WORDS)
    [name] = SETS[TRACK_WORDS].checksums
    words: list[str] = assigned_literals((folder / name).read_text())['swear_words']
    return words


def read_pinned(url: str, checksum: str, place: Path, what: str, instead: str) -> bytes:
    """
    Return a file of this checksum from its place, where it is put if need be.

    :param what: what errors call it, with its licence.
    :param instead: what the user may give in its place.
    :raises UserError: when it cannot be had, or is not the file it was.
    """
    if not place.is_file() or sha256(place) != checksum:
        # an HTTP library, which only this needs
        from parlai_ext.systems.fetch.checked_downloads import fetch_pinned

        try:
            fetch_pinned(url, checksum, place, MOST_BYTES)
        except UserError as error:
            raise UserError(
                f'{what} cannot be fetched: {error}; put that file at {place}, or give '
                f'{instead}'
            ) from None
    return place.read_bytes()


def assigned_literals(source: str) -> dict[str, Any]:
    """
    Return the lists and mappings that a program assigns to single names; nothing is
    run.
    """
    assigned = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Dict):
            [*_, target] = node.targets
            try:
                assigned[getattr(target, 'id', '')] = ast.literal_eval(node.value)
            except ValueError:  # no literal
                continue
    return assigned
