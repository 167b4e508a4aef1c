"""
`parlai-ext COMMAND …` (or `python -m parlai_ext`): our commands, started at once.

Our commands import a model's libraries only where they use a model, so help and early
mistakes need none. Every other command is ParlAI's, with ours in it; both work although
another `parlai_internal` hides ours.
"""

import os
import sys


def ignore_current_folder() -> None:
    """
    Import no modules from the current folder, as `parlai` does not.

    ``python -m`` looks there first, and a `projects` or a `transformers.py` in it would
    run. With PYTHONPATH=. they still do.
    """
    try:
        if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.getcwd():
            del sys.path[0]
    except OSError:  # the current folder may be gone
        pass


# before anything else is imported
ignore_current_folder()

# ruff: noqa: E402

import subprocess
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from parlai_ext.commands.signals import end_as_usual, end_in_one_line

# where a program starts, and not where one that runs imports this; before the other
# imports, which take their time
if 'parlai_ext.commands.command' not in sys.modules:
    end_in_one_line()

from parlai_ext import __version__
from parlai_ext.commands.command import (
    COMMANDS,
    fail,
    find_command,
    print_anywhere,
    program,
    refuse_unknown,
    require_current_folder,
    run_directly,
)
from parlai_ext.core import UserError


def main(args: Sequence[str] | None = None) -> None:
    """
    Run one command, ours or ParlAI's.
    """
    args = list(sys.argv[1:] if args is None else args)
    print_anywhere()
    try:
        require_current_folder()
    except UserError as error:
        fail(str(error))
    name = args[0] if args else '--help'
    if name in ('--help', '-h'):
        print(help_text())
    elif name == '--completion':
        print(completion_script())
    elif name == 'setup':
        install_parlai()
    elif name == '--version':
        print(f'parlai_ext {__version__}')
    elif name in COMMANDS:
        try:
            run_directly(name, args[1:])
        except ModuleNotFoundError as e:
            mend = 'parlai-ext setup' if e.name == 'parlai' else 'pip'
            fail(f'{name} needs the package {e.name!r}; install it with {mend}')
    elif is_mistyped(name, scripts := parlai_scripts()):
        refuse_unknown(name, [*COMMANDS, *(script.stem for script in scripts)])
    else:
        end_as_usual()  # ParlAI's train_model saves its model at Ctrl-C
        run_with_parlai(args)


def install_parlai() -> None:
    """
    Install ParlAI without its pins, which no requirement of ours can do, and say what
    else is missing.
    """
    from parlai_ext.commands.doctor import PARLAI

    install = [sys.executable, '-m', 'pip', 'install', '--no-deps', f'parlai=={PARLAI}']
    if subprocess.run(install).returncode:
        fail(f'parlai {PARLAI} could not be installed; pip says why above')
    run_directly('doctor', [])


def help_text() -> str:
    """
    Return our commands with a line about each.
    """
    width = max(map(len, COMMANDS))
    lines = [f'  {name:{width}}  {about}' for name, about in COMMANDS.items()]
    start = program()
    return '\n'.join(
        (
            f'usage: {start} COMMAND [option …]',
            '',
            'Automatic evaluation of open-domain dialogue systems.',
            '',
            *lines,
            '',
            f'options of a command: {start} COMMAND --help',
            f"ParlAI's own commands run, too: {start} help",
            f'install ParlAI, without its pins: {start} setup',
            f'complete by the Tab key: eval "$({start} --completion)"',
        )
    )


# of its command line, in no file of a command
PARLAIS_OWN = ('help', 'h', 'helpall', '--helpall', '--h')
COMPLETION = """\
_parlai_ext() {{
  local words
  case "${{COMP_WORDS[1]}}" in
{cases}
    *) words="{commands}" ;;
  esac
  [ "$COMP_CWORD" = 1 ] && words="{commands}"
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _parlai_ext parlai-ext"""


def completion_script() -> str:
    """
    Return a script of bash (with ``bashcompinit``, of zsh) that completes our commands
    and their flags, and file names everywhere else.
    """
    flags = {name: find_command(name).parser() for name in COMMANDS}
    cases = '\n'.join(
        f'    {name}) words="{" ".join(sorted(parser._option_string_actions))}" ;;'
        for name, parser in flags.items()
    )
    return COMPLETION.format(cases=cases, commands=' '.join(COMMANDS))


def parlai_scripts() -> list[Path]:
    """
    Return the files of ParlAI's commands, and of those in packages of the user's; none
    where ParlAI is missing.
    """
    if not find_spec('parlai'):
        return []
    packages = map(find_spec, ('parlai', 'parlai_fb', 'parlai_internal'))
    places = [one.submodule_search_locations or () for one in packages if one]
    return [
        file
        for homes in places
        for home in homes
        for file in sorted(Path(home).glob('scripts/[!_]*.py'))
    ]


def is_mistyped(name: str, scripts: Sequence[Path]) -> bool:
    """
    True if a word names no command of ParlAI, as far as its files tell: to import them
    takes seconds. Where there are none, if the word is nearly a command of ours.
    """
    if name in PARLAIS_OWN:
        return False
    if not scripts:
        return bool(get_close_matches(name, COMMANDS, n=1))
    quoted = f"'{name}'", f'"{name}"'  # where the command is registered
    texts = (script.read_text('utf-8', 'replace') for script in scripts)
    return name.startswith('-') or not any(q in text for text in texts for q in quoted)


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
        from parlai_ext.commands.doctor import findings

        # the most important problem of the installation, if there is one
        for finding in findings():
            if finding.wrong:
                fail(f'{finding.problem}; solve it with: {finding.solution}')
        fail(f'parlai cannot be imported: {type(e).__name__}: {e}')
    plugin.register()
    superscript_main(args)


if __name__ == '__main__':
    main()
