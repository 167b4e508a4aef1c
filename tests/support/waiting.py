"""
Waiting for other processes.
"""

import time


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
