"""
What a command is: its options, its run, and one clear line for a user's mistake.

Plain argparse, so that help and early mistakes need no torch. `plugin.py` registers
each with the `parlai` command line; `parlai-ext` runs it directly.
"""

import argparse
import contextlib
import errno
import io
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from parlai_ext.commands.signals import (
    LINE,
    Interrupted,
    exit_code,
    signals_as_interrupt,
)
from parlai_ext.core import (
    Fail,
    Flags,
    HumanJudgement,
    JsonObject,
    System,
    UserError,
    add_declared,
    flag_values,
    frozen,
    given_options,
    hide_printed,
    nearest,
    option,
    options_from_opt,
    options_of,
    plain_value,
    printable,
    read_options,
    require_known,
    without_secrets,
)
from parlai_ext.engines import Machine, data_in
from parlai_ext.view import VisibleOutput

if TYPE_CHECKING:
    from parlai_ext.core import Protocol
    from parlai_ext.store import RunFolder

T = TypeVar('T')
NEAR = 0.7  # so alike is an option that is meant; `--out` is not `--quiet`
# of a disk, a quota and `ulimit -f`; whatever was written, these are no bug
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# each command with the line about it in `parlai --help`
COMMANDS = {
    'evaluate_systems': (
        'Let systems talk, score what they say, rank them, write a page'
    ),
    'collect_dialogues': (
        'Let systems talk; the same command again goes on where it stopped'
    ),
    'score_dialogues': 'Score the dialogues of a run',
    'rank_systems': 'Rank the targets of a scored run, with intervals',
    'validate_scorer': (
        'Correlate a scorer (FED also w/o neg and w/o pos) with human scores'
    ),
    'run_bench': (
        'Correlate scorers with people on judged sets: a matrix with intervals'
    ),
    'compare_metrics': (
        'Compare the scorers of a bench: differences, clusters, ceilings'
    ),
    'report_run': 'Write the page and the leaderboard of a ranked run',
    'show_dialogue': 'Print one dialogue of a run with its scores',
    'audit_run': 'Can a result be gamed, does it depend on choices? One table',
    'publish_run': 'A run as one archive that others can check, compare and cite',
    'verify_run': 'What of a published run can be proven',
    'compare_runs': 'One ranking of published runs, or two runs side by side',
    'build_leaderboard': 'A site of published runs: one page for each protocol',
    'cite_run': 'A published run as a citation, with rows of a LaTeX table',
    'rate_dialogues': 'Write offline pages on which people compare or rate dialogues',
    'export_crowdsourcing': (
        "Write a run's dialogues as input of ParlAI's crowdsourcing tasks"
    ),
    'import_judgements': 'Read the judgements of people, and rank the systems by them',
    'export_annotation': 'Write blind sheets or pages on which people annotate answers',
    'import_annotation': (
        'Read what annotators said of answers, as tables with intervals'
    ),
    'ask_contexts': 'What systems answer to the contexts of a corpus, as dialogues',
    'import_dialogues': 'Bring dialogues that exist already into a run folder',
    'check_roster': 'Every system: present, to download or missing; size and memory',
    'get_model': 'Fetch small models by name: checked, converted once, whole or not',
    'adapt_model': 'Adapt an encoder or a language model to dialogues',
    'build_pairs': 'Pairs of good and bad responses, to train a judge on',
    'train_judge': 'A judge for PairEval or DirectEval, trained with LoRA on pairs',
    'fit_judge': 'The learned judge, fitted to your own annotations',
    'judge_pairs': (
        'How often a scorer prefers the good response of pairs to the bad one'
    ),
    'build_toxic_prompts': (
        'Toxic prompts with safe answers and their features, from dialogues'
    ),
    'compare_detectors': (
        'Detectors of toxic texts against what people say, with intervals'
    ),
    'compare_safety': (
        'Systems compared by their answers to toxic prompts, with intervals'
    ),
    'convert_model': 'A model file as safetensors, with its options and dictionary',
    'doctor': 'Name what is missing, too new or hidden, and the command that solves it',
}


