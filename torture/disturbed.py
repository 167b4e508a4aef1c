"""
Commands that write files are disturbed, then given again: they are ended by a signal,
their disk fills up, or others write into the same folder.

A trial holds if the command ended as it should and said one line (nothing, for
SIGKILL), no finished file of dialogues or scores is touched again, and the second
command ends with the files of an undisturbed run.

All commands run under strace, too: held if the command does its work, and the kernel
saw no attempt of it, or of a program that it started, to connect or send to an address
of the internet protocols. No option or variable says "offline".
"""

import errno
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from parlai_ext.commands.signals import exit_code
from tests.support.small_run import files_of
from torture import Trials
from torture.commands import Command, last_line
from torture.inputs import CASES, WRITING, differences, quiet, write_inputs

PATIENCE = 300.0  # seconds until a command is said to hang
BLOCK = 4096  # bytes, of a disk
ATTEMPTS = 8  # to disturb a command before it has ended
# the plug-in prepares ParlAI in the child, as in a process of its own, and our
# `__main__` changes the path of modules
NOT_IMPORTED = ('parlai_internal', '__main__', 'parlai_ext.__main__', 'torture')


class Trees(Trials):
    """
    The folders in which cases begin, and the files with which they end.

    Commands run in one folder, ``work``, since some write its path.
    """

    names = list(WRITING)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.work = folder / 'work'
        self.ends: dict[str, dict[str, bytes]] = {}
        self.seconds: dict[str, float] = {}
        self.steps: dict[str, int] = {}
        self.logs = (folder / f'{number:06d}.err' for number in itertools.count())

    def trial(self, number: int, rng: random.Random) -> str:
        name = self.names[number % len(self.names)]
        problem = self.disturb_case(name, rng)
        return problem and f'{name}: {problem}'

    def disturb_case(self, name: str, rng: random.Random) -> str:
        """
        Disturb a case; return what did not hold.
        """
        raise NotImplementedError

    def start(
        self, name: str, step: int | None = None, number: int = signal.SIGKILL
    ) -> Command:
        """
        Start the command of a case in ``work``.
        """
        return Command(CASES[name].args, self.work, next(self.logs), step, number)

    def begin(self, name: str) -> None:
        """
        Make ``work`` what it is before a case.
        """
        start = self.folder / f'start-{name}'
        if not start.exists():
            inputs = self.folder / 'inputs'
            if not inputs.exists():
                with quiet():
                    write_inputs(inputs)
            self._copy(inputs)
            for earlier in CASES[name].after.split():
                self._finish(earlier)
            shutil.copytree(self.work, start)
        self._copy(start)

    def prepare(self, name: str) -> None:
        """
        Run a case to its end, undisturbed, when it is first needed: twice, since the
        first run is for the imports. The second one is measured.

        :raises RuntimeError: when the case does not end as it did before.
        """
        if name in self.ends:
            return
        self.begin(name)
        for module in self._finish(name)[1]:
            if not module.startswith(NOT_IMPORTED):
                with suppress(Exception):
                    __import__(module)
        self.ends[name] = files_of(self.work)
        self.begin(name)
        begin = time.perf_counter()
        self.steps[name], _ = self._finish(name)
        self.seconds[name] = time.perf_counter() - begin
        if changed := differences(self.ends[name], files_of(self.work)):
            raise RuntimeError(f'{name} does not end as before: {", ".join(changed)}')

    def disturbed(self, name: str, run: Callable[[int], Command]) -> Command:
        """
        Begin a case until it is disturbed before its end; return its command, ended.

        :param run: runs the case; takes the number of the attempt.
        """
        self.prepare(name)
        for attempt in range(ATTEMPTS):
            self.begin(name)
            child = run(attempt)
            if child.code != 0:
                break
        return child

    def wrong_end(self, name: str) -> str:
        """
        Run a case again in ``work`` as it is; return what does not hold then, '' if it
        ends with the files of an undisturbed run and touches no finished shard.
        """
        before = self._finished()
        child = self.start(name)
        status = child.wait_or_kill(PATIENCE)
        changed = differences(self.ends[name], files_of(self.work))
        if status == 1 and CASES[name].once and not changed:
            return child.wrong_lines()
        if status != 0:
            return f'run again, it ended with {status}: {last_line(child.output)}'
        if changed:
            return f'other files in the end: {", ".join(changed)}'
        now = self._finished()
        touched = [path for path, when in before.items() if now[path] != when]
        return f'made again: {", ".join(touched)}' if touched else ''

    def _finish(self, name: str) -> tuple[int, list[str]]:
        """
        Run a case in ``work`` to its end; return the number of its changes of files and
        the names of its modules.
        """
        child = self.start(name)
        if child.wait() != 0:
            raise RuntimeError(f'{name}: {child.output[-400:]}')
        steps, modules = json.loads(child.log.with_suffix('.json').read_text())
        return steps, modules

    def _copy(self, folder: Path) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(folder, self.work)

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


