"""
Adds our commands to the `parlai` command line, on top of `prepare_parlai`.

`parlai` imports this at every start (through `parlai_internal.scripts`), so nothing
here may be slow, and an error here may not break the user's other commands.
"""

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pkgutil import iter_modules
from types import TracebackType
from typing import Any, NoReturn

from parlai.core.loader import SCRIPT_REGISTRY, register_script
from parlai.core.params import ParlaiParser
from parlai.core.script import ParlaiScript

from parlai_ext.commands.command import (
    COMMANDS,
    fail,
    find_command,
    print_anywhere,
    refuse_arguments,
    refuse_unknown,
)
from parlai_ext.commands.signals import end_in_one_line
from parlai_ext.compat.parlai_setup import PREFIX, prepare_parlai
from parlai_ext.core.errors import UserError, printable

UNKNOWN_COMMAND = re.compile("argument COMMAND: invalid choice: '(.*?)' \\(choose")
ZOO_PATHS = ('model_file', 'dict_file', 'bpe_vocab', 'bpe_merge')


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
    parse = ParlaiParser.parse_known_args
    ParlaiParser.parse_known_args = options_when_named(parse)
    ParlaiParser.error = short_error(ParlaiParser.error)
    ParlaiParser.format_help = grouped_help(ParlaiParser.format_help)
    ParlaiParser.add_extra_args = skip_further_options(ParlaiParser.add_extra_args)
    process = ParlaiParser._process_args_to_opts
    ParlaiParser._process_args_to_opts = paths_as_given(process)
    sys.excepthook = one_line_hook
    print_anywhere()


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
            parser = ParlaiParser(False, False, description=COMMANDS[name])
            # core/script.py:304 adds the groups to others that hold the same options
            parser._action_groups.clear()
            return parser

        @classmethod
        def help(cls, **kwargs: Any) -> str:
            return find_command(name).parser(name).format_help()

        @classmethod
        def main(cls, *args: str, **kwargs: Any) -> Any:
            return find_command(name).main(*args, **kwargs)

        def run(self) -> Any:
            command = find_command(name)
            names = command.option_names()
            return command.execute({key: self.opt[key] for key in names})

    return Script


def options_when_named(parse: Callable[..., Any]) -> Callable[..., Any]:
    """
    Wrap ParlAI's parsing so that a command of ours gets its options when it is named:
    modules of others are not imported.
    """

    def parse_known_args(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = self.prog.split()[-1]
        if name in COMMANDS and not hasattr(self, '_has_options'):
            self._has_options = True
            try:
                find_command(name).add_options(self)
            except ImportError as e:
                hint = 'see: parlai-ext doctor'
                fail(f'`parlai {name}` is missing: {e}; {hint}')
        return parse(self, *args, **kwargs)

    return parse_known_args


def short_error(long_error: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    """
    Wrap ParlAI's parsing error so that our commands print it without the help text.
    """

    def error(self: Any, message: str) -> NoReturn:
        parser = getattr(self, '_help_subparser', None) or self
        name = parser.prog.split()[-1]
        if unknown := UNKNOWN_COMMAND.match(message):
            refuse_unknown(unknown[1], SCRIPT_REGISTRY)
        if name not in COMMANDS:
            long_error(self, message)
        refuse_arguments(name, message, parser)

    return error


def grouped_help(long_help: Callable[..., str]) -> Callable[..., str]:
    """
    Wrap ParlAI's help so that the help of our commands keeps its groups of options.

    ParlAI puts all options of a command into one group (core/script.py:302), with
    "(default: None)" for those that a protocol decides.
    """

    def format_help(self: Any) -> str:
        name = self.prog.split()[-1]
        if name not in COMMANDS:
            return long_help(self)
        return find_command(name).parser(name).format_help()

    return format_help


def skip_further_options(add_more: Callable[..., None]) -> Callable[..., None]:
    """
    Wrap ParlAI's `add_extra_args` so that it does nothing for our commands.

    ParlAI reads the `.opt` of ``--model-file``, maybe a pickle, and downloads the
    model (core/params.py:139), before a command could check either.
    """

    def add_extra_args(self: Any, args: Any = None) -> None:
        ours = self.prog.split()[-1] in COMMANDS
        if type(self) is not ParlaiParser:  # the parser of the command line itself
            # it searches for every command after an option: core/script.py:177
            ours = ours or _names_our_command(sys.argv[1:] if args is None else args)
        if not ours:
            add_more(self, args)

    return add_extra_args


def _names_our_command(args: Sequence[str]) -> bool:
    """
    True if the first word that names a command names one of ours.
    """
    names = (arg for arg in args if arg in SCRIPT_REGISTRY)
    return next(names, None) in COMMANDS


def paths_as_given(process: Callable[..., None]) -> Callable[..., None]:
    """
    Wrap ParlAI's reading of options so that it leaves the ``zoo:`` paths of our
    commands as they are.

    ParlAI downloads the model of a ``zoo:`` path at once (core/params.py:1129).
    """

    def _process_args_to_opts(self: Any, args: Any = None) -> None:
        values = vars(self.args)
        if values.get('super_command') not in COMMANDS:
            process(self, args)
            return
        paths = {key: values.pop(key) for key in ZOO_PATHS if key in values}
        process(self, [])  # no option is an override
        self.opt.update(paths)

    return _process_args_to_opts


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
    if isinstance(error, ModuleNotFoundError) and error.name:
        package, _, name = error.name.rpartition('.')
        if package in ('parlai_ext.agents', 'parlai_ext.tasks'):
            folder = sys.modules[package].__path__
            there = ', '.join(PREFIX + module.name for module in iter_modules(folder))
            return f'there is no {PREFIX}{name}; known: {there or "none"}'
    return None