def find_command(name: str) -> type['Command']:
    """
    Return the class of a command (``rank_systems``: `RankSystems`); its module is
    imported only now.
    """
    module = import_module(f'parlai_ext.commands.{name}')
    return getattr(module, name.title().replace('_', ''))


def program() -> str:
    """
    Return the command line that runs our commands, as the user started it.
    """
    path = Path(sys.argv[0])
    if path.parts[-2:] == ('parlai_ext', '__main__.py'):
        return 'python -m parlai_ext'
    return 'parlai-ext' if path.name == 'parlai-ext' else 'parlai'


OURS = re.compile(rf'\bparlai (?=({"|".join(COMMANDS)})\b)')


def as_started(text: str) -> str:
    """
    Return a hint with our commands named as the user started this one; not for texts of
    dialogues, which stay as they were said.
    """
    return OURS.sub(f'{program()} ', text)


def refuse_unknown(name: str, known: Iterable[str]) -> NoReturn:
    """
    Say in one line that there is no such command, and leave.
    """
    hint = nearest(name, known)
    fail(f'no command {name!r}; {hint} (all commands: {program()} --help)', 2)


class OneLineParser(argparse.ArgumentParser):
    """
    A parser whose errors are one line that is safe to print.
    """

    def error(self, message: str) -> NoReturn:
        """
        Print what is wrong, with the flag nearest to the first unknown word, and leave
        with status 2.
        """
        hint, unknown = '', message.removeprefix('unrecognized arguments: ')
        if unknown != message:
            flags = {flag.lstrip('-'): flag for flag in self._option_string_actions}
            word = re.split(r'[\s=]', unknown)[0].lstrip('-')
            for near in get_close_matches(word, flags, 1, NEAR):
                hint = f'; did you mean {flags[near]}?'
        fail(f'{self.prog}: {message}{hint} (all options: {self.prog} --help)', 2)


@frozen
class PrintedOptions:
    """
    What every command prints.
    """

    title = 'what is printed'
    json: bool = option(
        False,
        help='the result as one JSON document on standard output, all else on '
        'standard error',
        nargs=0,
    )
    quiet: bool = option(False, help='nothing but errors and the document', nargs=0)


