"""
What ParlAI's zoo would fetch for a path, asked of the zoo itself but without a network.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parlai_ext.errors import UserError
from parlai_ext.strict_yaml import nearest

ZOO = ('zoo:', 'models:')


def is_zoo(path: str) -> bool:
    """
    Tell whether a model path is one of ParlAI's zoo.
    """
    return path.startswith(ZOO)


def data_folder(datapath: str | None) -> str:
    """
    Return ParlAI's data folder: the one given, or ParlAI's own choice.
    """
    if datapath:
        return datapath
    if os.environ.get('PARLAI_DATAPATH'):
        return os.environ['PARLAI_DATAPATH']
    from parlai.core.params import ParlaiParser

    found = ParlaiParser(False, False)._infer_datapath({})['datapath']
    del os.environ['PARLAI_DATAPATH']  # which that call sets
    return str(found)


def zoo_file(path: str, datapath: str | None) -> Path:
    """
    Return where a zoo model's file is, or would be after a download.
    """
    return Path(data_folder(datapath), 'models', path.partition(':')[2])


def needed_downloads(path: str, datapath: str | None) -> list[str]:
    """
    Return the URLs that ParlAI would fetch now for this zoo path.

    The zoo's own module runs with `build_data`'s hands tied: downloads are noted,
    nothing is unpacked, removed or marked as built. What a module copies from its own
    package (the mini zoo) is copied.

    :raises UserError: for a path that the zoo does not have.
    """
    from parlai.core import build_data

    urls: list[str] = []
    try:
        with _tied(urls), contextlib.redirect_stdout(io.StringIO()):
            build_data.modelzoo_path(data_folder(datapath), path)
    except ImportError as e:
        if isinstance(e, ModuleNotFoundError) and not (e.name or '').startswith(
            'parlai'
        ):
            raise UserError(f'{path} needs the package {e.name!r}') from None
        raise UserError(f'the zoo has no {path}; {like(path)}') from None
    except (TypeError, AttributeError, RuntimeError) as e:
        raise UserError(f'{path} cannot be had from the zoo: {e}') from None
    return urls


def like(path: str) -> str:
    """
    Name the nearest path of the zoo, one of the same folder if there is any.
    """
    known = zoo_paths()
    folder = path.partition('/')[0] + '/'
    return nearest(path, [p for p in known if p.startswith(folder)] or known)


def zoo_paths() -> list[str]:
    """
    Return the model paths that ParlAI lists, and those of the mini zoo.
    """
    listed = importlib.import_module('parlai.zoo.model_list').model_list
    found = {str(entry['path']) for entry in listed}
    shipped = Path(__file__).parent.parent / 'mini' / 'zoo'
    for opt in shipped.rglob('*.opt'):
        found.add(f'zoo:mini/{opt.relative_to(shipped).with_suffix("")}')
    return sorted(p for p in found if is_zoo(p))


@contextlib.contextmanager
def _tied(urls: list[str]) -> Iterator[None]:
    """
    Replace what touches network or disk in ParlAI's downloader.
    """
    from parlai.core import build_data
    from parlai.utils.logging import logger

    def note(url: str, *rest: Any, **more: Any) -> None:
        urls.append(url)

    def note_file(self: Any, dpath: str) -> None:
        urls.append(self.url)

    def nothing(*args: Any, **kwargs: Any) -> None:
        pass

    def refuse() -> None:
        raise RuntimeError('it downloads in a way of its own')

    hands: list[tuple[Any, str, Any]] = [
        (build_data, 'download', note),
        (build_data, 'download_from_google_drive', note),
        (build_data.DownloadableFile, 'download_file', note_file),
        (build_data, 'get_http_session', refuse),
        *((build_data, n, nothing) for n in ('untar', 'remove_dir', 'make_dir')),
        (build_data, 'mark_done', nothing),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in hands]
    level = logger.level
    logger.setLevel('ERROR')
    try:
        for owner, name, hand in hands:
            setattr(owner, name, hand)
        yield
    finally:
        logger.setLevel(level)
        for owner, name, hand in before:
            setattr(owner, name, hand)


def fetched(path: str, datapath: str | None) -> Path:
    """
    Return a zoo model's file, downloaded by ParlAI when it is not here.

    :raises UserError: when it cannot be had.
    """
    from parlai.core.build_data import modelzoo_path

    urls = needed_downloads(path, datapath)
    if urls:
        try:
            with quick_to_give_up():
                modelzoo_path(data_folder(datapath), path)
        except Exception as e:  # whatever network, archive and zoo module come up with
            reason = str(e).strip().split('\n')[0] or type(e).__name__
            raise UserError(f'{path} cannot be downloaded: {reason}') from None
    return zoo_file(path, datapath)


@contextlib.contextmanager
def quick_to_give_up() -> Iterator[None]:
    """
    Let a download that cannot work say so at once, and say from where it should come.

    build_data.py:167 retries for half a minute, and keeps an error page as the model.
    """
    import requests
    from parlai.core import build_data

    original = build_data.download

    def download(url: str, path: str, fname: str, *rest: Any, **more: Any) -> None:
        if not Path(path, fname).exists():
            try:
                answer = requests.head(url, allow_redirects=True, timeout=15)
            except requests.exceptions.RequestException:
                raise ConnectionError(
                    f'{url} cannot be reached (no network?)'
                ) from None
            if answer.status_code in (401, 403, 404, 410):
                raise ConnectionError(f'{url} answers {answer.status_code}')
        original(url, path, fname, *rest, **more)

    build_data.download = download
    try:
        yield
    finally:
        build_data.download = original
