"""
Commands that write files are disturbed, then given again: they are ended by a signal,
their disk fills up, or others write into the same folder.

A trial holds if the command ended as it should and said one line (nothing, for
SIGKILL), no finished file of dialogues or scores is touched again, and the second
command ends with the files of an undisturbed run.
"""

import contextlib
import errno
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parlai_ext.commands.signals import exit_code
from torture.commands import (
    CASES,
    differences,
    files_under,
    last_line,
    quiet,
    write_inputs,
    wrong_lines,
)
from torture.figure import Settings, Trial
from torture.forked import Forked, run_main

PATIENCE = 300.0  # seconds until a command is said to hang
# what changes files, before it is done
CHANGES = {'os.rename', 'os.remove', 'os.mkdir', 'os.rmdir', 'os.truncate', 'os.link'}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# the plug-in prepares ParlAI in the child, as in a process of its own
NOT_IMPORTED = ('parlai_internal', '__main__', 'torture')


class Trees:
    """
    The folders in which cases begin, and the files with which they end.

    Commands run in one folder, ``work``, since some write its path.

    :param home: of the folders in which cases begin.
    :param work: another folder than ``work`` there.
    """

    def __init__(self, home: Path, work: Path | None = None):
        self.home, self.work = home, work or home / 'work'
        self.ends: dict[str, dict[str, bytes]] = {}
        self.seconds: dict[str, float] = {}
        self.steps: dict[str, int] = {}
        self.numbers = itertools.count()

    def start(
        self, name: str, step: int | None = None, number: int = signal.SIGKILL
    ) -> Forked:
        """
        Start the command of a case in ``work``, as `start_command` does.
        """
        log = self.home / 'logs' / f'{next(self.numbers):06d}.err'
        return start_command(CASES[name].args, self.work, log, step, number)

    def run(self, name: str) -> Path:
        """
        Run a case in ``work`` to its end; return the path of its log.

        :raises RuntimeError: when it fails; the message is its error lines.
        """
        child = self.start(name)
        if child.wait() != 0:
            raise RuntimeError(f'{name}: {child.output[-400:]}')
        return child.log

    def prepare(self, name: str) -> None:
        """
        Run a case to its end, undisturbed, when it is first needed: twice, since the
        first run is for the imports. The second one is measured.

        :raises RuntimeError: when the case does not end as it did before.
        """
        if name in self.ends:
            return
        inputs, start = self.home / 'inputs', self.home / f'start-{name}'
        if not inputs.exists():
            (self.home / 'logs').mkdir(parents=True)
            with quiet():
                write_inputs(inputs)
        self._copy(inputs)
        for earlier in CASES[name].after.split():
            self.run(earlier)
        shutil.copytree(self.work, start)
        for module in self.run(name).with_suffix('.modules').read_text().split():
            if not module.startswith(NOT_IMPORTED):
                with contextlib.suppress(Exception):
                    __import__(module)
        self.ends[name] = files_under(self.work)
        self._copy(start)
        begin = time.perf_counter()
        log = self.run(name)
        self.seconds[name] = time.perf_counter() - begin
        self.steps[name] = int(log.with_suffix('.steps').read_text())
        if changed := self.changed(name):
            raise RuntimeError(f'{name} does not end as before: {", ".join(changed)}')

    def begin(self, name: str) -> None:
        """
        Make ``work`` what it is before a case.
        """
        self.prepare(name)
        self._copy(self.home / f'start-{name}')

    def _copy(self, folder: Path) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(folder, self.work)

    def finished(self) -> dict[str, tuple[int, int]]:
        """
        Return inode and time of the finished shards in ``work``: they are never touched
        again, but for those that `compare_runs` copies from packs.
        """
        return {
            str(path): (path.stat().st_ino, path.stat().st_mtime_ns)
            for path in self.work.rglob('*.jsonl')
            if path.parts[-3] == 'dialogues' or path.parts[-4] == 'scores'
            if 'joined' not in path.parts
        }

    def wrong_end(self, name: str) -> str:
        """
        Run a case again in ``work`` as it is; return what does not hold then, '' if it
        ends with the files of an undisturbed run and touches no finished shard.
        """
        before = self.finished()
        child = self.start(name)
        status = child.wait_or_kill(PATIENCE)
        changed = self.changed(name)
        if status == 1 and CASES[name].once and not changed:
            return wrong_lines(child.output)
        if status != 0:
            return f'run again, it ended with {status}: {last_line(child.output)}'
        if changed:
            return f'other files in the end: {", ".join(changed)}'
        now = self.finished()
        touched = [path for path, when in before.items() if now[path] != when]
        return f'made again: {", ".join(touched)}' if touched else ''

    def changed(self, name: str) -> list[str]:
        """
        Return the files in ``work`` that are not as at the end of a case.
        """
        return differences(self.ends[name], files_under(self.work))


