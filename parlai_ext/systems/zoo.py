"""
Models of ParlAI's zoo: what one still has to download, and its download.

The zoo's own modules say so. To foretell, they run with their downloads noted instead
of made; to download, with `checked_downloads`.
"""

import contextlib
import errno
import os
import re
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from parlai_ext.compat import prepare_parlai, silent_parlai
from parlai_ext.core import UserError, errors_about, first_line, nearest
from parlai_ext.engines import (
    HIDDEN,
    data_folder,
    downloads_folder,
    exclusive,
    is_zoo_path,
    local_path,
)
from parlai_ext.files import INDEX_OPTIONS, files_at
from parlai_ext.mini import SHIPPED
from parlai_ext.systems.fetch.archives import fresh_folder, move_into
from parlai_ext.systems.fetch.checked_downloads import (
    Unreachable,
    checked_downloads,
    downloads_noted,
)

MINI = 'mini/'  # comes with us


def require_in_zoo(path: str) -> None:
    """
    Refuse a path of the zoo for which ParlAI has no module, or the mini zoo no file, or
    a folder that is downloaded already; no library of models is imported for it.

    :raises UserError: with the nearest path, or the nearest file of that folder.
    """
    inside = path.partition(':')[2]
    if inside.startswith(MINI):
        known = (SHIPPED / inside.removeprefix(MINI)).exists()
    else:  # as ParlAI looks for it (core/build_data.py: modelzoo_path)
        folder, _, name = (inside.rpartition('/')[0] or inside).rpartition('/')
        places = (
            (f'{folder}/{name}', f'{folder}/build') if folder else (f'{name}/build',)
        )
        known = any(_is_zoo_module(place.replace('/', '.')) for place in places)
    if not known:
        raise not_in_zoo(path)
    file = local_path(path)
    if (file.parent / '.built').is_file() and not files_at(file, is_prefix=True):
        names = sorted(each.name for each in file.parent.iterdir())
        hint = nearest(file.name, [name for name in names if name[0] != '.'])
        raise UserError(f'{path}: {file.parent} has no {file.name}; {hint}')


def needed_downloads(path: str) -> list[str]:
    """
    Return the URLs that ParlAI would fetch now for this zoo path.

    The zoo's module runs in a scratch folder with nothing but the marks of what is
    built; that of the mini zoo in the data folder, to which it copies its own files.

    :raises UserError: for a path that the zoo does not have.
    """
    if path.partition(':')[2].startswith(MINI):
        return _noted_urls(path, data_folder())
    with tempfile.TemporaryDirectory() as folder:
        _copy_marks(Path(data_folder()), Path(folder))
        return _noted_urls(path, folder)


def _noted_urls(path: str, datapath: str) -> list[str]:
    """
    Return the URLs that the zoo's module would download to this data folder.
    """
    from parlai.core import build_data

    prepare_parlai()
    urls: list[str] = []
    try:
        with downloads_noted(urls.append):
            build_data.modelzoo_path(datapath, path)
    except ImportError:  # as `modelzoo_path` says that no module has a download
        raise not_in_zoo(path) from None
    except (TypeError, AttributeError, RuntimeError, UserError, OSError) as e:
        if urls and isinstance(e, OSError):
            return urls  # it looked for what it had not fetched
        hint = ''
        if getattr(e, 'errno', None) in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = (
                f'; {datapath} must be a folder that you can write to: give another '
                'with --datapath or PARLAI_DATAPATH'
            )
        raise UserError(f'{path} cannot be had from the zoo: {e}{hint}') from None
    return urls


def option_urls(option: str, path: str) -> list[str]:
    """
    Return what would be downloaded for an option with a path of the zoo.

    :raises UserError: when it cannot be had, or is not among what was downloaded.
    """
    with errors_about(option):
        urls = needed_downloads(path)
    if urls:
        return urls
    file = local_path(path)
    if not files_at(file, is_prefix=option in INDEX_OPTIONS):
        raise UserError(
            f'{option}: {path}: there is no file {file}; {nearest_path(path)}'
        )
    return []


def _is_zoo_module(name: str) -> bool:
    with contextlib.suppress(ModuleNotFoundError):
        return find_spec(f'parlai.zoo.{name}') is not None
    return False


def not_in_zoo(path: str) -> UserError:
    """
    Return the error about a path that the zoo does not have.
    """
    return UserError(f'the zoo has no {path}; {nearest_path(path)}')


def nearest_path(path: str) -> str:
    """
    Return a hint at the nearest path of the zoo (ParlAI's list and the mini zoo), in
    the same folder if there is one.
    """
    from parlai.zoo.model_list import model_list

    paths = [str(entry['path']) for entry in model_list]
    paths += [
        f'zoo:mini/{opt.relative_to(SHIPPED).with_suffix("")}'
        for opt in SHIPPED.rglob('*.opt')
    ]
    known = sorted(filter(is_zoo_path, paths))
    folder = path.partition('/')[0] + '/'
    return nearest(path, [p for p in known if p.startswith(folder)] or known)


def fetch_path(path: str) -> Path:
    """
    Return where a model's file is; one of the zoo is downloaded when it is not here.

    :raises Unreachable: when there is no network.
    :raises UserError: when it cannot be had.
    """
    if not is_zoo_path(path):
        return Path(path)
    if not needed_downloads(path):
        return local_path(path)
    from parlai.core.build_data import modelzoo_path

    # ParlAI builds it in a scratch data folder, from where it moves when it is
    # complete; one process at a time builds the models of one folder of the zoo
    try:
        zoo_folder = path.partition(':')[2].partition('/')[0]
        folder = downloads_folder() / re.sub(r'\W', '_', f'scratch-{zoo_folder}')
        home = Path(data_folder())
        with (
            exclusive(folder),
            checked_downloads() as downloader,
            fresh_folder(folder / 'building') as building,
        ):
            scratch = building / 'data'
            _copy_marks(home, scratch)
            with silent_parlai():
                modelzoo_path(str(scratch), path)
            downloader.record()
            _publish(scratch, home)
    except Exception as e:  # whatever network, archive, disk and zoo come up with
        kind = Unreachable if isinstance(e, Unreachable) else UserError
        raise kind(f'{path} cannot be downloaded: {first_line(e)}') from e
    return local_path(path)


def _copy_marks(home: Path, scratch: Path) -> None:
    """
    Let ParlAI see in a scratch data folder which models are built, in which version.
    """
    scratch.mkdir(exist_ok=True)
    for folder, inside, names in os.walk(home / 'models'):
        inside[:] = [name for name in inside if name != HIDDEN]
        if '.built' in names:
            copy = scratch / Path(folder, '.built').relative_to(home)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(folder, '.built'), copy)


def _publish(scratch: Path, home: Path) -> None:
    """
    Move the new models to the real data folder, in the place of older versions.
    """
    # a folder inside another first, while both are in their places
    marks = sorted(scratch.rglob('.built'), key=lambda mark: -len(mark.parts))
    for number, mark in enumerate(marks):
        older = home / mark.relative_to(scratch)
        if older.is_file() and older.read_bytes() == mark.read_bytes():
            mark.unlink()  # nothing new
        elif older.is_file():
            os.replace(older.parent, scratch.with_name(f'older-{number}'))
    move_into(scratch, home)
