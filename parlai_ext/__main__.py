"""
`python -m parlai_ext COMMAND …`: the `parlai` command line where `parlai` itself fails.

It works although another `parlai_internal` hides ours, starts commands that need no
model without ParlAI, and reports a missing or too-new package in one line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence

from parlai_ext.commands.signals import end_as_usual, end_in_one_line

if __name__ == '__main__':  # before the other imports, which take their time
    end_in_one_line()

from parlai_ext.commands.command import (
    COMMANDS,
    fail,
    print_anywhere,
    require_current_folder,
    run_directly,
)
from parlai_ext.commands.installation import findings
from parlai_ext.core.errors import UserError

WITHOUT_PARLAI = ('rank_systems', 'report_run', 'show_dialogue', 'doctor')


def main(args: Sequence[str] | None = None) -> None:
    """
    Run one command of the `parlai` command line, ours or ParlAI's.
    """
    args = list(sys.argv[1:] if args is None else args)
    print_anywhere()
    try:
        require_current_folder()
    except UserError as error:
        fail(str(error))
    if not args or args[0] not in COMMANDS:
        end_as_usual()  # ParlAI's train_model saves its model at Ctrl-C
    if args and args[0] in WITHOUT_PARLAI:
        try:
            run_directly(args[0], args[1:])
        except ModuleNotFoundError as e:
            fail(f'{args[0]} needs the package {e.name!r}; install it with pip')
    else:
        run_with_parlai(args)


def run_with_parlai(args: list[str]) -> None:
    """
    Start ParlAI's own command line with our commands in it.
    """
    # ParlAI imports pkg_resources, which warns; setuptools is pinned for that reason
    warnings.filterwarnings('ignore', message='pkg_resources is deprecated')
    try:
        from parlai.core.script import superscript_main

        from parlai_ext.commands import plugin
    except Exception as e:
        fail(import_problem(e))
    plugin.register()
    superscript_main(args)


def import_problem(error: Exception) -> str:
    """
    Return why ParlAI cannot be imported: the most important problem of the installation
    with its solution, else the error.
    """
    wrong = [finding for finding in findings() if finding.wrong]
    if not wrong:
        return f'parlai cannot be imported: {type(error).__name__}: {error}'
    return f'{wrong[0].problem}; solve it with: {wrong[0].solution}'


def ignore_current_folder() -> None:
    """
    Import no modules from the current folder, as `parlai` does not.

    ``python -m`` looks there first, and a `projects` or a `transformers.py` in it would
    run. With PYTHONPATH=. they still do.
    """
    safe = getattr(sys.flags, 'safe_path', False)  # since Python 3.11
    with contextlib.suppress(OSError):  # the current folder may be gone
        if not safe and sys.path and os.path.realpath(sys.path[0]) == os.getcwd():
            del sys.path[0]


if __name__ == '__main__':
    ignore_current_folder()
    main()
