"""
What a reader does in its process; nothing that takes long to import.
"""

import os
import resource
import time


def sleep(file):
    time.sleep(100)


def crash(file):
    os.abort()


def facts(file):
    limits = [resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE]
    return dict(os.environ), [resource.getrlimit(what)[0] for what in limits]
