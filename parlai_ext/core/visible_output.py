"""
Standard output on which nothing that is printed can act: a name or a text of others may
hold what a terminal obeys.
"""

from __future__ import annotations

import io
from typing import IO

from parlai_ext.core.display import visible


class VisibleOutput(io.TextIOBase):
    """
    Passes text on to a stream, hidden characters made visible. Closing it is in vain:
    the stream is another's.

    :param progress: let carriage returns pass, which a progress bar needs.
    """

    def __init__(self, stream: IO[str], progress: bool = False):
        self.stream = stream
        self.progress = progress

    def write(self, text: str) -> int:
        """
        Write a text.
        """
        parts = text.split('\r') if self.progress else [text]
        self.stream.write('\r'.join(visible(part, len(part)) for part in parts))
        return len(text)

    def flush(self) -> None:
        """
        Flush the stream.
        """
        self.stream.flush()

    def close(self) -> None:
        """
        Do nothing.
        """

    def fileno(self) -> int:
        """
        Return the stream's file descriptor.
        """
        return self.stream.fileno()

    def isatty(self) -> bool:
        """
        True if the stream is a terminal.
        """
        return self.stream.isatty()
