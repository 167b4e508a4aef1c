"""
Results that are kept on disk, so that a killed command need not ask for them again:
what models have answered for a shard that is being scored, what systems have said in
dialogues that are being played, the scores of a bench.

A line of the file holds one batch with its checksum. Batches depend on the work alone,
so that a shard that was scored in two goes gets the scores of one go, byte for byte.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parlai_ext.store.disk import append_synced, decode, encode, make_folder

SAVE_SECONDS = 20.0


class PartialWork:
    """
    The batches that are finished, by their content or place.

    They are written at most every `SAVE_SECONDS`, and by `save`: a shard that takes
    less leaves no file.

    :param path: the file, which is read if it is there.
    :param source: all that answers depend on, such as a hash of the dialogues; batches
        of a file with another one are dropped.
    :ivar batches: the answers that were in the file.
    """

    def __init__(self, path: Path, source: str):
        self.path = path
        self.source = source
        self.batches: dict[str, Any] = {}
        self._unsaved: list[str] = []
        self._end = self._read()
        self._saved_at = time.monotonic()

    def get(self, key: str) -> Any | None:
        """
        Return the answers to a batch, `None` if it was not finished before.
        """
        return self.batches.get(key)

    def put(self, key: str, answers: Any) -> None:
        """
        Keep the answers to a batch, plain JSON data.
        """
        try:
            self._unsaved.append(encode({'batch': key, 'answers': answers}))
        except ValueError:  # NaN or infinity, which JSON does not have
            return
        if time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """
        Write what was not written yet; what a kill left half-written is cut off.
        """
        lines = self._unsaved
        if self._end == 0:
            lines = [encode({'source': self.source}), *lines]
        make_folder(self.path.parent)
        data = ''.join(f'{line}\n' for line in lines).encode()
        append_synced(self.path, self._end, data)
        self._end += len(data)
        self._unsaved = []
        self._saved_at = time.monotonic()

    @contextmanager
    def saved_at_exit(self) -> Iterator[None]:
        """
        Save what there is when an exception, such as Ctrl-C, ends the work inside.
        """
        try:
            yield
        except BaseException:
            if self._unsaved:
                self.save()
            raise

    def remove(self) -> None:
        """
        Remove the file, once the shard is written.
        """
        self.path.unlink(missing_ok=True)

    def _read(self) -> int:
        """
        Read the file up to its first damaged line; return how many bytes are sound.
        """
        end = 0
        data = self.path.read_bytes() if self.path.exists() else b''
        for line in data.splitlines(keepends=True):
            try:
                record = decode(line.removesuffix(b'\n'))
            except ValueError:
                break
            if not line.endswith(b'\n'):
                break
            if end == 0 and record.get('source') != self.source:
                break
            if end:
                if not {'batch', 'answers'} <= set(record):
                    break
                self.batches[record['batch']] = record['answers']
            end += len(line)
        return end
