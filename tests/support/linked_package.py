"""
A copy of the package in which a test may change or add files.
"""

import os
import shutil

from tests.house.measures import ROOT


def linked_package(folder):
    """
    Return a copy of the package in a folder; its files are links to the real ones.
    """
    return shutil.copytree(
        ROOT / 'parlai_ext',
        folder / 'parlai_ext',
        ignore=shutil.ignore_patterns('__pycache__'),
        copy_function=os.symlink,
    )
