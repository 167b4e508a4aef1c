"""
The files that a system needs and that can be downloaded: models of the zoo that its
options name, the replies of a task, and GPT-2's tokenizer.

What must be downloaded is decided here, for `check_roster` and for the download.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.files.option_files import files_at
from parlai_ext.files.roster_file import INDEX_OPTIONS
from parlai_ext.systems import candidates, zoo
from parlai_ext.systems.families import family_of
from parlai_ext.systems.fetch.checked_downloads import checked_downloads
from parlai_ext.systems.fetch.data_folder import data_folder, is_zoo_path
from parlai_ext.systems.fetch.http_file import DownloadSettings


@dataclass(frozen=True)
class NeededFile:
    """
    Something that a system needs and that can be downloaded.

    :param names: what a message calls it after the download.
    :param urls: what would be downloaded now; empty when nothing is.
    :param note: where it comes from or lies, for a message; may be empty.
    :param fetch: downloads it.
    """

    names: tuple[str, ...]
    urls: tuple[str, ...]
    note: str
    fetch: Callable[[DownloadSettings], object]


def needed_file(option: str, value: str, datapath: str | None) -> NeededFile | None:
    """
    Return what an option needs; `None` for a file of this machine.

    :raises UserError: ``option: …`` when it cannot be had.
    """
    if is_zoo_path(value):
        urls = zoo.option_urls(option, value, datapath)

        def fetch_model(settings: DownloadSettings) -> None:
            file = zoo.fetch_path(value, datapath, settings)
            if not files_at(file, is_prefix=option in INDEX_OPTIONS):
                raise UserError(f'{value}: the download has no file {file}')

        return NeededFile((value,), tuple(urls), ' '.join(urls), fetch_model)
    if not candidates.is_spec(value):
        return None
    try:
        urls = candidates.to_download(value, datapath)
        file = candidates.candidates_file(value, datapath, build=False)
    except UserError as e:
        raise UserError(f'{option}: {e}') from None
    note = f'the replies of {value}, in {file} (made of data that is here)'
    if urls:
        more = f' and {len(urls) - 1} more' if len(urls) > 1 else ''
        note = f'the replies of {value}, from {urls[0]}{more}'

    def fetch_replies(settings: DownloadSettings) -> None:
        with checked_downloads(datapath, settings):
            candidates.candidates_file(value, datapath)

    return NeededFile((value,), tuple(urls), note, fetch_replies)


def needed_tokenizer(opt: Mapping[str, Any], datapath: str | None) -> NeededFile | None:
    """
    Return the two files of GPT-2's tokenizer that BART and R2C2 need beside their
    model; `None` for other systems.

    :param opt: the system's options, those of its own ``.opt`` among them.
    """
    if (opt.get('dict_tokenizer') or family_of(opt).dict_tokenizer) != 'gpt2':
        return None
    from parlai.utils.bpe import Gpt2BpeHelper

    datapath = data_folder(opt.get('datapath') or datapath)
    both = (Gpt2BpeHelper.DEFAULT_VOCAB_BPE, Gpt2BpeHelper.DEFAULT_ENCODER_JSON)
    places = [Path(datapath, 'gpt2', url.rpartition('/')[2]) for url in both]
    # ParlAI downloads both if one is missing
    urls = () if all(file.is_file() for file in places) else both

    def fetch(settings: DownloadSettings) -> None:
        # the helper's own constructor would load the files too
        helper: Any = SimpleNamespace(opt={'datapath': datapath})
        helper.DEFAULT_VOCAB_BPE = Gpt2BpeHelper.DEFAULT_VOCAB_BPE
        helper.DEFAULT_ENCODER_JSON = Gpt2BpeHelper.DEFAULT_ENCODER_JSON
        with checked_downloads(datapath, settings):
            Gpt2BpeHelper._build_data(helper)

    return NeededFile(names=urls, urls=urls, note=' '.join(urls), fetch=fetch)
