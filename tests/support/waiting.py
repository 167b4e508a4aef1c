"""
Waiting for other processes.
"""

import time
from pathlib import Path


def is_running(pid):
    """
    True if a process is there and no zombie.
    """
    try:
        stat = Path(f'/proc/{pid}/stat').read_text()
    except OSError:
        return False
    return stat.rpartition(')')[2].split()[0] != 'Z'


def children(pid):
    """
    Return the processes that a process has started.
    """
    return Path(f'/proc/{pid}/task/{pid}/children').read_text().split()


def comes_true(condition, seconds=60):
    """
    True if a condition becomes true within so many seconds.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
