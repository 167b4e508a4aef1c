"""
What ParlAI's zoo would fetch for a path, asked of the zoo itself but without a network.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, first_line, nearest
from parlai_ext.systems.fetch.answers import LIMITS, Limits
from parlai_ext.systems.fetch.data_folder import (
    data_folder,
    is_zoo_path,
    local_path,
)
from parlai_ext.systems.fetch.file import Unreachable
from parlai_ext.systems.fetch.hands import replaced
from parlai_ext.systems.fetch.staging import Stage, staged
from parlai_ext.systems.fetch.trusted import trusted_downloads, under_way_now

SHIPPED = 'mini/'  # comes with us


def needed_downloads(path: str, datapath: str | None) -> list[str]:
    """
    Return the URLs that ParlAI would fetch now for this zoo path.

    The zoo's own module runs with `build_data`'s hands tied: downloads are noted,
    nothing is unpacked, removed or marked as built. It does so where nothing is but
    the marks of what is built; only if there is nothing to download it runs in the
    data folder, so that what a module copies from its own package (the mini zoo) is
    copied.

    :raises UserError: for a path that the zoo does not have.
    """
    home = Path(data_folder(datapath))
    if not path.partition(':')[2].startswith(SHIPPED):
        with tempfile.TemporaryDirectory() as scratch:
            stage = Stage(Path(scratch), home)
            stage.mark_what_is_built()
            urls = _noted(path, scratch)
        if urls:
            return urls
    return _noted(path, str(home))


def _noted(path: str, datapath: str) -> list[str]:
    """
    Return what the zoo's module would fetch into this data folder.
    """
    from parlai.core import build_data

    urls: list[str] = []
    try:
        with _tied(urls):
            build_data.modelzoo_path(datapath, path)
    except ImportError as e:
        if isinstance(e, ModuleNotFoundError) and not (e.name or '').startswith(
            'parlai'
        ):
            raise UserError(f'{path} needs the package {e.name!r}') from None
        raise UserError(f'the zoo has no {path}; {like(path)}') from None
    except (TypeError, AttributeError, RuntimeError) as e:
        raise UserError(f'{path} cannot be had from the zoo: {e}') from None
    except OSError as e:
        if not urls:  # else it looked for what it had not fetched
            raise UserError(_unwritable(path, datapath, e)) from None
    return urls


def _unwritable(path: str, datapath: str, error: OSError) -> str:
    """
    Say what to do where the data folder is somebody else's, as in a shared install.
    """
    what = f'{path} cannot be had from the zoo: {error}'
    if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
        return what
    return (
        f'{what}; {datapath} must be a folder that you can write to: give another '
        'with --datapath or PARLAI_DATAPATH'
    )


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
    return sorted(p for p in found if is_zoo_path(p))


@contextlib.contextmanager
def _tied(urls: list[str]) -> Iterator[None]:
    """
    Replace what touches network or disk in ParlAI's downloader.
    """

    def note(url: str, *rest: Any, **more: Any) -> None:
        urls.append(url)

    def note_file(resource: Any, dpath: str) -> None:
        urls.append(resource.url)

    def nothing(*args: Any, **kwargs: Any) -> None:
        pass

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError('it downloads in a way of its own')

    hands: dict[str, Callable[..., Any]] = {
        'download': note,
        'download_from_google_drive': note,
        'DownloadableFile.download_file': note_file,
        'get_http_session': refuse,
        'download_multiprocess': refuse,
        **dict.fromkeys(('untar', 'ungzip', 'remove_dir', 'make_dir'), nothing),
        'mark_done': nothing,
    }
    with replaced(hands), hushed():
        yield


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """
    Keep ParlAI's own builders from printing where a command prints its result.
    """
    from parlai.utils.logging import logger

    level = logger.level
    logger.setLevel('ERROR')
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def fetch_path(
    path: str,
    datapath: str | None,
    *,
    lock: Path | None = None,
    progress: bool = True,
    limits: Limits = LIMITS,
) -> Path:
    """
    Return where a model's file is; one of the zoo is downloaded when it is not here.

    The zoo's own module builds on a stage; what it has built is seen when it is whole.

    :param lock: file of hashes, if it is not ``parlai_ext.lock.json`` in ``models``.
    :raises Unreachable: when there is no network.
    :raises UserError: when it cannot be had.
    """
    if not is_zoo_path(path):
        return Path(path)
    home = Path(data_folder(datapath))
    if not needed_downloads(path, str(home)):
        return local_path(path, str(home))
    try:
        _build(path, home, lock, progress, limits)
    except Exception as e:  # whatever network, archive, disk and zoo come up with
        kind = Unreachable if isinstance(e, Unreachable) else UserError
        raise kind(f'{path} cannot be downloaded: {first_line(e)}') from e
    return local_path(path, str(home))


def _build(
    path: str, home: Path, lock: Path | None, progress: bool, limits: Limits
) -> None:
    """
    Let the zoo build a model on a stage, and put it in its place.
    """
    from parlai.core.build_data import modelzoo_path

    with staged(home, path.partition(':')[2].partition('/')[0]) as stage:
        with (
            trusted_downloads(
                str(home), lock=lock, progress=progress, limits=limits, stage=stage
            ) as hands,
            hushed(),
        ):
            modelzoo_path(str(stage.home), path)
        stage.commit()
        hands.finish()


@contextlib.contextmanager
def ensure_checked_downloads(datapath: str | None = None) -> Iterator[None]:
    """
    Let whatever a model or a task fetches while it is built be fetched by us.

    build_data.py:167 retries for half a minute, and keeps an error page as the model.
    Within `trusted_downloads` nothing changes.
    """
    if under_way_now():
        yield
    else:
        with trusted_downloads(datapath):
            yield
