"""
Published data beside the checkout; a test is skipped where they are absent.
"""

from pathlib import Path

import pytest

DATA = Path(__file__).parents[3] / 'shared' / 'data'


def shared(name):
    """
    Return a published file or folder by its path inside ``../shared/data``.
    """
    path = DATA / name
    if not path.exists():
        pytest.skip(f'{path} is not there')
    return path
