"""
End commands by a signal at random moments, then give the same command again.

Half of the moments are just before a change of a file, the others any time. One start
in ten is a new Python, ended in its first seconds; the others are forks of a process
that has imported everything. A trial holds if the exit code is right, the command has
said one line (nothing, for SIGKILL), no finished file of dialogues or scores is touched
again, and the second command ends with the files of an undisturbed run.
"""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.commands.signals import exit_code
from torture.cases import CASES, PATIENCE, Trees, last_line, wrong_lines
from torture.figure import Figure, Settings, try_all

TRIALS = 200
COLD_SHARE = 0.1
COLD_SECONDS = 6.0  # of a start of Python with torch, on an idle core
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ATTEMPTS = 5  # to hit a command before it has ended


@dataclass(frozen=True)
class Ending:
    """
    How a command has ended.

    :param heard: whether it handled signals when the signal was sent.
    """

    status: int | None
    errors: str
    heard: bool = True


def figure(settings: Settings) -> Figure:
    """
    Kill each command that writes files, in turns.
    """
    names = list(CASES)
    trees = Trees(settings.folder)

    def trial(number: int, rng: random.Random) -> str:
        return kill_and_run_again(trees, names[number % len(names)], rng)

    what = f'kills of {len(names)} commands, the first seconds included'
    return try_all('kills', what, TRIALS, trial, settings)


def kill_and_run_again(trees: Trees, name: str, rng: random.Random) -> str:
    """
    Return what did not hold when a command was ended and given again.
    """
    number = rng.choice(SIGNALS)
    kill = cold_kill if rng.random() < COLD_SHARE else warm_kill
    for _ in range(ATTEMPTS):
        trees.begin(name)
        ending = kill(trees, name, number, rng)
        if ending.status != 0:
            break
    label = f'{name}, {signal.Signals(number).name}, {kill.__name__}'
    problem = wrong_ending(ending, number) or trees.wrong_end(name)
    return problem and f'{label}: {problem}'


def warm_kill(trees: Trees, name: str, number: int, rng: random.Random) -> Ending:
    """
    End a fork by a signal, before a change of a file or at any time.
    """
    if rng.random() < 0.5:
        child = trees.start(name, rng.randrange(trees.steps[name]), number)
    else:
        child = trees.start(name)
        status = child.wait(rng.uniform(0, trees.seconds[name]))
        if status is not None:
            return Ending(status, child.output)
        child.send(number)
    return Ending(child.wait_or_kill(PATIENCE), child.output)


def cold_kill(trees: Trees, name: str, number: int, rng: random.Random) -> Ending:
    """
    End a new Python by a signal in its first seconds.
    """
    with subprocess.Popen(
        [sys.executable, '-m', 'parlai_ext', *CASES[name].args],
        cwd=trees.work,
        env={**os.environ, 'PYTHONSAFEPATH': '1'},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        time.sleep(rng.uniform(0, COLD_SECONDS))
        if process.poll() is not None:
            return Ending(process.returncode, process.communicate()[1])
        heard = handles(process.pid, signal.SIGTERM)
        process.send_signal(number)
        errors = process.communicate(timeout=PATIENCE)[1]
    return Ending(process.returncode, errors, heard)


def handles(pid: int, number: int) -> bool:
    """
    True if a process has a handler of its own for a signal.
    """
    status = Path(f'/proc/{pid}/status').read_text()
    [mask] = [line for line in status.split('\n') if line.startswith('SigCgt')]
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


def wrong_ending(ending: Ending, number: int) -> str:
    """
    Return what is wrong with the end of a command that got a signal; '' for a right
    one, and for a command that had done its work before.
    """
    if ending.status is None:
        return f'still there after {PATIENCE:.0f} s'
    if ending.status == 0 or not ending.heard:
        return ''  # done before; or Python itself was not up yet
    expected = -number if number == signal.SIGKILL else exit_code(number)
    if ending.status != expected:
        return f'exit code {ending.status}: {last_line(ending.errors)}'
    return '' if number == signal.SIGKILL else wrong_lines(ending.errors)
