"""
Adds our commands to the `parlai` command line, on top of `prepare_parlai`.

`parlai` imports this at every start (through `parlai_internal.scripts`), so nothing
here may be slow, and an error here may not break the user's other commands.
"""

import re
import sys
from ast import literal_eval
from functools import cache
from pkgutil import iter_modules
from types import TracebackType
from typing import Any

from parlai.core.loader import SCRIPT_REGISTRY, register_script
from parlai.core.params import ParlaiParser
from parlai.core.script import ParlaiScript, _SupercommandParser

from parlai_ext.commands.command import (
    COMMANDS,
    fail,
    find_command,
    print_anywhere,
    refuse_unknown,
)
from parlai_ext.commands.signals import end_in_one_line
from parlai_ext.compat import PREFIX, prepare_parlai
from parlai_ext.core import UserError, printable

UNKNOWN_COMMAND = re.compile(r'argument COMMAND: invalid choice: (.*) \(choose')
# ParlAI's own, which `register` replaces
PARSE_ARGS = _SupercommandParser.parse_args
LONG_ERROR = _SupercommandParser.error


@cache
def register() -> None:
    """
    Prepare ParlAI and add our commands, their help and their errors to `parlai`.

    Further calls do nothing.
    """
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        end_in_one_line()
    prepare_parlai()
    for name in COMMANDS:
        register_script(name)(script_of(name))
    _SupercommandParser.parse_args = parse_args
    _SupercommandParser.error = one_line_error
    sys.excepthook = one_line_hook
    print_anywhere()


def parse_args(self: Any, args: Any = None, *more: Any, **kwargs: Any) -> Any:
    """
    Parse the command line of `parlai`: our commands parse their own.

    ParlAI's parser would import every command, put all options into one group of the
    help, and read the `.opt` of ``--model-file``, maybe a pickle, and download models
    (core/params.py:139, 1129) before a command could check either.
    """
    words = list(sys.argv[1:] if args is None else args)
    name = next((word for word in words if word in SCRIPT_REGISTRY), '')
    if name not in COMMANDS:
        return PARSE_ARGS(self, args, *more, **kwargs)
    words.remove(name)
    try:
        own_parser = find_command(name).parser(name)
    except ImportError as e:
        fail(f'`parlai {name}` is missing: {e}; see: parlai-ext doctor')
    return {'super_command': name, **vars(own_parser.parse_args(words))}


def one_line_error(self: Any, message: str) -> None:
    """
    Leave with one line about an unknown command, with ParlAI's help for other errors.
    """
    if unknown := UNKNOWN_COMMAND.match(message):
        refuse_unknown(literal_eval(unknown[1]), SCRIPT_REGISTRY)
    LONG_ERROR(self, message)


def script_of(name: str) -> type[ParlaiScript]:
    """
    Return a command as a ParlAI script, which imports it when it is used.
    """

    class Script(ParlaiScript):
        """
        Runs the command with the options that it declares, and no others.
        """

        @classmethod
        def setup_args(cls) -> ParlaiParser:
            return ParlaiParser(False, False, description=COMMANDS[name])

        @classmethod
        def help(cls, **kwargs: Any) -> str:
            return find_command(name).parser(name).format_help()

        @classmethod
        def main(cls, *args: str, **kwargs: Any) -> Any:
            return find_command(name).main(*args, **kwargs)

        def run(self) -> object:
            return find_command(name).execute(self.opt)

    return Script


def one_line_hook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """
    Print a user's mistake as one line: the exception hook of every `parlai` command.
    """
    line = user_mistake(error)
    if line is None:
        sys.__excepthook__(kind, error, trace)
    else:
        print(f'error: {printable(line)}', file=sys.stderr)


def user_mistake(error: BaseException) -> str | None:
    """
    Return the line about a user's mistake; `None` if the error is not one.
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, RuntimeError) and 'Need to set `model`' in str(error):
        return '--model or --model-file is needed: who talks'
    if isinstance(error, ModuleNotFoundError) and error.name:
        package, _, name = error.name.rpartition('.')
        if package in ('parlai_ext.agents', 'parlai_ext.tasks'):
            folder = sys.modules[package].__path__
            there = ', '.join(PREFIX + module.name for module in iter_modules(folder))
            return f'there is no {PREFIX}{name}; known: {there or "none"}'
    return None
