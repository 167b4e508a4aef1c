"""
The files that a path in a system's options stands for: which, their hashes, their near
misses.
"""

import difflib
import glob
import hashlib
import os
from functools import lru_cache
from pathlib import Path

from parlai_ext.core import UserError
from parlai_ext.files.protocol_file import INDEX_OPTIONS
from parlai_ext.files.text_file import check_text_file

# what the folder of a Hugging Face model holds besides its config.json
PRETRAINED = ('*.safetensors', 'pytorch_model*', 'tokenizer*')


def sha256(path: Path) -> str:
    """
    Return the SHA-256 of a file, which is read once while its size and date stay.

    :raises UserError: for a pipe or a device.
    """
    check_text_file(path)
    stat = path.stat()
    return _sha256(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _sha256(path: str, mtime: int, size: int) -> str:
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def files_at(path: Path, *, is_prefix: bool) -> dict[str, Path]:
    """
    Return the files that a path stands for, by the rest of their names: one file, all
    files of a folder, or those whose names begin so.

    :param is_prefix: the path may be a prefix of names, as an index is given by what
        ``exact.index`` and ``exact.index_meta`` share.
    """
    if path.is_file():
        return {'': path}
    if path.is_dir():
        inside = sorted(p for p in path.rglob('*') if p.is_file())
        return {f'/{p.relative_to(path).as_posix()}': p for p in inside}
    if not is_prefix or not path.parent.is_dir():
        return {}
    named = sorted(path.parent.glob(f'{glob.escape(path.name)}.*'))
    return {p.name.removeprefix(path.name): p for p in named if p.is_file()}


def existing_file(path: str, option: str) -> Path:
    """
    Return the path that an option names; of an index, the prefix of its files' names.

    :raises UserError: when there is no such file; it names the nearest one.
    """
    is_index = option in INDEX_OPTIONS and not no_path(path)
    if os.path.isfile(path) or (is_index and files_at(Path(path), is_prefix=True)):
        return Path(path)
    raise UserError(f'{option}: {missing_file(path)}')


def missing_file(path: str) -> str:
    """
    Return a message that there is no such file, with the nearest name if there is one.
    """
    if problem := no_path(path):
        return problem
    wanted = Path(path)
    if wanted.is_dir():
        inside = wanted / 'model'
        hint = ''
        if inside.is_file():
            hint = f'; did you mean {str(inside)!r}?'
        elif any(file for name in PRETRAINED for file in wanted.glob(name)):
            hint = '; for the folder of a Hugging Face model it lacks a config.json'
        return f'{path} is a folder, not a file{hint}'
    if os.path.lexists(path):
        kind = 'a link to nothing' if os.path.islink(path) else 'no regular file'
        return f'{path} is {kind}'
    parent = wanted.parent
    if not parent.is_dir():
        while not parent.is_dir():
            wanted, parent = parent, parent.parent
        problem = f'{wanted} is no folder' if wanted.exists() else f'no folder {wanted}'
        return f'there is no file {path}: {problem}{_hint(wanted)}'
    return f'there is no file {path}{_hint(wanted)}'


def no_path(path: str) -> str:
    """
    Return why a text cannot be the path of a file, as when it is too long; '' for what
    is a path, whether a file is there or not.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ''
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return f'{path[:80]!r} is no path: {reason}'
    return ''


def _hint(wanted: Path) -> str:
    """
    Return a hint at the most similar file name in the same folder.
    """
    try:
        names = {*os.listdir(wanted.parent)} - {wanted.name}
    except OSError:
        return ''
    close = difflib.get_close_matches(wanted.name, sorted(names), n=1)
    return f'; did you mean {str(wanted.with_name(close[0]))!r}?' if close else ''
