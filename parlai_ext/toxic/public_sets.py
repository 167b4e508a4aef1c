"""
DiaSafety, ToxiChat and the Track's list of swear words, fetched by name from their
authors' repositories. Their licences are shown, and none of them is shipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from parlai_ext.data.toxic_pairs import ToxicData
from parlai_ext.systems.fetch.data_folder import data_folder
from parlai_ext.systems.fetch.pinned_file import PinnedFile, assigned_literals

RAW = 'https://raw.githubusercontent.com/'
TRACK_WORDS = 'track_2021'


@dataclass(frozen=True)
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


SETS = {
    'diasafety': PublicSet(
        'Apache-2.0',
        'thu-coai/DiaSafety/5106a041b1c7e36f30e02a97c44897a7f2057278/DiaSafety_dataset',
        {
            'train.json': 'c1faee9dc1f67b28e8cbc2d4d146be1a'
            'f749a9ad8caef5d76c10203a4a0dc6ae',
            'val.json': 'ec0e4e705224584627dd8a9ff9f0cbaf'
            'c7b56932752c6038b1a1164f01e14609',
            'test.json': '3a816555d097effda2b3f788b0372fb6'
            '4359f1d736d881440d0ae6f386d6716c',
        },
    ),
    'toxichat': PublicSet(
        'CC BY-SA 4.0',
        'abaheti95/ToxiChat/c1ffebd76596481b26aab35074816641b076f992/data/ToxiChat',
        {
            'train.jsonl': '806da95ba491888626a18c0324e9d6ec'
            '906450ba9fef92b54343ebf44e48682a',
            'dev.jsonl': '591742cdf73b9fcae4f555cbccb5d492'
            '37b470172dd0fd07a4829cebc0060ace',
            'test.jsonl': '13e67afb0806b1865d446ea3d730578d'
            '750d9be4127fdd872ef7cc903b52f9bb',
        },
    ),
    TRACK_WORDS: PublicSet(
        'GPL-3.0',
        'lfdharo/DSTC10_Track5_Toxicity/43da3882b94a2da057d9e81a4a4905bbb95bd89b/scripts',
        {
            'extract_features.py': '11b1488743ce9d0fb75d73939ab31c01'
            'e232b9ce19c58034000d10b1a8c24b4f'
        },
        'words=FILE',
    ),
}


def fetch_public_set(name: str, datapath: str | None) -> Path:
    """
    Return the folder of a set; fetch its files where they are not there yet.

    :raises UserError: when they cannot be had, with what to do instead.
    """
    chosen = SETS[name]
    folder = Path(data_folder(datapath), 'toxic_sets', name)
    if not folder.is_dir():
        owner, repository, *_ = chosen.place.split('/')
        print(f'{name}: {chosen.licence}, https://github.com/{owner}/{repository}')
    for file, checksum in chosen.checksums.items():
        what = f'the files of {name!r} ({chosen.licence})'
        url = f'{RAW}{chosen.place}/{file}'
        PinnedFile(url, checksum, what, chosen.instead).fetch(folder / file)
    return folder


def with_public_sets(data: ToxicData, datapath: str | None) -> ToxicData:
    """
    Return the options with the folder of a public set in the place of its name; a file
    or folder of this name comes first.
    """
    places = (data.path or '').split(',')
    for number, part in enumerate(places):
        name = part.strip()
        if name in SETS and not Path(name).exists():
            places[number] = str(fetch_public_set(name, datapath))
    return replace(data, path=','.join(places))


def track_words(datapath: str | None) -> list[str]:
    """
    Return the swear words by which the Track filtered, as its program lists them.
    """
    folder = fetch_public_set(TRACK_WORDS, datapath)
    [name] = SETS[TRACK_WORDS].checksums
    words: list[str] = assigned_literals((folder / name).read_text())['swear_words']
    return words
