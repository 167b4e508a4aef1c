"""
Every command with all that it needs on this machine, and what it asks of the network.

Held: the command does its work, and the kernel saw no attempt of it, of its threads or
of programs that it started to connect or send to an address of the internet protocols,
this machine's own among them (``strace -f``). No option or variable says "offline".
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from torture.commands import CASES, OFFLINE, last_line, quiet, write_inputs
from torture.disturbed import start_command
from torture.figure import Settings, Trial

ROOT = Path(__file__).parents[1]
STRACE = shutil.which('strace')
# a connection, or something that is sent without one
ATTEMPT = re.compile(r'\b(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?\b')
DEADLINE = 300.0  # seconds for a command
FORBIDDEN = re.compile('.*(OFFLINE|PROXY).*', re.IGNORECASE)  # variables
ALL = {**CASES, **OFFLINE}


@contextmanager
def commands(settings: Settings) -> Iterator[tuple[int, Trial]]:
    """
    Run every command under strace.
    """
    if STRACE is None:
        raise RuntimeError('strace is needed to measure what is asked')
    inputs, names = settings.folder / 'inputs', list(ALL)
    with quiet():
        write_inputs(inputs)

    def trial(number: int, rng: random.Random) -> str:
        name = names[number]
        folder = settings.folder / name
        shutil.copytree(inputs, folder)
        for earlier in ALL[name].after.split():
            log = settings.folder / 'prepared.txt'
            child = start_command(ALL[earlier].args, folder, log)
            if child.wait_or_kill(DEADLINE) != 0:
                raise RuntimeError(f'{earlier}: {last_line(child.output)}')
        words = [sys.executable, '-m', 'parlai_ext', *ALL[name].args]
        problem = attempts_problem(words, folder)
        return problem and f'{name}: {problem}'

    yield len(names), trial


def attempts_problem(words: Sequence[str], folder: Path) -> str:
    """
    Return what did not hold when a program ran, in the environment of a user who has
    said nothing of being offline; '' if it did its work and asked nobody.
    """
    trace = folder.parent / f'{folder.name}.trace'
    traced = [str(STRACE), '-f', '--seccomp-bpf', '-e', 'trace=network', '-o', trace]
    environment = {k: v for k, v in os.environ.items() if not FORBIDDEN.match(k)}
    environment |= {'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}
    environment['HF_HOME'] = str(folder / 'hub')  # empty: no model is known before
    done = subprocess.run(
        [*traced, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    attempts = attempts_in(trace.read_text(errors='replace'))
    if attempts:
        return f'{len(attempts)} attempts, the first: {attempts[0]}'
    if done.returncode:
        return f'exit code {done.returncode}: {last_line(done.stderr)}'
    return ''


def attempts_in(trace: str) -> list[str]:
    """
    Return the lines of a trace that are attempts to reach the network.
    """
    return [line for line in trace.split('\n') if ATTEMPT.search(line)]
