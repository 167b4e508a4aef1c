"""
Files that the user trusts for a while, without a note in the home folder.
"""

from contextlib import contextmanager
from pathlib import Path

from parlai_ext.isolation import own_records


@contextmanager
def trusted(*paths):
    """
    Trust these files as they are now.
    """
    before = set(own_records._trusted_here)
    own_records.note_trust(map(Path, paths), on_disk=False)
    try:
        yield
    finally:
        own_records._trusted_here.clear()
        own_records._trusted_here.update(before)