class Command:
    """
    A command: subclasses set `usage`, declare their options, and `run`.

    >>> RankSystems.main(run_dir='runs/demo')  # doctest: +SKIP

    :cvar declares: classes of options, parts of such classes (`Flags`), and names of
        flags that several commands share (commands/options.py).
    :cvar of_run: what ``--run-dir`` is, for commands on a run that is there; they
        declare it by that.
    :cvar with_texts: fields of the result that hold toxic texts: ``--json`` leaves them
        out.
    """

    usage = '[option …]'
    declares: ClassVar[Sequence[type | Flags | str]] = ()
    of_run: ClassVar[str] = ''
    with_texts: ClassVar[Sequence[str]] = ()

    def __init__(self, opt: Mapping[str, Any]):
        self.opt = opt

    def start(self) -> Any:
        """
        Run with what the run needs around it.
        """
        with data_in(self.opt.get('datapath')):
            self.check_early()
            return self.run()

    def check_early(self) -> None:
        """
        Refuse what can be refused before anything heavy is imported. Of parts of
        classes (`Flags`), what is missing is found later.

        :raises UserError: for the first mistake.
        """
        for one in self.declares:
            if isinstance(one, type):
                self.options(one)
            elif isinstance(one, Flags):
                given = flag_values(one.cls, self.opt)
                given_options(one.cls, given, error=self.flag_error(one.cls))
        if self.of_run:
            self.existing_run  # noqa: B018 - read for its errors

    def run(self) -> object:
        """
        Do the job and return its result, as ``--json`` prints it.
        """
        raise NotImplementedError

    def options(self, cls: type[T]) -> T:
        """
        Return the options of a class, as the flags of the command give them.

        :raises UserError: names the flag that is wrong, or missing.
        """
        return read_options(cls, flag_values(cls, self.opt), error=self.flag_error(cls))

    def flag_error(self, cls: type) -> Fail:
        """
        Return what makes the error about an option of a class, by the name of its flag.
        """
        known = options_of(cls)

        def error(name: str, problem: str) -> UserError:
            one = known[name]
            shown = one.metavar if one.positional else one.flag_name()
            colon = '' if problem.startswith('is needed') else ':'
            return UserError(f'{shown}{colon} {problem}')

        return error

    @property
    def machine(self) -> Machine:
        """
        Where models lie on this machine, and how they compute on it.
        """
        return options_from_opt(Machine, self.opt)

    @cached_property
    def existing_run(self) -> 'RunFolder':
        """
        The run in the folder of ``--run-dir``.
        """
        from parlai_ext.store import RunFolder

        self.require(run_dir=self.of_run or 'the folder of a run')
        return RunFolder.existing(self.opt['run_dir'])

    @cached_property
    def own_protocol(self) -> 'Protocol | None':
        """
        The protocol of ``--config``; `None` where it is not given.
        """
        if not (config := self.opt['config']):
            return None
        from parlai_ext.scoring.registry import load_protocol_file

        return load_protocol_file(config).protocol

    @cached_property
    def human_judgements(self) -> Sequence[HumanJudgement]:
        """
        What people judged, in the file of ``--human-scores``; nothing without it.
        """
        if not (path := self.opt['human_scores']):
            return ()
        from parlai_ext.files import read_human_scores

        return read_human_scores(path)

    @property
    def added_systems(self) -> tuple[System, ...]:
        """
        The systems of ``--add-target``.
        """
        from parlai_ext.files import parse_target

        return tuple(parse_target(spec)[0] for spec in self.opt['add_target'] or ())

    def require(self, **purposes: str) -> None:
        """
        Refuse to begin without options.

        :param purposes: by option what it is.
        :raises UserError: names the first that is missing.
        """
        for name, purpose in purposes.items():
            if not self.opt[name]:
                raise UserError(f'--{name.replace("_", "-")} is needed: {purpose}')

    @classmethod
    def parser(cls, name: str | None = None) -> argparse.ArgumentParser:
        """
        Return a plain parser with this command's options and those of all commands.

        :param name: of the command, for the help.
        """
        parser = OneLineParser(
            prog=f'{program()} {name or ""}'.strip(),
            usage=f'%(prog)s {cls.usage}',
            description=COMMANDS[name] if name else None,
            allow_abbrev=False,
        )
        declares = ('--run-dir', *cls.declares) if cls.of_run else cls.declares
        if declares:  # the doctor, which has none, starts where half of us is missing
            from parlai_ext.commands.options import SHARED

            add_declared(
                parser,
                (
                    replace(SHARED[one], only=(one,)) if isinstance(one, str) else one
                    for one in declares
                ),
            )
        Flags(PrintedOptions).add_to(parser)
        return parser

    @classmethod
    def main(cls, *args: str, **kwargs: Any) -> Any:
        """
        Run from Python, with strings as on the command line or with keywords.

        :raises UserError: for what the command line would print as one line.
        """
        print_anywhere()
        parser = cls.parser()
        if not kwargs:
            return cls(vars(parser.parse_args(list(args)))).start()
        defaults = vars(parser.parse_args([]))
        for name in kwargs:
            require_known(name, defaults, f'unknown option {name!r} of {cls.__name__}')
        given = {name: plain_value(value) for name, value in kwargs.items()}
        return cls(defaults | given).start()

    @classmethod
    def execute(cls, opt: JsonObject) -> Any:
        """
        Run for the command line: a user's mistake is one line and exit code 1.
        """
        printed = options_from_opt(PrintedOptions, opt)
        with one_line_errors(opt.get('run_dir') or opt.get('out')):
            with contextlib.ExitStack() as streams:
                if printed.quiet:
                    from parlai_ext.view.progress import hide_bars

                    hide_bars()
                    silence = streams.enter_context(open(os.devnull, 'w'))
                    streams.enter_context(contextlib.redirect_stdout(silence))
                elif printed.json:
                    streams.enter_context(contextlib.redirect_stdout(sys.stderr))
                result = cls(opt).start()
            if printed.json:
                print(json_document(result, cls.with_texts))
            return result


