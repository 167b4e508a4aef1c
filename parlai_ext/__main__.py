"""
`python -m parlai_ext COMMAND …`: the `parlai` command line, wherever that is broken.

Works behind a `parlai_internal` that hides ours, starts commands that need no model
without ParlAI, and turns a missing or too-new package into one clear line.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from parlai_ext.commands import installation as doctor
from parlai_ext.commands.command import fail, print_anywhere, run_directly

WITHOUT_PARLAI = ('rank_systems', 'report_run', 'doctor')


def main(args: Sequence[str] | None = None) -> None:
    """
    Run one command of the `parlai` command line, ours or ParlAI's.
    """
    args = list(sys.argv[1:] if args is None else args)
    print_anywhere()
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
    # ParlAI's first import; it warns of its end, which `setuptools<82` puts off
    warnings.filterwarnings('ignore', message='pkg_resources is deprecated')
    try:
        from parlai.core.script import superscript_main

        from parlai_ext.commands import plugin
    except Exception as e:
        fail(first_aid(e))
    plugin.register()
    superscript_main(args)


def first_aid(error: Exception) -> str:
    """
    Return what the doctor says first where ParlAI cannot be imported.
    """
    wrong = [finding for finding in doctor.findings() if finding.wrong]
    if not wrong:
        return f'parlai cannot be imported: {type(error).__name__}: {error}'
    return f'{wrong[0].what}; to mend it: {wrong[0].mend}'


def not_from_here() -> None:
    """
    Have no module found in the current folder by chance, as `parlai` has none.

    ``python -m`` looks there first; a `projects` or a `transformers.py` in it would
    run. PYTHONPATH=. asks for that.
    """
    safe = getattr(sys.flags, 'safe_path', False)  # since Python 3.11
    if not safe and sys.path and os.path.realpath(sys.path[0]) == os.getcwd():
        del sys.path[0]


if __name__ == '__main__':
    not_from_here()
    main()
