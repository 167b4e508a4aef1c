"""
Start commands in a fraction of a second: forks of a process that has imported all.

A child runs the command's real `main` with a command line of its own, from its first
statement on; only the imports were done before it was born. The server is a process by
itself, without threads, which reads requests from its standard input:

    python -m torture.fork_server
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# of one thread each: a fork takes only the thread that forks
ONE_THREAD = {f'{name}_NUM_THREADS': '1' for name in ('OMP', 'OPENBLAS', 'MKL')}
OFFLINE = {'HF_HUB_OFFLINE': '1', 'TOKENIZERS_PARALLELISM': 'false'}
# what changes files, before it is done
CHANGES = {'os.rename', 'os.remove', 'os.mkdir', 'os.rmdir', 'os.truncate', 'os.link'}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# the plug-in prepares ParlAI in the child, as in a process of its own
NOT_IMPORTED = ('parlai_internal', '__main__', 'torture')


@dataclass(frozen=True)
class Child:
    """
    A command that was started.
    """

    server: ForkServer
    pid: int
    folder: Path
    name: str

    def send(self, number: int) -> None:
        """
        Send a signal; one to a child that has ended is nothing.
        """
        os.kill(self.pid, number)

    def wait(self, seconds: float | None = None) -> int | None:
        """
        Return the exit status, negative for a signal; `None` if it has not ended by
        then.
        """
        status: int | None = self.server.ask(wait=self.pid, seconds=seconds)
        return status

    @property
    def out(self) -> str:
        """
        What it has written to standard output.
        """
        return (self.folder / f'{self.name}.out').read_text(errors='replace')

    @property
    def errors(self) -> str:
        """
        What it has written to standard error.
        """
        return (self.folder / f'{self.name}.err').read_text(errors='replace')


class ForkServer:
    """
    The process that forks commands; use it in a ``with`` statement.

    :param logs: a folder for what commands print.
    """

    def __init__(self, logs: Path):
        self.logs = logs
        self._numbers = itertools.count()

    def __enter__(self) -> ForkServer:
        self.logs.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, '-m', 'torture.fork_server'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD, **OFFLINE},
            start_new_session=True,  # Ctrl-C is for the suite
        )
        return self

    def __exit__(self, *error: object) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin and stdout
        stdin.close()
        self._process.wait()
        stdout.close()

    def ask(self, **request: Any) -> Any:
        """
        Return the server's answer to a request.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin and stdout
        stdin.write(json.dumps(request) + '\n')
        stdin.flush()
        return json.loads(stdout.readline())

    def start(
        self,
        args: Sequence[str],
        folder: Path,
        step: int | None = None,
        number: int = signal.SIGKILL,
    ) -> Child:
        """
        Start a command of the `parlai` command line in a folder.

        :param step: before its n-th change of a file there (0, 1, …), the command gets
            the signal ``number``.
        """
        name = f'{next(self._numbers):06d}'
        pid = self.ask(
            start=[*args],
            folder=str(folder),
            out=str(self.logs / name),
            step=step,
            number=number,
        )
        return Child(self, pid, self.logs, name)

    def run(self, args: Sequence[str], folder: Path) -> Child:
        """
        Run a command to its end.

        :raises RuntimeError: when it fails; the message is its error lines.
        """
        child = self.start(args, folder)
        if child.wait() != 0:
            raise RuntimeError(f'{" ".join(args)}: {child.errors[-400:]}')
        return child

    def learn(self, args: Sequence[str], folder: Path) -> None:
        """
        Run a command to its end; the server then imports what the command has imported.
        """
        child = self.run(args, folder)
        names = Path(self.logs / f'{child.name}.modules').read_text().split()
        self.ask(modules=names)

    def steps(self, child: Child) -> int:
        """
        Return how many changes of files a command has made that ended by itself.
        """
        return int((self.logs / f'{child.name}.steps').read_text())


def serve() -> None:
    """
    Answer requests until standard input ends; then end all children.
    """
    children: set[int] = set()
    try:
        for line in sys.stdin:
            request = json.loads(line)
            if 'start' in request:
                answer: Any = fork(request)
                children.add(answer)
            elif 'wait' in request:
                answer = wait(request['wait'], request['seconds'])
                if answer is not None:
                    children.discard(request['wait'])
            else:
                answer = import_all(request['modules'])
            print(json.dumps(answer), flush=True)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def import_all(names: Sequence[str]) -> int:
    """
    Import modules; return how many could be imported.
    """
    count = 0
    for name in names:
        if not name.startswith(NOT_IMPORTED):
            with contextlib.suppress(Exception):
                __import__(name)
                count += 1
    return count


def wait(pid: int, seconds: float | None) -> int | None:
    """
    Return the exit status of a child, `None` if it has not ended by then.
    """
    if seconds is None:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    end = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.001)


def fork(request: Mapping[str, Any]) -> int:
    """
    Fork a child that runs a command; return its process id.
    """
    # before the fork, so that no signal comes before it, as in a process whose first
    # statement this is
    from parlai_ext.commands.signals import end_in_one_line

    end_in_one_line()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        redirect(request['out'])
        os.chdir(request['folder'])
        count = count_changes(request['folder'], request['step'], request['number'])
        status = run_main(request['start'])
        Path(f'{request["out"]}.steps').write_text(str(count()))
        Path(f'{request["out"]}.modules').write_text('\n'.join(list(sys.modules)))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(status)


def redirect(path: str) -> None:
    """
    Give this process no input, and files for its output.
    """
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for place, ending in ((1, 'out'), (2, 'err')):
        handle = os.open(f'{path}.{ending}', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, place)


def run_main(args: Sequence[str]) -> int:
    """
    Run the command line, as `python -m parlai_ext` does; return the exit code.
    """
    from parlai_ext.__main__ import main

    sys.argv = ['parlai_ext', *args]
    try:
        main(list(args))
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # the plug-in's, by now
        return 1
    return 0


def count_changes(folder: str, step: int | None, number: int) -> Callable[[], int]:
    """
    From now on, count the changes of files in a folder; before the one with the number
    ``step``, send this process a signal. Return what tells the count.
    """
    count = 0

    def before_change(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in CHANGES and not (event == 'open' and args[2] & WRITES):
            return
        place = args[0]
        if isinstance(place, int):  # an open file that is cut
            inside = True
        else:
            inside = os.path.abspath(os.fsdecode(place)).startswith(f'{folder}/')
        if inside:
            count += 1
            if count - 1 == step:
                os.kill(os.getpid(), number)

    sys.addaudithook(before_change)
    return lambda: count


if __name__ == '__main__':
    serve()