class Kills(Trees):
    """
    Ends each command that writes files by a signal, in turns: half of the times just
    before a change of a file, else at any time. (The first seconds of a new Python are
    those of tests/commands/test_signals.py.)
    """

    count = 200
    signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

    def disturb_case(self, name: str, rng: random.Random) -> str:
        number = rng.choice(self.signals)

        def kill(attempt: int) -> Command:
            if rng.random() < 0.5:
                child = self.start(name, rng.randrange(self.steps[name]), number)
            else:
                child = self.start(name)
                if child.wait(rng.uniform(0, self.seconds[name])) is not None:
                    return child
                child.send(number)
            child.wait_or_kill(PATIENCE)
            return child

        ended = self.disturbed(name, kill)
        right = -number if number == signal.SIGKILL else exit_code(number)
        problem = ''
        if ended.code is None:
            problem = f'still there after {PATIENCE:.0f} s'
        elif ended.code not in (0, right):  # 0: it had done its work before
            problem = f'exit code {ended.code}: {last_line(ended.output)}'
        elif ended.code > 0:
            problem = ended.wrong_lines()
        problem = problem or self.wrong_end(name)
        return problem and f'{signal.Signals(number).name}: {problem}'


class FullDisks(Trees):
    """
    Fills the disk of each command that writes files, in turns; one time in five names
    run out, not bytes. The disk is in memory and is mounted for this, which only root
    may do: for others there is no trial.
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

    def close(self) -> None:
        if self.count:
            subprocess.run(['umount', '-l', str(self.disk)], check=True)

    def disturb_case(self, name: str, rng: random.Random) -> str:
        with_names, share = rng.random() < 0.2, rng.random()

        def start_on_full_disk(attempt: int) -> Command:
            self.fill(name, share / 2**attempt, with_names)
            child = self.start(name)
            child.wait_or_kill(PATIENCE)
            (self.disk / 'ballast').unlink(missing_ok=True)
            shutil.rmtree(self.disk / 'many', ignore_errors=True)
            return child

        ended = self.disturbed(name, start_on_full_disk)
        if ended.code == 0:
            problem = 'it did not notice'
        elif ended.code != 1:
            problem = f'exit code {ended.code}: {last_line(ended.output)}'
        elif os.strerror(errno.ENOSPC) not in ended.output:
            problem = f'it said {last_line(ended.output)}'
        else:
            problem = ended.wrong_lines()
        problem = problem or self.wrong_end(name)
        return problem and f'at most {share:.3f} of what is needed: {problem}'

    def fill(self, name: str, share: float, with_names: bool) -> None:
        """
        Leave a share of the bytes, or names, that the command's files will need.
        """
        ends, there = self.ends[name], files_of(self.work)
        if with_names:
            left = int(share * max(1, len(ends) - len(there)))
            (self.disk / 'many').mkdir()
            for k in range(os.statvfs(self.disk).f_favail - left):
                (self.disk / 'many' / str(k)).touch()
        else:
            blocks = [
                sum(-(-len(d) // BLOCK) for d in f.values()) for f in (ends, there)
            ]
            left = int(share * max(1, blocks[0] - blocks[1]))
            disk = os.statvfs(self.disk)
            with (self.disk / 'ballast').open('wb') as file:
                os.posix_fallocate(file.fileno(), 0, (disk.f_bavail - left) * BLOCK)


class Writers(Trees):
    """
    Starts two or three writers at once: in half of the trials stages of one run, in the
    others the same command several times, every command in turns.
    """

    count = 60
    # on one run; the last one finishes it in any case
    stages = ('collect', 'score', 'rank', 'report', 'evaluate')

    def trial(self, number: int, rng: random.Random) -> str:
        several = rng.choice((2, 3))
        if number % 2:
            name = self.names[number // 2 % len(self.names)]
            return self.write_at_once(name, name, [name] * several, rng)
        names = [rng.choice(self.stages) for _ in range(several)]
        return self.write_at_once(rng.choice(self.stages), self.stages[-1], names, rng)

    def write_at_once(
        self, start: str, end: str, names: list[str], rng: random.Random
    ) -> str:
        """
        Return what did not hold when several commands wrote into a folder.

        :param start: the case in whose folder they begin.
        :param end: the case that finishes the folder.
        """
        for name in {*names, end}:
            self.prepare(name)
        self.begin(start)
        children = []
        longest = max(self.seconds[name] for name in names)
        for name in names:
            children.append(self.start(name))
            time.sleep(rng.uniform(0, longest / 2) * rng.randrange(2))
        problems = []
        for child in children:
            status = child.wait_or_kill(PATIENCE)
            if status not in (0, 1):
                problems.append(f'one ended with {status}: {last_line(child.output)}')
            elif status == 1:
                problems.append(child.wrong_lines())
        problems = [*filter(None, [*problems, self.wrong_end(end)])]
        label = f'{" + ".join(names)} where {start} begins'
        return f'{label}: {"; ".join(problems)}' if problems else ''


# ---- no network

ROOT = Path(__file__).parents[1]
STRACE = shutil.which('strace')
# a connection, or something that is sent without one
ATTEMPT = re.compile(r'\b(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?\b')
FORBIDDEN = re.compile('.*(OFFLINE|PROXY).*', re.IGNORECASE)  # variables


class Traced(Trees):
    """
    Runs every command under strace.
    """

    names = list(CASES)
    count = len(CASES)

    def disturb_case(self, name: str, rng: random.Random) -> str:
        if STRACE is None:
            raise RuntimeError('strace is needed to measure what is asked')
        self.begin(name)
        words = [sys.executable, '-m', 'parlai_ext', *CASES[name].args]
        return attempts_problem(words, self.work)


def attempts_problem(words: Sequence[str], folder: Path) -> str:
    """
    Return what did not hold when a program ran, in the environment of a user who has
    said nothing of being offline; '' if it did its work and asked nobody.
    """
    trace = folder.parent / f'{folder.name}.trace'
    strace = [str(STRACE), '-f', '--seccomp-bpf', '-e', 'trace=network', '-o', trace]
    environment = {k: v for k, v in os.environ.items() if not FORBIDDEN.match(k)}
    environment |= {'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}
    environment['HF_HOME'] = str(folder / 'hub')  # empty: no model is known before
    done = subprocess.run(
        [*strace, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    if attempts := attempts_in(trace.read_text(errors='replace')):
        return f'{len(attempts)} attempts, the first: {attempts[0]}'
    if done.returncode:
        return f'exit code {done.returncode}: {last_line(done.stderr)}'
    return ''


def attempts_in(trace: str) -> list[str]:
    """
    Return the lines of a trace that are attempts to reach the network.
    """
    return [line for line in trace.split('\n') if ATTEMPT.search(line)]
