"""
What all trials are made of: folders in which cases begin, and commands, in forked
processes or in this one.
"""

import io
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from parlai_ext.commands.command import find_command
from parlai_ext.systems import own_process
from tests.support.forked import Forked, run_main
from torture.inputs import CASES, Words, filled, put, write_inputs

LINE = re.compile(r'(?:^|[\r\n])error: ')
# what changes files, before it is done
CHANGES = {'os.rename', 'os.remove', 'os.mkdir', 'os.rmdir', 'os.truncate', 'os.link'}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SHARE_OF_MEMORY = 0.1  # of what is free, for a process of a system
# the plug-in prepares ParlAI in the child, as in a process of its own, and our
# `__main__` changes the path of modules
NOT_IMPORTED = ('parlai_internal', '__main__', 'parlai_ext.__main__', 'torture')


class Command(Forked):
    """
    A command, from the first statement of our `main` on; only imports may have been
    done before it was born.

    :param words: of the command line.
    :param folder: in which it runs.
    :param log: takes what it prints. Beside it are, at the end, the number of its
        changes of files and the names of its modules (``.json``).
    :param step: before its n-th change of a file there (0, 1, …), the command gets the
        signal ``number``.
    :param terminal: a file number in the place of its input and output.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        log: Path,
        *,
        step: int | None = None,
        number: int = signal.SIGKILL,
        terminal: int | None = None,
    ):
        count = itertools.count()

        def before_change(event: str, args: tuple[Any, ...]) -> None:
            if event not in CHANGES and not (event == 'open' and args[2] & WRITES):
                return
            place = args[0]  # a number: an open file that is cut
            path = '' if isinstance(place, int) else os.path.abspath(os.fsdecode(place))
            is_ours = not path or path.startswith(f'{folder}/')
            if is_ours and next(count) == step:
                os.kill(os.getpid(), number)

        def work() -> None:
            from parlai_ext.__main__ import main

            own_process.SHARE_OF_MEMORY = SHARE_OF_MEMORY
            os.chdir(folder)
            sys.argv = ['parlai_ext', *words]
            sys.addaudithook(before_change)
            status = run_main(main, words)
            told = json.dumps([next(count), list(sys.modules)])
            log.with_suffix('.json').write_text(told)
            sys.exit(status)

        super().__init__(work, log, terminal=terminal)

    def problem(self, *codes: int, seconds: float = 300.0, memory: float = 8e9) -> str:
        """
        Wait for the end of the command; return what is wrong with it, '' if it ended by
        itself, within its time and memory, and without a traceback.

        :param codes: the exit codes that are right; one above 0 needs one error line.
        """
        self.wait_or_kill(seconds)
        output, lines = self.output, len(LINE.findall(self.output))
        wrong = {
            f'it did not end within {seconds:g} s': self.code is None,
            f'exit code {self.code}': self.code not in codes,
            'a traceback': 'Traceback' in output,
            f'{lines} error lines': (self.code or 0) > 0 and lines != 1,
            f'it took {self.memory / 1e9:.1f} GB': self.memory > memory,
        }
        problem = next((words for words, is_so in wrong.items() if is_so), '')
        return problem and f'{problem}: {output[-300:]}'


class Trials(ExitStack):
    """
    The trials of a part, and what they have taken, which goes back at their end.
    Commands run in one folder, ``work``, since some write its path.

    :ivar names: the cases, which are tried in turns.
    :ivar count: how many trials there are.
    """

    names: Sequence[str]
    count: int

    def __init__(self, folder: Path):
        super().__init__()
        self.folder, self.work = folder, folder / 'work'
        self.logs = (folder / f'{number:06d}.err' for number in itertools.count())

    def trial(self, number: int, rng: random.Random) -> str:
        """
        Make the trial of a number; return what did not hold, '' if all did.
        """
        name = self.names[number % len(self.names)]
        problem = self.try_case(name, rng)
        return problem and f'{name[:60]!r}: {problem}'

    def try_case(self, name: str, rng: random.Random) -> str:
        """
        Try a case; return what did not hold, '' if all did.
        """
        raise NotImplementedError

    def start(self, line: str, words: Words | None = None, **how: Any) -> Command:
        """
        Start a command, by default in ``work``.

        :param how: parameters of `Command`.
        """
        how = {'folder': self.work, 'log': next(self.logs), **how}
        return Command(filled(line.split(), words or {}), **how)

    def finish(self, line: str) -> int:
        """
        Run a command in ``work`` to its end and import what it imported, so that later
        ones need not. Return the number of its changes of files.
        """
        child = self.start(line)
        if problem := child.problem(0):
            raise RuntimeError(f'{line}: {problem}')
        steps, modules = json.loads(child.log.with_suffix('.json').read_text())
        for module in modules:
            if not module.startswith(NOT_IMPORTED):
                with suppress(Exception):
                    __import__(module)
        return int(steps)

    def begin(self, before: str) -> None:
        """
        Make ``work`` what a case leaves; '': the inputs of all.
        """
        start = self.folder / 'starts' / (before or 'inputs')
        if not start.exists():
            if before:
                self.begin(CASES[before].after)
                self.finish(CASES[before].run)
            else:
                self.clear()
                child = Forked(lambda: write_inputs(self.work), next(self.logs))
                if child.wait():
                    raise RuntimeError(child.output[-400:])
            shutil.copytree(self.work, start)
        self.clear()
        shutil.copytree(start, self.work, dirs_exist_ok=True)

    def lay_out(self, files: Mapping[str, Any], words: Words) -> None:
        """
        Put nothing but these files of cases.yaml into ``work``.
        """
        self.clear()
        for name, content in files.items():
            put(self.work / name, content, words)

    def clear(self) -> None:
        """
        Empty ``work``, in which processes may be that go on.
        """
        self.work.mkdir(exist_ok=True)
        for place in self.work.iterdir():
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink()


def run_here(line: str, folder: Path) -> None:
    """
    Run a command in this process, so that later forks have all that it loads, and
    show nothing.

    :raises UserError: what would be its one line.
    """
    word, *words = line.split()
    command, out = find_command(word), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(out):
        command(vars(command.parser(word).parse_args(words))).start()


def differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """
    Return the names of files that are not the same, or not there, in both.
    """
    names = sorted({*before, *after})
    return [name for name in names if before.get(name) != after.get(name)]
