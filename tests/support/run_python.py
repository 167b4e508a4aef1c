"""
Code in a Python of its own, as a fresh process runs it.
"""

import subprocess
import sys


def run_python(code, **options):
    """
    Return the finished process of this code, with its output and errors as texts.
    """
    command = [sys.executable, '-c', code]
    return subprocess.run(command, capture_output=True, text=True, **options)