def start_command(
    args: list[str],
    folder: Path,
    log: Path,
    step: int | None = None,
    number: int = signal.SIGKILL,
) -> Forked:
    """
    Start a command of the `parlai` command line in a folder, from the first statement
    of its `main` on; only imports may have been done before it was born.

    :param log: takes its errors. Beside it are, at the end, the number of its changes
        of files (``.steps``) and the names of its modules (``.modules``).
    :param step: before its n-th change of a file there (0, 1, …), the command gets the
        signal ``number``.
    """
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.chdir(folder)
        sys.addaudithook(before_change)
        status = run_main(args)
        done = next(count)
        log.with_suffix('.steps').write_text(str(done))
        log.with_suffix('.modules').write_text('\n'.join(list(sys.modules)))
        sys.exit(status)

    return Forked(work, log)


# ---- kills

KILLS = 200
# half of them just before a change of a file, the others at any time; the first seconds
# of a new Python are those of tests/commands/test_signals.py
STEP_SHARE = 0.5
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ATTEMPTS = 8  # to disturb a command before it has ended


@contextlib.contextmanager
def kills(settings: Settings) -> Iterator[tuple[int, Trial]]:
    """
    Kill each command that writes files, in turns.
    """
    trees, names = Trees(settings.folder), list(CASES)

    def trial(number: int, rng: random.Random) -> str:
        return kill_and_run_again(trees, names[number % len(names)], rng)

    yield KILLS, trial


def kill_and_run_again(trees: Trees, name: str, rng: random.Random) -> str:
    """
    Return what did not hold when a command was ended and given again.
    """
    number = rng.choice(SIGNALS)
    status: int | None = 0
    for _ in range(ATTEMPTS):
        trees.begin(name)
        status, errors = kill(trees, name, number, rng)
        if status != 0:
            break
    killed = number == signal.SIGKILL
    problem = ''
    if status is None:
        problem = f'still there after {PATIENCE:.0f} s'
    # 0: it had done its work before
    elif status not in (0, -number if killed else exit_code(number)):
        problem = f'exit code {status}: {last_line(errors)}'
    elif status > 0:
        problem = wrong_lines(errors)
    problem = problem or trees.wrong_end(name)
    return problem and f'{name}, {signal.Signals(number).name}: {problem}'


def kill(
    trees: Trees, name: str, number: int, rng: random.Random
) -> tuple[int | None, str]:
    """
    End a fork by a signal, before a change of a file or at any time; return its exit
    code and what it said.
    """
    if rng.random() < STEP_SHARE:
        child = trees.start(name, rng.randrange(trees.steps[name]), number)
    else:
        child = trees.start(name)
        if child.wait(rng.uniform(0, trees.seconds[name])) is not None:
            return child.code, child.output
        child.send(number)
    return child.wait_or_kill(PATIENCE), child.output


# ---- full disks

FULL_DISKS = 50
SIZE = 64 * 2**20  # bytes of the disk
NAMES = 2000  # files and folders that it can hold
BLOCK = 4096
NAMES_SHARE = 0.2  # of the trials, in which names run out


@contextlib.contextmanager
def full_disks(settings: Settings) -> Iterator[tuple[int, Trial]]:
    """
    Fill the disk of each command that writes files, in turns. The disk is in memory and
    is mounted for this, which only root may do: for others there is no trial.
    """
    disk, names = settings.folder / 'disk', list(CASES)
    disk.mkdir()
    options = f'size={SIZE},nr_inodes={NAMES},mode=0777'
    mount = ['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', str(disk)]
    trees = Trees(settings.folder, disk / 'work')

    def trial(number: int, rng: random.Random) -> str:
        return fill_and_run_again(trees, names[number % len(names)], disk, rng)

    if subprocess.run(mount, capture_output=True).returncode:
        print('disk_full is left out: root may mount a disk', file=sys.stderr)
        yield 0, trial
        return
    try:
        yield FULL_DISKS, trial
    finally:
        subprocess.run(['umount', '-l', str(disk)], check=True)


