"""
Flip a byte of a file of a run, or cut the file; then let the commands read it.

A trial holds if a command names the file in one line, or if the files are, in the end,
what they were: some are written anew from others. A file of JSON may differ in its
white space. No command may write anything else than before, and none may end in another
exception than `UserError`.
"""

import json
import random
import shutil
from contextlib import chdir
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from parlai_ext.commands.command import find_command
from parlai_ext.core.errors import UserError
from tests.support.small_run import files_of
from torture import Trials
from torture.inputs import CASES, RUN, differences, quiet, write_protocols

CUT_SHARE = 0.25  # of the trials; the others flip one byte
# two scorers score and rank the run
MAKING = 'evaluate score_other rate audit validate rank_other report_other report'
# what reads a file, or writes it anew: commands in order, by a pattern of its name; all
# in rankings/ is the other scorer's
READERS = {
    '*.metadata': 'collect',
    'agreement.json': 'validate',
    'audit*': 'report audit',
    'people/*': 'rate',
    'ranking.json': 'report rank',  # written anew by the second
    'rankings/*.json': 'report_other rank_other',
    'rankings/*': 'score rank_other report_other',
    '*': 'score rank_other rank report',
}


class Flips(Trials):
    """
    Damages the files of a run, one at a time, every file equally often.
    """

    count = 10_000

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.run, self.intact_run = folder / RUN, folder / 'intact'
        write_protocols(folder)
        for name in MAKING.split():
            run_case(name, folder)
        shutil.copytree(self.run, self.intact_run)
        self.intact = files_of(self.run)
        self.names = sorted(name for name, data in self.intact.items() if data)

    def trial(self, number: int, rng: random.Random) -> str:
        name = self.names[number % len(self.names)]
        damaged = damage(self.intact[name], rng)
        if damaged == self.intact[name]:
            return ''
        (self.run / name).write_bytes(damaged)
        try:
            problem = self._read_damaged(name)
        finally:
            shutil.rmtree(self.run)
            shutil.copytree(self.intact_run, self.run)
        return problem and f'{name}: {problem}'

    def _read_damaged(self, path: str) -> str:
        """
        Let commands read a damaged file, until one names it; return what did not hold.
        """
        readers = next(names for part, names in READERS.items() if fnmatch(path, part))
        for name in readers.split():
            try:
                run_case(name, self.folder)
            except UserError as error:
                line = str(error)
                if '\n' in line:
                    return f'{name} ended in several lines'
                return '' if path in line else f'{name} named something else: {line}'
            changed = {*differences(self.intact, files_of(self.run))} - {path}
            if changed:
                return f'{name} wrote something else: {", ".join(sorted(changed))}'
        same = content((self.run / path).read_bytes()) == content(self.intact[path])
        return '' if same else 'nobody noticed'


def run_case(name: str, folder: Path) -> None:
    """
    Run the command of a case in this process, in a folder; nothing is shown.

    :raises UserError: what would be its one line.
    """
    command, options = parsed_case(name)
    with quiet(), chdir(folder):
        command(options).start()


@cache
def parsed_case(name: str) -> tuple[type[Any], dict[str, Any]]:
    """
    Return the command of a case and its options.
    """
    word, *args = CASES[name].args
    command = find_command(word)
    return command, vars(command.parser(word).parse_args(args))


def damage(data: bytes, rng: random.Random) -> bytes:
    """
    Return data with one byte changed, or cut off somewhere.
    """
    at = rng.randrange(len(data))
    if rng.random() < CUT_SHARE:
        return data[:at]
    return data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]


def content(data: bytes) -> object:
    """
    Return what a file of JSON holds; of another file its bytes.
    """
    try:
        return json.loads(data)
    except ValueError:
        return data
