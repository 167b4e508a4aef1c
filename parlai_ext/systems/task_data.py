"""
The data of ParlAI's tasks: the module of a task, and what it would download.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.systems import openers, zoo
from parlai_ext.systems.fetch.build_data import METHOD, replaced
from parlai_ext.systems.fetch.data_folder import data_folder


def teacher_module(task: str) -> str:
    """
    Return the name of the module that holds a task's teacher.

    :raises UserError: when there is no such task, or it needs a missing package.
    """
    from parlai.core.loader import load_teacher_module

    prepare_parlai()
    try:
        return str(load_teacher_module(task).__module__)
    except ModuleNotFoundError as e:
        if e.name and '.tasks.' not in e.name:
            raise UserError(f'task {task!r} needs the package {e.name!r}') from None
        known = nearest(task, openers.known_tasks())
        raise UserError(f'no task {task!r}; {known}') from None
    except (ImportError, AttributeError) as e:
        raise UserError(f'no task {task!r}: {e}') from None


def data_urls(module: str, datapath: str | None) -> list[str]:
    """
    Return what a task's own `build` would download now; [] where that is not known.
    """
    name = f'{module.rpartition(".")[0]}.build'
    if find_spec(name) is None:
        return []
    build = importlib.import_module(name)
    resources = getattr(build, 'RESOURCES', None)
    if not isinstance(resources, list) or not hasattr(build, 'build'):
        return []
    opt = {'datapath': data_folder(datapath), 'datatype': 'train:evalmode'}
    try:
        with _stopped_before_downloads(), zoo.quiet_parlai():
            build.build(opt)
    except _WouldDownload:
        return [str(resource.url) for resource in resources]
    except Exception:  # a build of another kind raises when it really runs
        pass
    return []


class _WouldDownload(Exception):
    """
    A task's `build` has come to the point of downloading.
    """


@contextlib.contextmanager
def _stopped_before_downloads() -> Iterator[None]:
    """
    Stop a task's `build` before it downloads, and let it touch nothing until then.
    """

    def stop(*args: Any, **kwargs: Any) -> None:
        raise _WouldDownload

    def nothing(*args: Any, **kwargs: Any) -> None:
        pass

    functions = dict.fromkeys((METHOD, 'download', 'untar'), stop)
    functions |= dict.fromkeys(('make_dir', 'remove_dir', 'mark_done'), nothing)
    with replaced(functions):
        yield