def fill_and_run_again(trees: Trees, name: str, disk: Path, rng: random.Random) -> str:
    """
    Return what did not hold when the disk of a command was full.
    """
    fill: Callable[[Trees, str, Path, float], None] = fill_bytes
    if rng.random() < NAMES_SHARE:
        fill = fill_names
    share = rng.random()
    status: int | None = 0
    for _ in range(ATTEMPTS):
        make_room(disk)
        trees.begin(name)
        fill(trees, name, disk, share)
        child = trees.start(name)
        status = child.wait_or_kill(PATIENCE)
        if status != 0:
            break
        share /= 2
    make_room(disk)
    problem = ''
    if status == 0:
        problem = 'it did not notice'
    elif status != 1:
        problem = f'exit code {status}: {last_line(child.output)}'
    elif wrong_lines(child.output):
        problem = wrong_lines(child.output)
    elif os.strerror(errno.ENOSPC) not in child.output:
        problem = f'it said {last_line(child.output)}'
    problem = problem or trees.wrong_end(name)
    return problem and f'{name}, {share:.3f} of what is needed: {problem}'


def fill_bytes(trees: Trees, name: str, disk: Path, share: float) -> None:
    """
    Leave a share of the bytes that the command's files will need.
    """
    sizes = [len(data) for data in trees.ends[name].values()]
    there = [p.stat().st_size for p in trees.work.rglob('*') if p.is_file()]
    needed = sum(-(-size // BLOCK) for size in sizes)
    needed -= sum(-(-size // BLOCK) for size in there)
    free = os.statvfs(disk).f_bavail - int(share * max(1, needed))
    with (disk / 'ballast').open('wb') as ballast:
        os.posix_fallocate(ballast.fileno(), 0, free * BLOCK)


def fill_names(trees: Trees, name: str, disk: Path, share: float) -> None:
    """
    Leave a share of the names that the command's files will need.
    """
    needed = len(trees.ends[name]) - len(files_under(trees.work))
    (disk / 'many').mkdir()
    for k in range(os.statvfs(disk).f_favail - int(share * max(1, needed))):
        (disk / 'many' / str(k)).touch()


def make_room(disk: Path) -> None:
    """
    Remove what fills the disk.
    """
    (disk / 'ballast').unlink(missing_ok=True)
    shutil.rmtree(disk / 'many', ignore_errors=True)


# ---- several writers

WRITERS = 60
# on one run; the last one finishes it in any case
STAGES = ('collect', 'score', 'rank', 'report', 'evaluate')


@contextlib.contextmanager
def writers(settings: Settings) -> Iterator[tuple[int, Trial]]:
    """
    Start two or three writers at once: in half of the trials stages of one run, in the
    others the same command several times, every command in turns.
    """
    trees, names = Trees(settings.folder), list(CASES)

    def trial(number: int, rng: random.Random) -> str:
        several = rng.choice((2, 3))
        if number % 2:
            name = names[number // 2 % len(names)]
            return write_at_once(trees, name, name, [name] * several, rng)
        stages = [rng.choice(STAGES) for _ in range(several)]
        return write_at_once(trees, rng.choice(STAGES), STAGES[-1], stages, rng)

    yield WRITERS, trial


def write_at_once(
    trees: Trees, start: str, end: str, names: list[str], rng: random.Random
) -> str:
    """
    Return what did not hold when several commands wrote into a folder.

    :param start: the case in whose folder they begin.
    :param end: the case that finishes the folder.
    """
    for name in {*names, end}:
        trees.prepare(name)
    trees.begin(start)
    children = []
    longest = max(trees.seconds[name] for name in names)
    for name in names:
        children.append(trees.start(name))
        time.sleep(rng.uniform(0, longest / 2) * rng.randrange(2))
    problems = []
    for name, child in zip(names, children, strict=True):
        status = child.wait_or_kill(PATIENCE)
        if status not in (0, 1):
            problems.append(f'{name} ended with {status}: {last_line(child.output)}')
        elif status == 1 and (problem := wrong_lines(child.output)):
            problems.append(f'{name}: {problem}')
    problems += [problem] if (problem := trees.wrong_end(end)) else []
    label = f'{" + ".join(names)} where {start} begins'
    return f'{label}: {"; ".join(problems)}' if problems else ''
