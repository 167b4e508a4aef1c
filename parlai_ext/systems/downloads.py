"""
The files that a system needs and that can be downloaded: models of the zoo that its
options name, the replies of a task, and GPT-2's tokenizer; and their download, in which
one system's failure stops no other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import (
    JsonObject,
    System,
    SystemFailed,
    UserError,
    errors_about,
    frozen,
    text_option,
)
from parlai_ext.engines import data_folder, is_zoo_path
from parlai_ext.files import FILE_OPTIONS, INDEX_OPTIONS, existing_file, files_at
from parlai_ext.systems import zoo
from parlai_ext.systems.families import effective_options, family_of
from parlai_ext.systems.fetch.checked_downloads import Unreachable, checked_downloads
from parlai_ext.systems.task_data import candidates_file, is_spec, to_download


@frozen
class NeededFile:
    """
    Something that a system needs and that can be downloaded.

    :param option: asks for it.
    :param names: what a message calls it after the download.
    :param urls: what would be downloaded now; empty when nothing is.
    :param note: where it comes from or lies, for a message; may be empty.
    :param fetch: downloads it.
    """

    option: str
    names: tuple[str, ...]
    urls: Sequence[str]
    note: str
    fetch: Callable[[], object]


def needed_by_system(system: System) -> Iterator[NeededFile]:
    """
    Yield what a system needs of elsewhere: the files that a roster names first, then
    what the model's own options ask for, which may have to be downloaded before.

    :raises UserError: ``option: …`` when something cannot be had.
    """
    for option in FILE_OPTIONS:
        value = str(system.opt.get(option) or '')
        needed = needed_file(option, value) if value else None
        if needed is not None:
            yield needed
    tokenizer = needed_tokenizer(effective_options(system))
    if tokenizer is not None:
        yield tokenizer


def needed_file(option: str, value: str) -> NeededFile | None:
    """
    Return what an option needs; `None` for a file of this machine.

    :raises UserError: ``option: …`` when it cannot be had.
    """
    if is_zoo_path(value):
        urls = zoo.option_urls(option, value)
        note = ' '.join(urls)
    elif is_spec(value):
        with errors_about(option):
            urls = to_download(value)
            file = candidates_file(value, build=False)
        note = f'the replies of {value}, in {file} (made of data that is here)'
        if urls:
            more = f' and {len(urls) - 1} more' if len(urls) > 1 else ''
            note = f'the replies of {value}, from {urls[0]}{more}'
    else:
        existing_file(value, option)
        return None

    def fetch() -> None:
        file = fetched_file(value)
        if not files_at(file, is_prefix=option in INDEX_OPTIONS):
            raise UserError(f'{value}: the download has no file {file}')

    return NeededFile(option, (value,), urls, note, fetch)


def fetched_file(value: str) -> Path:
    """
    Return the file that the value of an option stands for. One of the zoo is downloaded
    and the replies of a task are collected, where they are not here.

    :raises UserError: when it cannot be had.
    """
    return candidates_file(value) if is_spec(value) else zoo.fetch_path(value)


def needed_tokenizer(opt: JsonObject) -> NeededFile | None:
    """
    Return the two files of GPT-2's tokenizer that BART and R2C2 need beside their
    model; `None` for other systems.

    :param opt: the system's options, those of its own ``.opt`` among them.
    """
    if (opt.get('dict_tokenizer') or family_of(opt).dict_tokenizer) != 'gpt2':
        return None
    from parlai.utils.bpe import Gpt2BpeHelper

    datapath = data_folder(text_option(opt, 'datapath'))
    both = (Gpt2BpeHelper.DEFAULT_VOCAB_BPE, Gpt2BpeHelper.DEFAULT_ENCODER_JSON)
    places = [Path(datapath, 'gpt2', url.rpartition('/')[2]) for url in both]
    # ParlAI downloads both if one is missing
    urls = () if all(file.is_file() for file in places) else both

    def fetch() -> None:
        # the helper's own constructor would load the files too
        helper = Gpt2BpeHelper.__new__(Gpt2BpeHelper)
        helper.opt = {'datapath': datapath}
        with checked_downloads():
            Gpt2BpeHelper._build_data(helper)

    return NeededFile('dict_tokenizer', urls, urls, ' '.join(urls), fetch)


@frozen
class Downloaded:
    """
    What was downloaded for one system.

    :param reason: one line, when not everything could be had.
    """

    system: str
    files: tuple[str, ...]
    reason: str | None


def download_systems(systems: Iterable[System]) -> list[Downloaded]:
    """
    Download what the systems lack; files that are here are not touched.
    """
    prepare_parlai()
    downloads = _Downloads()
    return [downloads.download(system) for system in systems]


def fetch_system(system: System) -> None:
    """
    Download what a system lacks.

    :raises UserError: when it cannot be had.
    """
    for download in download_systems([system]):
        if download.reason:
            raise UserError(download.reason)


class _Downloads:
    """
    The downloads of one roster. What failed is not tried again for another system.
    """

    def __init__(self) -> None:
        self.failures: dict[tuple[str, ...], UserError] = {}
        self.silent_hosts: set[str] = set()

    def download(self, system: System) -> Downloaded:
        """
        Download what one system needs, until something cannot be had.
        """
        files: list[str] = []
        reason, family = None, family_of(system.opt)
        try:
            for needed in needed_by_system(system):
                with errors_about(needed.option):
                    files += self._fetch(needed)
            with errors_about(family.weights_option(system.opt)):
                files += family.fetch_weights(system.opt)
                inner = family.inner_system(system.opt)
                if inner is not None:
                    downloaded = self.download(inner)
                    files += downloaded.files
                    if downloaded.reason:
                        raise UserError(downloaded.reason)
        except UserError as e:
            reason = str(SystemFailed(system.name, str(e)))
        return Downloaded(system.name, tuple(files), reason)

    def _fetch(self, needed: NeededFile) -> tuple[str, ...]:
        """
        Download what is needed and return its names.

        :raises UserError: when it cannot be had, now or when another system needed it.
        """
        if not needed.urls:
            return ()
        names, hosts = needed.names, {urlsplit(url).netloc for url in needed.urls}
        for host in sorted(hosts & self.silent_hosts):
            raise UserError(
                f'{names[0]} cannot be downloaded: {host} cannot be reached'
            )
        if names not in self.failures:
            try:
                needed.fetch()
                return names
            except UserError as e:
                if isinstance(e, Unreachable):
                    self.silent_hosts |= hosts
                self.failures[names] = e
        raise self.failures[names]
