"""
The candidate replies of a retriever, collected once from a task into a file.

    fixed_candidates_path: task:TASK[@DATATYPE]

stands for a file with every label of the task's episodes, each once, sorted, one a
line. ``task:blended_skill_talk`` is its training data (``train:evalmode``),
``task:convai2:normalized@valid`` the validation data of another. The file lies in
``DATAPATH/parlai_ext/candidates``, named after the words above and not after what is in
it; what is in it is part of a system's identity. A note beside it holds its hash and
those of the data and the code it came from: when one of them differs, or the file is
not whole, it is made again. Where a task reads no file that we know of, it always is.
"""

import importlib
import inspect
import json
import os
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parlai_ext.compat.libraries import quiet_parlai
from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core import UserError, content_id, first_line, parse_json
from parlai_ext.files.option_files import sha256
from parlai_ext.store.atomic import write_file
from parlai_ext.systems import openers, zoo
from parlai_ext.systems.fetch.checked_downloads import (
    ensure_checked_downloads,
    noting,
    replaced,
)
from parlai_ext.systems.fetch.data_folder import data_folder

PREFIX = 'task:'
SPLITS = ('train', 'valid', 'test')
DATA_OPTIONS = ('datafile', 'datapath')  # how their names end
RULE = 1  # version of the rule by which a label becomes a line
BREAKS = re.compile(r'[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+')


def is_spec(value: Any) -> bool:
    """
    True if an option's value asks for the replies of a task.
    """
    return isinstance(value, str) and value.startswith(PREFIX)


def parse_spec(spec: str) -> tuple[str, str]:
    """
    Return the task and the datatype of ``task:TASK[@DATATYPE]``.

    :raises UserError: when it is not of this form.
    """
    task, _, datatype = spec.removeprefix(PREFIX).partition('@')
    split, _, mode = (datatype or 'train').partition(':')
    if not task or split not in SPLITS or mode not in ('', 'evalmode'):
        raise UserError(
            f'{spec!r} is not of the form task:TASK[@DATATYPE], '
            f'with one of {", ".join(SPLITS)}'
        )
    # plain `train` shuffles and goes on for ever
    return task, 'train:evalmode' if split == 'train' else split


def candidates_file(spec: str, *, build: bool = True) -> Path:
    """
    Return the file with the replies of a task, made from its data unless it is there.

    :param build: without it, return where the file is or would be, unseen.
    :raises UserError: when the task is not known or its data cannot be had.
    """
    task, datatype = parse_spec(spec)
    slug = re.sub(r'[^A-Za-z0-9_-]+', '-', task)[:60].strip('-')
    name = f'{slug}-{content_id("candidates", task, datatype, RULE)[:8]}.txt'
    path = Path(data_folder(), 'parlai_ext', 'candidates', name)
    if build and not _is_fresh(path):
        _build(path, task, datatype)
    return path


def to_download(spec: str) -> list[str]:
    """
    Return the URLs that would be downloaded for the replies of a task.

    The network is not touched.

    :raises UserError: when the task is not known.
    """
    from parlai.core.loader import load_teacher_module

    prepare_parlai()
    modules = []
    for part in parse_spec(spec)[0].split(','):
        with openers.unknown_task_named(part):
            modules.append(str(load_teacher_module(part).__module__))
    if _is_fresh(candidates_file(spec, build=False)):
        return []
    return [url for module in modules for url in _data_urls(module)]


class _WouldDownload(Exception):
    """
    A task's `build` has come to the point of downloading.
    """


def _data_urls(module: str) -> list[str]:
    """
    Return what a task's own `build` would download now; [] where that is not known.

    It is stopped before it downloads, and touches nothing until then.
    """
    name = f'{module.rpartition(".")[0]}.build'
    if find_spec(name) is None:
        return []
    build = importlib.import_module(name)
    resources = getattr(build, 'RESOURCES', None)
    if not isinstance(resources, list) or not hasattr(build, 'build'):
        return []

    def stop(url: str) -> None:
        raise _WouldDownload

    opt = {'datapath': data_folder(), 'datatype': 'train:evalmode'}
    try:
        with replaced(noting(stop)), quiet_parlai(), zoo.printing_nothing():
            build.build(opt)
    except _WouldDownload:
        return [str(resource.url) for resource in resources]
    except Exception:  # a build of another kind raises when it really runs
        pass
    return []


def _is_fresh(path: Path) -> bool:
    """
    True if a file is complete and its task's data and code have not changed since it
    was made.
    """
    try:
        note = parse_json(path.with_suffix('.json').read_bytes())
        data, code = dict(note['data']), dict(note['code'])
        return (
            bool(data)
            and sha256(path) == note['sha256']
            and note['versions'] == _versions()
            and code == _hashes(code)
            # data that is gone since cannot have changed
            and all(data[name] == now for name, now in _hashes(data).items())
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ('parlai', 'parlai_ext')}


def _hashes(paths: Iterable[str]) -> dict[str, str]:
    """
    Return the hashes of those files that are there.
    """
    return {p: sha256(Path(p)) for p in paths if os.path.isfile(p)}


def _build(path: Path, task: str, datatype: str) -> None:
    """
    Collect a task's replies into a file, and note beside it what they came from.
    """
    try:
        with ensure_checked_downloads():
            teachers = openers.teachers_of(task, datatype)
            replies = sorted(
                {line for teacher in teachers for line in _replies(teacher)}
            )
    except Exception as e:  # whatever network, archive and teacher come up with
        if isinstance(e, UserError) and 'task' in str(e):
            raise
        problem = f'the data of task {task!r} cannot be had: {first_line(e)}'
        raise UserError(problem) from e
    if not replies:
        raise UserError(f'task {task!r} has no replies ({datatype})')
    text = ''.join(f'{line}\n' for line in replies).encode('utf-8', 'replace')
    if not path.is_file() or path.read_bytes() != text:
        write_file(path, text)
    data_files: set[str] = set()
    code_files: set[str] = set()
    for teacher in teachers:
        # as far as its options name the files that it reads
        named = [v for k, v in teacher.opt.items() if k.endswith(DATA_OPTIONS)]
        named = [v for v in (*named, getattr(teacher, 'datafile', None)) if v]
        data_files |= {os.path.abspath(v) for v in named if os.path.isfile(v)}
        for kind in type(teacher).__mro__:  # ParlAI's common ones apart
            if not kind.__module__.startswith(('builtins', 'parlai.core')):
                code_files.add(inspect.getsourcefile(kind) or '')
    note = {
        'task': task,
        'datatype': datatype,
        'sha256': sha256(path),
        'data': _hashes(data_files),
        'code': _hashes(code_files),
        'versions': _versions(),
    }
    note_text = json.dumps(note, indent=1, sort_keys=True, ensure_ascii=False) + '\n'
    write_file(path.with_suffix('.json'), note_text.encode('utf-8', 'surrogatepass'))


def _replies(teacher: Any) -> Iterator[str]:
    """
    Yield every label of a teacher as one line; a label without text is none.
    """
    while not teacher.epoch_done():
        act = teacher.act()
        for label in act.get('labels') or act.get('eval_labels') or ():
            line = BREAKS.sub(' ', str(label)).strip()
            if line:
                yield line
