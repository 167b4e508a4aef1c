"""
Fill the disk on which commands write, at random points, then make room.

The disk is in memory and is mounted for this, which only root may do. It fills by bytes
or by names of files. A trial holds if the command ends with exit code 1 and one line,
no finished file of dialogues or scores is touched again, and the same command ends,
once there is room, with the files of an undisturbed run.
"""

import contextlib
import errno
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from torture.cases import CASES, PATIENCE, Trees, last_line, wrong_lines
from torture.figure import Figure, Settings, try_all

TRIALS = 50
SIZE = 64 * 2**20  # bytes of the disk
NAMES = 2000  # files and folders that it can hold
BLOCK = 4096
NAMES_SHARE = 0.2  # of the trials, in which names run out
ATTEMPTS = 8  # to leave less room than a command needs
WHAT = 'disks that fill up while commands write'


def figure(settings: Settings) -> Figure:
    """
    Fill the disk of each command that writes files, in turns.
    """
    disk = settings.folder / 'disk'
    disk.mkdir()
    names = list(CASES)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(mounted(disk))
        except (OSError, subprocess.CalledProcessError):
            return Figure(f'{WHAT} (left out: root may mount a disk)', 0, 0)
        trees = Trees(settings.folder, disk / 'work')

        def trial(number: int, rng: random.Random) -> str:
            return fill_and_run_again(trees, names[number % len(names)], disk, rng)

        return try_all('disk_full', WHAT, TRIALS, trial, settings)


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """
    Mount a small disk in memory.
    """
    options = f'size={SIZE},nr_inodes={NAMES},mode=0777'
    command = ['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(['umount', '-l', str(folder)], check=True)


def fill_and_run_again(trees: Trees, name: str, disk: Path, rng: random.Random) -> str:
    """
    Return what did not hold when the disk of a command was full.
    """
    fill = fill_names if rng.random() < NAMES_SHARE else fill_bytes
    share = rng.random()
    status: int | None = 0
    for _ in range(ATTEMPTS):
        make_room(disk)
        trees.begin(name)
        fill(trees, name, disk, share)
        child = trees.start(name)
        status = child.wait(PATIENCE)
        if status != 0:
            break
        share /= 2
    label = f'{name}, {fill.__name__}, {share:.3f} of what is needed'
    make_room(disk)
    if status == 0:
        return f'{label}: it did not notice'
    if status != 1:
        return f'{label}: exit code {status}: {last_line(child.output)}'
    problem = wrong_lines(child.output)
    if not problem and os.strerror(errno.ENOSPC) not in child.output:
        problem = f'it said {last_line(child.output)}'
    problem = problem or trees.wrong_end(name)
    return problem and f'{label}: {problem}'


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
    there = sum(1 for path in trees.work.rglob('*') if path.is_file())
    needed = len(trees.ends[name]) - there
    ballast = disk / 'many'
    ballast.mkdir()
    for k in range(os.statvfs(disk).f_favail - int(share * max(1, needed))):
        (ballast / str(k)).touch()


def make_room(disk: Path) -> None:
    """
    Remove what fills the disk.
    """
    (disk / 'ballast').unlink(missing_ok=True)
    shutil.rmtree(disk / 'many', ignore_errors=True)
