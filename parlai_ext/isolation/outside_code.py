"""
Code from outside the package, named ``module:NAME`` or ``path/file.py:NAME``.

It is imported only when the user names it: on the command line, or in a file that the
user passes. What a record says is never enough.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from parlai_ext.core import UserError, bytes_hash


def outside_module(name: str, *, named_by_user: bool) -> ModuleType:
    """
    Import the module of a scorer's name.

    :raises UserError: when the user did not name it, or it cannot be imported.
    """
    if not named_by_user:
        raise UserError(
            f'scorer {name!r} is code from outside the package, which is not imported '
            f'because a run folder names it; --scorer {name} runs it, if you trust it'
        )
    source, _, attribute = name.rpartition(':')
    try:
        if not source.endswith('.py') and '/' not in source:
            return import_module(source)
        return module_of_file(source)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # which foreign code may raise
        what = f'{type(error).__name__}: {error}'
        if Path(f'{source}.py').is_file():
            what = f'{what}; {source}.py:{attribute} names the file here'
        near = Path(source).parent / f'{getattr(error, "name", None)}.py'
        if near.is_file():
            what = f'{what}; PYTHONPATH={near.parent} before the command finds {near}'
        raise UserError(f'scorer {name}: it cannot be imported: {what}') from error


def module_of_file(source: str) -> ModuleType:
    """
    Return the module of a file, which is imported once for each content.
    """
    file = Path(os.path.expanduser(source)).resolve()
    if not file.is_file():
        raise UserError(f'scorer: there is no file {source}')
    code = file.read_bytes()
    digest = bytes_hash(code)
    module_name = f'parlai_ext_outside_{file.stem}_{digest[:16]}'
    if module_name not in sys.modules:
        module = sys.modules[module_name] = ModuleType(module_name)
        module.__file__ = str(file)
        try:
            # these bytes, and not what a folder `__pycache__` may have for them
            exec(compile(code, file, 'exec'), vars(module))
        except BaseException:
            del sys.modules[module_name]
            raise
    return sys.modules[module_name]


def own_files(file: Path) -> list[Path]:
    """
    Return a file of outside code, then the files beside it that it or one of these
    imports. Nothing is run. Of installed code only the file itself is returned.
    """
    from modulefinder import ModuleFinder

    finder = ModuleFinder([] if 'site-packages' in file.parts else [str(file.parent)])
    finder.run_script(str(file))
    paths = [vars(module)['__file__'] for module in finder.modules.values()]
    imported = {Path(path) for path in paths if path} - {file}
    return [file, *sorted(imported)]
