"""
A folder that nobody has to touch, and what the kernel tells of it (inotify), whatever
library opens its files.
"""

import ctypes
import os
import select
import struct
from pathlib import Path

# what a file meets when it is opened, read, written, removed, or made
EVENTS = {
    0x001: 'read',
    0x002: 'written',
    0x004: 'its mode, owner or times changed',
    0x020: 'opened',
    0x040: 'moved',
    0x080: 'moved',
    0x100: 'made',
    0x200: 'removed',
}
IS_FOLDER = 0x40000000
NONBLOCK = 0o4000


class WatchedFolder:
    """
    A folder with files of somebody's, watched from the start.
    """

    def __init__(self, root: Path):
        self.root = root
        libc = ctypes.CDLL(None, use_errno=True)
        self.handle = libc.inotify_init1(NONBLOCK)
        watch = libc.inotify_add_watch(self.handle, os.fsencode(root), sum(EVENTS))
        if self.handle < 0 or watch < 0:
            raise OSError(ctypes.get_errno(), 'inotify', str(root))

    def touched(self) -> list[str]:
        """
        Return what happened to its files since the last call.
        """
        lines = []
        while select.select([self.handle], [], [], 0)[0]:
            data = os.read(self.handle, 65536)
            while data:
                _, mask, _, size = struct.unpack_from('iIII', data)
                name = data[16 : 16 + size].rstrip(b'\0').decode()
                data = data[16 + size :]
                words = [word for bit, word in EVENTS.items() if mask & bit]
                if words and not mask & IS_FOLDER:
                    lines.append(f'{name}: {words[0]}')
        return lines

    def close(self) -> None:
        """
        Watch no longer.
        """
        os.close(self.handle)
