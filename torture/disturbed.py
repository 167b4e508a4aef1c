"""
Commands are disturbed: by signals, a full disk, other writers, damaged files; and their
connections are watched. What has to hold is in docs/torture.md.
"""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from parlai_ext.commands.signals import exit_code
from parlai_ext.core import UserError
from tests.support.small_run import files_of
from torture.inputs import CASES, TABLE, WRITING
from torture.trials import Command, Trials, differences, run_here

ROOT = Path(__file__).parents[1]
BLOCK = 4096  # bytes, of a disk
CUT_SHARE = 0.25  # of the damaged files; the others have a byte flipped
ATTEMPTS = 8  # to disturb a command before it has ended
Ended = tuple[Command, str]  # a command, and what is wrong with its end


class Disturbed(Trials):
    """
    Disturbs each command that writes files, in turns, and gives it again.

    :ivar ends: the files with which a case ends.
    :ivar steps: the number of its changes of files.
    """

    names: Sequence[str] = tuple(WRITING)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.ends: dict[str, dict[str, bytes]] = {}
        self.seconds: dict[str, float] = {}
        self.steps: dict[str, int] = {}

    def try_case(self, name: str, rng: random.Random) -> str:
        self.prepare(name)
        for attempt in range(ATTEMPTS):
            self.begin(CASES[name].after)
            child, problem = self.disturb(name, rng, attempt)
            if child.code != 0:
                break
        problem = problem or self.wrong_end(name)
        return problem and f'first ended with {child.code}: {problem}'

    def disturb(self, name: str, rng: random.Random, attempt: int) -> Ended:
        """
        Run a case, disturbed; return its command and what is wrong with its end.
        """
        raise NotImplementedError

    def prepare(self, name: str) -> None:
        """
        Run a case to its end, undisturbed, when it is first needed: twice, since the
        first run is for the imports. The second one is measured.

        :raises RuntimeError: when the case does not end as it did before.
        """
        for _ in range(0 if name in self.ends else 2):
            self.begin(CASES[name].after)
            begin = time.perf_counter()
            self.steps[name] = self.finish(CASES[name].run)
            self.seconds[name] = time.perf_counter() - begin
            end = files_of(self.work)
            if changed := differences(self.ends.setdefault(name, end), end):
                raise RuntimeError(f'{name} ends in other ways: {", ".join(changed)}')

    def wrong_end(self, name: str) -> str:
        """
        Run a case again in ``work`` as it is; return what does not hold then, '' if it
        ends with the files of an undisturbed run and touches no finished shard.
        """
        before = self._finished()
        again = self.start(CASES[name].run)
        if problem := again.problem(*(0, 1) if CASES[name].once else (0,)):
            return f'run again: {problem}'
        if changed := differences(self.ends[name], files_of(self.work)):
            return f'other files in the end: {", ".join(changed)}'
        now = self._finished()
        touched = [path for path, when in before.items() if now[path] != when]
        return f'made again: {", ".join(touched)}' if touched else ''

    def _finished(self) -> dict[str, tuple[int, int]]:
        """
        Return inode and time of the finished shards in ``work``: they are never touched
        again, but for those that `compare_runs` copies from packs.
        """
        return {
            str(path): (path.stat().st_ino, path.stat().st_mtime_ns)
            for path in self.work.rglob('*.jsonl')
            if path.parts[-3] == 'dialogues' or path.parts[-4] == 'scores'
            if not any('joined' in part for part in path.parts)
        }


class Kills(Disturbed):
    """
    Ends commands by a signal: half of the times just before a change of a file, else at
    any time.
    """

    count = 200
    signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

    def disturb(self, name: str, rng: random.Random, attempt: int) -> Ended:
        number = rng.choice(self.signals)
        step = rng.randrange(self.steps[name]) if rng.random() < 0.5 else None
        child = self.start(CASES[name].run, step=step, number=number)
        if step is None and child.wait(rng.uniform(0, self.seconds[name])) is None:
            child.send(number)
        right = -number if number == signal.SIGKILL else exit_code(number)
        return child, child.problem(0, right)  # 0: it had done its work before


