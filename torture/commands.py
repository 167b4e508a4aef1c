"""
A command of ours in a forked process, and how it ended.
"""

import itertools
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.forked import Forked, run_main

LINE = re.compile(r'(?:^|[\r\n])error: ')
# what changes files, before it is done
CHANGES = {'os.rename', 'os.remove', 'os.mkdir', 'os.rmdir', 'os.truncate', 'os.link'}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Command(Forked):
    """
    A command, from the first statement of our `main` on; only imports may have been
    done before it was born.

    :param args: the words of the command line.
    :param folder: in which it runs.
    :param log: takes what it prints. Beside it are, at the end, the number of its
        changes of files and the names of its modules (``.json``).
    :param step: before its n-th change of a file there (0, 1, …), the command gets the
        signal ``number``.
    """

    def __init__(
        self,
        args: Sequence[str],
        folder: Path,
        log: Path,
        step: int | None = None,
        number: int = signal.SIGKILL,
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

            os.chdir(folder)
            sys.argv = ['parlai_ext', *args]
            sys.addaudithook(before_change)
            status = run_main(main, args)
            told = json.dumps([next(count), list(sys.modules)])
            log.with_suffix('.json').write_text(told)
            sys.exit(status)

        super().__init__(work, log)

    def problem(self, deadline: float, memory: float) -> str:
        """
        Return what is wrong with the end of a command that had so much time and memory;
        '' if it ended by itself and without a traceback.
        """
        if self.code is None:
            return f'it did not end within {deadline:g} s'
        if self.code not in (0, 1):
            return f'exit code {self.code}: {self.output[-300:]}'
        if 'Traceback' in self.output:
            return f'a traceback: {self.output[-300:]}'
        return f'it took {self.memory / 1e9:.1f} GB' if self.memory > memory else ''

    def wrong_lines(self) -> str:
        """
        Return what is wrong with what a refused or ended command has printed; '' if it
        is one error line beside progress bars and warnings.
        """
        if 'Traceback' in self.output:
            return f'a traceback: {last_line(self.output)}'
        lines = len(LINE.findall(self.output))
        return '' if lines == 1 else f'{lines} error lines: {self.output[-300:]}'


def last_line(text: str) -> str:
    """
    Return the last line of a text.
    """
    return text.strip().split('\n')[-1]