def json_document(result: object, left_out: Sequence[str]) -> str:
    """
    Return the result of a command as JSON: records are objects with their fields;
    numbers that are not finite are null.

    :param left_out: names of fields of the result.
    """
    from pydantic_core import to_json

    def plain(value: Any) -> Any:
        return value.tolist() if hasattr(value, 'tolist') else str(value)

    return to_json(
        result, indent=2, exclude=set(left_out), fallback=plain, inf_nan_mode='null'
    ).decode()


class ModelCommand(Command):
    """
    A command that loads models: the files of ``--trust-model-code`` may run code.
    """

    def check_early(self) -> None:
        super().check_early()
        from parlai_ext.engines import is_zoo_path

        for value in filter(is_zoo_path, self.scorer_values()):
            from parlai_ext.systems.zoo import require_in_zoo

            require_in_zoo(value)
        if files := self.machine.trust_model_code:
            from parlai_ext.isolation.policy import note_trust

            note_trust(files)

    def scorer_values(self) -> list[str]:
        """
        Return the options of the scorer that the user gave: models are among them.
        """
        pairs = self.opt.get('scorer_option') or ()
        values = [pair.partition('=')[2] for pair in pairs]
        return [*values, self.opt.get('judge_model_file') or '']


@contextlib.contextmanager
def one_line_errors(folder: object = None) -> Iterator[None]:
    """
    Run what a command line asks for: a user's mistake, a full disk and a signal are one
    line and an exit code; what is printed hides secrets and shows hidden characters.

    :param folder: is named where the system does not say which file it could not use.
    """
    try:
        shown = contextlib.redirect_stdout(VisibleOutput(sys.stdout))
        with signals_as_interrupt(), shown, hide_printed():
            require_current_folder()
            yield
    except BrokenPipeError:  # `… | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Interrupted) else signal.SIGINT
        fail(LINE, exit_code(number))
    except UserError as e:
        fail(str(e), e.exit_code, e.examples)
    except OSError as e:
        if e.filename is None and e.errno not in NO_ROOM:
            raise
        place = e.filename or folder
        fail(f'{e.strerror}: {place}' if place else str(e.strerror))


def require_current_folder() -> None:
    """
    Refuse to work in a folder that was deleted: no path could be told.
    """
    try:
        os.getcwd()
    except OSError:
        raise UserError(
            'the current folder does not exist any more; cd to another one'
        ) from None


def fail(line: str, code: int = 1, examples: Sequence[str] = ()) -> NoReturn:
    """
    Print one line, and examples below it, to standard error and leave.
    """
    for text in (f'error: {line}', *examples):
        print(printable(without_secrets(as_started(text))), file=sys.stderr)
    raise SystemExit(code)


def print_anywhere() -> None:
    """
    Make standard output spell out characters that its encoding lacks, as standard error
    does.

    Tables hold dashes and names of any script; where a job runs with LANG=C or
    PYTHONIOENCODING=ascii, printing one would end a command whose work is done.
    """
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.errors in (
        'strict',
        'surrogateescape',
    ):
        out.reconfigure(errors='backslashreplace')


def print_lines(lines: Iterable[str]) -> None:
    """
    Print lines that may hold names of others, safe for a terminal.
    """
    for line in lines:
        print(printable(line))


def run_directly(name: str, args: Sequence[str]) -> Any:
    """
    Run the command called ``name`` without ParlAI's own command line.
    """
    command = find_command(name)
    return command.execute(vars(command.parser(name).parse_args(list(args))))