class FullDisks(Disturbed):
    """
    Fills the disk of commands; one time in five names run out, not bytes.
    """

    count = 50

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.disk = folder / 'disk'
        self.work = self.disk / 'work'
        self.disk.mkdir()
        options = 'size=64m,nr_inodes=2000,mode=0777'
        mount = ['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', str(self.disk)]
        if subprocess.run(mount, capture_output=True).returncode:
            print('disk_full is left out: root may mount a disk', file=sys.stderr)
            self.count = 0
        else:
            self.callback(subprocess.run, ['umount', '-l', self.disk], check=True)

    def disturb(self, name: str, rng: random.Random, attempt: int) -> Ended:
        self.fill(name, rng.random() / 2**attempt, with_names=rng.random() < 0.2)
        child = self.start(CASES[name].run)
        problem = child.problem(1)
        if not problem and os.strerror(errno.ENOSPC) not in child.output:
            problem = f'it said {child.output[-300:]}'
        shutil.rmtree(self.disk / 'ballast')
        return child, problem

    def fill(self, name: str, share: float, with_names: bool) -> None:
        """
        Leave a share of the bytes, or names, that the command's files will need.
        """
        ballast = self.disk / 'ballast'
        ballast.mkdir()
        disk = os.statvfs(self.disk)
        end, now = (
            sum(1 if with_names else -(-len(data) // BLOCK) for data in files.values())
            for files in (self.ends[name], files_of(self.work))
        )
        left = int(share * max(1, end - now))
        if with_names:
            for k in range(disk.f_favail - left):
                (ballast / str(k)).touch()
        else:
            with (ballast / 'bytes').open('wb') as file:
                os.posix_fallocate(file.fileno(), 0, (disk.f_bavail - left) * BLOCK)


class Writers(Disturbed):
    """
    Starts two or three writers at once: in half of the trials stages of one run, in the
    others the same command several times, every command in turns.
    """

    count = 60
    # on one run; the last one finishes it in any case
    stages = ('collect', 'score', 'rank', 'report', 'evaluate')
    names = tuple(one for name in WRITING for one in ('stages', name))

    def try_case(self, name: str, rng: random.Random) -> str:
        several = rng.choice((2, 3))
        # the case in whose folder they begin, and the one that finishes the folder
        start, end, names = name, name, [name] * several
        if name == 'stages':
            names = rng.choices(self.stages, k=several)
            start, end = rng.choice(self.stages), self.stages[-1]
        for each in {*names, end}:
            self.prepare(each)
        self.begin(CASES[start].after)
        children = []
        longest = max(self.seconds[each] for each in names)
        for each in names:
            children.append(self.start(CASES[each].run))
            time.sleep(rng.uniform(0, longest / 2) * rng.randrange(2))
        problems = [child.problem(0, 1) for child in children]
        if problem := '; '.join(filter(None, [*problems, self.wrong_end(end)])):
            return f'{" + ".join(names)} where {start} begins: {problem}'
        return ''


class Flips(Trials):
    """
    Flips a byte of a file of a run, or cuts the file, every file equally often; then
    commands read it, which may raise no other exception than `UserError`.
    """

    count = 10_000

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.begin('')
        for name in TABLE['damaged'].split():
            self.finish(CASES[name].run)
        self.run, self.intact_run = self.work / 'run', folder / 'intact'
        shutil.copytree(self.run, self.intact_run)
        self.intact = files_of(self.run)
        self.names = sorted(name for name, data in self.intact.items() if data)

    def try_case(self, name: str, rng: random.Random) -> str:
        data = self.intact[name]
        at = rng.randrange(len(data))
        flipped = bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]
        is_cut = rng.random() < CUT_SHARE
        (self.run / name).write_bytes(data[:at] + (b'' if is_cut else flipped))
        try:
            return self._read_damaged(name)
        finally:
            shutil.rmtree(self.run)
            shutil.copytree(self.intact_run, self.run)

    def _read_damaged(self, path: str) -> str:
        """
        Let commands read a damaged file, in this process, until one names it; return
        what did not hold.
        """
        readers = TABLE['readers'].items()
        names = next(names for part, names in readers if fnmatch(path, part))
        for name in names.split():
            try:
                run_here(CASES[name].run, self.work)
            except UserError as error:
                line = str(error)
                if '\n' in line:
                    return f'{name} ended in several lines'
                return '' if path in line else f'{name} named something else: {line}'
            changed = {*differences(self.intact, files_of(self.run))} - {path}
            if changed:
                return f'{name} wrote something else: {", ".join(sorted(changed))}'
        now = _json_or_bytes((self.run / path).read_bytes())
        return '' if now == _json_or_bytes(self.intact[path]) else 'nobody noticed'


def _json_or_bytes(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return data


STRACE = shutil.which('strace')
# a connection, or something that is sent without one
ATTEMPT = re.compile(r'\b(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?\b')
FORBIDDEN = re.compile('.*(OFFLINE|PROXY).*', re.IGNORECASE)  # variables


class Traced(Trials):
    """
    Runs every command under strace; no option or variable says "offline".
    """

    names = tuple(CASES)
    count = len(names)

    def try_case(self, name: str, rng: random.Random) -> str:
        self.begin(CASES[name].after)
        words = [sys.executable, '-m', 'parlai_ext', *CASES[name].run.split()]
        return attempts_problem(words, self.work)


def attempts_problem(words: Sequence[str], folder: Path) -> str:
    """
    Return what did not hold when a program ran under strace; '' if it did its work and
    asked nobody.
    """
    if STRACE is None:
        raise RuntimeError('strace is needed to measure what is asked')
    trace = folder.with_suffix('.trace')
    strace = [STRACE, '-f', '--seccomp-bpf', '-e', 'trace=network', '-o', str(trace)]
    environment = {k: v for k, v in os.environ.items() if not FORBIDDEN.match(k)}
    environment |= {'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}
    environment['HF_HOME'] = str(folder / 'hub')  # empty: no model is known before
    done = subprocess.run(
        [*strace, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = trace.read_text(errors='replace').split('\n')
    if attempts := [line for line in lines if ATTEMPT.search(line)]:
        return f'{len(attempts)} attempts, the first: {attempts[0]}'
    if done.returncode:
        return f'exit code {done.returncode}: {done.stderr[-300:]}'
    return ''
