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
from collections.abc import Sequence
from pathlib import Path

from parlai_ext.commands.command import COMMANDS, run_directly
from torture.cases import CASES, Case, last_line, write_inputs
from torture.figure import Figure, Settings, try_all
from torture.forked import run_forked
from torture.tiny_run import quiet

PART = 'no_network'
WHAT = 'commands that are offline: 0 connection attempts'
ROOT = Path(__file__).parents[1]
STRACE = shutil.which('strace')
# a connection, or something that is sent without one
ATTEMPT = re.compile(r'\b(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?\b')
DEADLINE = 300.0  # seconds for a command
OFFLINE = re.compile('.*(OFFLINE|PROXY).*', re.IGNORECASE)
MORE = {
    case.name: case
    for case in (
        Case('roster', 'check_roster --roster mini'),
        Case('doctor', 'doctor'),
        Case('models', 'get_model'),
        Case('dry_run', 'evaluate_systems --config demo --run-dir demo --dry-run'),
        Case('pilot', 'evaluate_systems --config fed.yaml --run-dir run --pilot'),
        Case('chatmatch', 'evaluate_systems --config chatmatch_demo --run-dir chat'),
        Case(
            'verify',
            'verify_run packs/one.zip --sample 4 --regenerate 1',
            ('evaluate', 'publish'),
        ),
        Case('cite', 'cite_run packs/one.zip', ('evaluate', 'publish')),
        Case('help', 'evaluate_systems --help'),
    )
}
ALL = {**CASES, **MORE}


def figure(settings: Settings) -> Figure:
    """
    Run every command under strace.
    """
    if STRACE is None:
        raise RuntimeError('strace is needed to measure what is asked')
    inputs = settings.folder / 'inputs'
    inputs.mkdir()
    with quiet():
        write_inputs(inputs)
    names = list(ALL)

    def trial(number: int, rng: random.Random) -> str:
        case = ALL[names[number]]
        folder = settings.folder / case.name
        shutil.copytree(inputs, folder)
        for earlier in case.after:
            prepare(ALL[earlier], folder)
        words = [sys.executable, '-m', 'parlai_ext', *case.args]
        problem = attempts_problem(words, folder)
        return problem and f'{case.name}: {problem}'

    return try_all(PART, WHAT, len(names), trial, settings)


def prepare(case: Case, folder: Path) -> None:
    """
    Run a command that another one builds on.
    """

    def work() -> None:
        os.chdir(folder)
        run_directly(case.args[0], case.args[1:])

    ended = run_forked(work, folder.parent / 'prepared.txt', DEADLINE)
    if ended.code != 0:
        raise RuntimeError(f'{case.name}: {last_line(ended.output)}')


def attempts_problem(words: Sequence[str], folder: Path) -> str:
    """
    Return what did not hold when a program ran; '' if it did its work and asked nobody.
    """
    trace = folder.parent / f'{folder.name}.trace'
    traced = [str(STRACE), '-f', '--seccomp-bpf', '-e', 'trace=network', '-o', trace]
    done = subprocess.run(
        [*traced, *words],
        cwd=folder,
        env=environment(folder),
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


def environment(folder: Path) -> dict[str, str]:
    """
    Return the environment of a user who has said nothing of being offline.
    """
    kept = {k: v for k, v in os.environ.items() if not OFFLINE.match(k)}
    return {
        **kept,
        'PYTHONPATH': str(ROOT),
        'HF_HOME': str(folder / 'hub'),  # empty: nothing of a model is known before
        'OMP_NUM_THREADS': '1',
    }


def untried() -> set[str]:
    """
    Return the commands that no case runs.
    """
    return set(COMMANDS) - {case.args[0] for case in ALL.values()}
