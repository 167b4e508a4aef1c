"""
DiaSafety, ToxiChat and the Track's list of swear words, fetched by name from their
authors' repositories. Their licences are shown, and none of them is shipped.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from parlai_ext import zoo_configs
from parlai_ext.core import frozen
from parlai_ext.data.corpora import ToxicData
from parlai_ext.engines import data_folder
from parlai_ext.files import read_file
from parlai_ext.systems.fetch.pinned_file import assigned_literals, read_pinned

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
    return [*assigned_literals((folder / name).read_text())['swear_words']]
