"""
A trial of a `tokenizer.json` in another process, before this one reads it.

Its patterns run in a library of Rust, which nothing in this process could stop. The
other process reads the file and splits a few monotonous texts, at which bad patterns
take the longest, with limits on time and memory.
"""

import os
import resource
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.core.process_limits import lower_limit

TOKENIZER = 'tokenizer.json'
SECONDS = 60  # of processor time; twice as many by the clock
MEMORY = 8 * 2**30  # bytes of address space
LENGTH = 2_000  # characters of a text
UNITS = ('a', ' ', '1', 'ab ', '\n')  # of which texts are made
DAMAGED, FAILS = 3, 4  # exit codes: it cannot be read; it fails on a text
CHILD = 'from parlai_ext.systems.safe.tokenizer_trial import run_trial as run; run()'


def check_tokenizer_file(path: Path) -> None:
    """
    Refuse a file that takes too long or too much memory to read or to use. One that is
    damaged is for its reader to refuse.

    :raises UserError: naming the file and the limits.
    """
    if path.is_file():
        status = path.stat()
        _check(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _check(path: str, size: int, changed: int) -> None:
    paths = [folder for folder in sys.path if folder]
    try:
        ended = subprocess.run(
            [sys.executable, '-P', '-c', CHILD, path, str(SECONDS), str(MEMORY)],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=2 * SECONDS,
        ).returncode
    except subprocess.TimeoutExpired:
        ended = -1
    if ended == FAILS:
        raise UserError(f'hf_model: {path}: its patterns fail on a plain text')
    if ended not in (0, DAMAGED) and ended > 0:
        raise RuntimeError(f'the process that tries {path} does not begin')
    if ended < 0:  # by a signal: that of the limit, or of memory that has run out
        raise UserError(
            f'hf_model: {path}: reading and using it takes more than {SECONDS} seconds '
            f'or {MEMORY / 2**30:.0f} GiB'
        )


def run_trial() -> None:
    """
    Read the tokenizer that the command line names, and use it, with its limits; run in
    the other process.
    """
    from tokenizers import Tokenizer

    path, seconds, memory = sys.argv[1:]
    for what, most in (
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_AS, int(memory)),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        lower_limit(what, most)
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception:
        raise SystemExit(DAMAGED) from None
    except BaseException:  # what Rust calls a panic
        raise SystemExit(FAILS) from None
    try:
        for unit in UNITS:
            tokenizer.encode(unit * (LENGTH // len(unit)) + '!')
    except BaseException:
        raise SystemExit(FAILS) from None
