"""
What a command is: options, a run, and one clear line for a user's mistake.

Plain argparse, so that commands that need no model start without torch. `plugin.py`
registers each with the `parlai` command line; `python -m parlai_ext` runs it directly.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn, TypeVar

from parlai_ext.commands.signals import (
    LINE,
    Interrupted,
    exit_code,
    signals_as_interrupt,
)
from parlai_ext.core.errors import UserError, nearest, printable
from parlai_ext.core.options import flag_values, read_options, read_truth
from parlai_ext.core.secrets import hide_printed, without_secrets
from parlai_ext.core.visible_output import VisibleOutput

T = TypeVar('T')
# of a disk, a quota and `ulimit -f`; whatever was written, these are no bug
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
COMMANDS = {
    'evaluate_systems': 'parlai_ext.commands.evaluate_systems:EvaluateSystems',
    'collect_dialogues': 'parlai_ext.commands.collect_dialogues:CollectDialogues',
    'score_dialogues': 'parlai_ext.commands.score_dialogues:ScoreDialogues',
    'rank_systems': 'parlai_ext.commands.rank_systems:RankSystems',
    'validate_scorer': 'parlai_ext.commands.validate_scorer:ValidateScorer',
    'run_bench': 'parlai_ext.commands.run_bench:RunBench',
    'compare_metrics': 'parlai_ext.commands.compare_metrics:CompareMetrics',
    'report_run': 'parlai_ext.commands.report_run:ReportRun',
    'show_dialogue': 'parlai_ext.commands.show_dialogue:ShowDialogue',
    'audit_run': 'parlai_ext.commands.audit_run:AuditRun',
    'publish_run': 'parlai_ext.commands.publish_run:PublishRun',
    'verify_run': 'parlai_ext.commands.verify_run:VerifyRun',
    'compare_runs': 'parlai_ext.commands.compare_runs:CompareRuns',
    'build_leaderboard': 'parlai_ext.commands.build_leaderboard:BuildLeaderboard',
    'cite_run': 'parlai_ext.commands.cite_run:CiteRun',
    'rate_dialogues': 'parlai_ext.commands.rate_dialogues:RateDialogues',
    'export_crowdsourcing': (
        'parlai_ext.commands.export_crowdsourcing:ExportCrowdsourcing'
    ),
    'import_judgements': 'parlai_ext.commands.import_judgements:ImportJudgements',
    'export_annotation': 'parlai_ext.commands.export_annotation:ExportAnnotation',
    'import_annotation': 'parlai_ext.commands.import_annotation:ImportAnnotation',
    'import_dialogues': 'parlai_ext.commands.import_dialogues:ImportDialogues',
    'check_roster': 'parlai_ext.commands.check_roster:CheckRoster',
    'get_model': 'parlai_ext.commands.get_model:GetModel',
    'adapt_model': 'parlai_ext.commands.adapt_model:AdaptModel',
    'build_pairs': 'parlai_ext.commands.build_pairs:BuildPairs',
    'train_judge': 'parlai_ext.commands.train_judge:TrainJudge',
    'fit_judge': 'parlai_ext.commands.fit_judge:FitJudge',
    'judge_pairs': 'parlai_ext.commands.judge_pairs:JudgePairs',
    'build_toxic_prompts': 'parlai_ext.commands.build_toxic_prompts:BuildToxicPrompts',
    'compare_detectors': 'parlai_ext.commands.compare_detectors:CompareDetectors',
    'compare_safety': 'parlai_ext.commands.compare_safety:CompareSafety',
    'convert_model': 'parlai_ext.commands.convert_model:ConvertModel',
    'doctor': 'parlai_ext.commands.doctor:Doctor',
}
# former commands, and how to do their job now
REPLACED = {'chatmatch_tables': 'python -m benchmarks.chatmatch, from a checkout'}


def find_command(name: str) -> type[Command]:
    """
    Return the command class called ``name``, importing its module only now.
    """
    module, _, attribute = COMMANDS[name].partition(':')
    command: type[Command] = getattr(import_module(module), attribute)
    return command


class OneLineParser(argparse.ArgumentParser):
    """
    A parser whose errors are safe to print, whatever the arguments hold.
    """

    def error(self, message: str) -> NoReturn:
        """
        Print what is wrong and leave.
        """
        super().error(printable(message))


class Command:
    """
    A command: subclasses set `description` and `usage`, add options, and `run`.

    >>> RankSystems.main(run_dir='runs/demo')  # doctest: +SKIP
    """

    description = ''
    usage = '[option …]'

    def __init__(self, opt: Mapping[str, Any]):
        self.opt = opt

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """
        Add this command's options; ``type='bool'`` is known, as in ParlAI.
        """

    def run(self) -> Any:
        """
        Do the job and return its result.
        """
        raise NotImplementedError

    def options(self, cls: type[T]) -> T:
        """
        Return the options of a class, as the flags of the command give them.

        :raises UserError: names the flag that is wrong.
        """
        return read_options(cls, flag_values(cls, self.opt), '--')

    def require(self, **purposes: str) -> None:
        """
        Refuse to begin without options.

        :param purposes: by option, what it is.
        :raises UserError: names the first that is missing.
        """
        for name, purpose in purposes.items():
            if not self.opt[name]:
                raise UserError(f'--{name.replace("_", "-")} is needed: {purpose}')

    @classmethod
    def parser(cls, prog: str | None = None) -> argparse.ArgumentParser:
        """
        Return a plain parser with this command's options.
        """
        parser = OneLineParser(
            prog=prog,
            usage=f'%(prog)s {cls.usage}',
            description=cls.description,
            allow_abbrev=False,
        )
        parser.register('type', 'bool', read_truth)
        cls.add_arguments(parser)
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
            return cls(vars(parser.parse_args(list(args)))).run()
        defaults = {a.dest: a.default for a in parser._actions if a.dest != 'help'}
        unknown = sorted(set(kwargs) - set(defaults))
        if unknown:
            hint = nearest(unknown[0], defaults)
            raise UserError(f'unknown option {unknown[0]!r} of {cls.__name__}; {hint}')
        return cls({**defaults, **kwargs}).run()

    @classmethod
    def execute(cls, opt: Mapping[str, Any]) -> Any:
        """
        Run for the command line: a user's mistake is one line and exit code 1.
        """
        with one_line_errors(opt.get('run_dir') or opt.get('out')):
            return cls(opt).run()


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
        fail(str(e), e.exit_code)
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


def fail(line: str, code: int = 1) -> NoReturn:
    """
    Print one line to standard error and leave.
    """
    print(f'error: {printable(without_secrets(line))}', file=sys.stderr)
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


def run_directly(name: str, args: Sequence[str]) -> Any:
    """
    Run the command called ``name`` without ParlAI's own command line.
    """
    command = find_command(name)
    parser = command.parser(prog=f'parlai {name}')
    return command.execute(vars(parser.parse_args(list(args))))
