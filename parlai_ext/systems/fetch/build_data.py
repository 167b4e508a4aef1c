"""
Replacing ParlAI's download functions (`parlai.core.build_data`) for a while.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

Function = Callable[..., Any]
NAMES = (
    *('download', 'download_from_google_drive', 'download_multiprocess'),
    *('get_http_session', 'untar', 'ungzip', 'make_dir', 'remove_dir', 'mark_done'),
)
METHOD = 'DownloadableFile.download_file'
PACKAGES = ('parlai', 'parlai_ext', 'parlai_internal', 'projects')

replacements: list[Mapping[str, Function]] = []  # the innermost last


@contextmanager
def replaced(functions: Mapping[str, Function]) -> Iterator[None]:
    """
    Call other functions in the place of `build_data`'s, for the whole process.

    :param functions: some of `NAMES`, or `METHOD`, with what is called instead.
    """
    _install()
    replacements.append(functions)
    try:
        yield
    finally:
        replacements.remove(functions)


@functools.cache
def _install() -> None:
    """
    Put a switch in the place of each function, also where modules imported it by name.

    Modules that are imported later get the switches from `build_data`.
    """
    from parlai.core import build_data

    switches = {vars(build_data)[name]: name for name in NAMES}
    for module_name, module in list(sys.modules.items()):
        if module_name.partition('.')[0] not in PACKAGES or module is None:
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value in switches:
                setattr(module, key, _switch(switches[value], value))
    resource = build_data.DownloadableFile
    resource.download_file = _switch(METHOD, resource.download_file)


def _switch(name: str, original: Function) -> Function:
    @functools.wraps(original)
    def replaced_or_original(*args: Any, **kwargs: Any) -> Any:
        for functions in reversed(replacements):
            if name in functions:
                return functions[name](*args, **kwargs)
        return original(*args, **kwargs)

    return replaced_or_original
