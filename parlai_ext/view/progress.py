"""
The progress bar of a stage; in a job's log file, a line now and then.
"""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm import tqdm

if TYPE_CHECKING:
    PlainBar = tqdm[Any]
else:
    PlainBar = tqdm

T = TypeVar('T')
SHOWN_SECONDS = 30.0  # a bar is written anew at least so often


class LogLines:
    """
    A file for a bar that is no terminal: each state is a line, without codes that move
    a cursor; none at all once `hide_bars` was called.
    """

    hidden = False

    def write(self, text: str) -> None:
        """
        Write a state, if there is one in the text.
        """
        state = text.replace('\x1b[A', '').strip()
        if state and not self.hidden:
            print(state, file=sys.stderr, flush=True)

    def flush(self) -> None:
        """
        Every line is out already.
        """


def hide_bars() -> None:
    """
    Show no bars from now on.
    """
    LogLines.hidden = True


def bar_settings() -> dict[str, float | LogLines | None]:
    """
    Return how often tqdm shows a bar on standard error, and the file for it.
    """
    if sys.stderr.isatty() and not LogLines.hidden:
        return {'mininterval': 0.5, 'file': None}
    return {'mininterval': SHOWN_SECONDS, 'file': LogLines()}


class Bar(PlainBar):
    """
    A bar that is written anew every `SHOWN_SECONDS`, also while nothing is finished.
    """

    def __init__(self, *args: Any, beats: bool = True, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._closed = threading.Event()
        if beats and not self.disable:
            threading.Thread(target=self._beat, daemon=True).start()

    def expect(self, n: int) -> None:
        """
        Expect so many more, or fewer.
        """
        self.total = (self.total or 0) + n

    def close(self) -> None:
        """
        Write the bar for the last time.
        """
        if hasattr(self, '_closed'):
            self._closed.set()
        super().close()

    def _beat(self) -> None:
        wait = SHOWN_SECONDS
        while not self._closed.wait(wait):
            wait = self.last_print_t + SHOWN_SECONDS - time.time()
            if wait <= 0:
                self.update(0)
                wait = SHOWN_SECONDS


class PartProgress:
    """
    Counts the finished dialogues of a part of them (a shard, a block) that is worked
    on, and moves a bar.

    Work is counted in steps: inputs that a model has read, or replies. How many steps a
    part has is known from the parts before it; in the first part, from the calls that
    have begun.

    :param bar: `None`: they are counted only.
    :param whole: the bar moves when a part is finished and not before; only the number
        of steps behind it tells what is done of the part.
    :ivar n_finished: how many dialogues of the part are finished.
    """

    def __init__(self, bar: Bar | None, steps: str, whole: bool = False):
        self.whole = whole
        self.bar = bar
        self.steps = steps
        self.n_steps = 0
        self._per_dialogue = 0.0
        self.begin(0)

    def begin(self, n_dialogues: int) -> None:
        """
        Begin the next part.
        """
        self._n, self.n_finished = n_dialogues, 0
        self._done = self._announced = self._of_call = 0

    def tell(self, n: int, of: int) -> None:
        """
        Count ``n`` steps of a call that has ``of``.
        """
        if not self._of_call:
            self._announced += of
        self._of_call = (self._of_call + n) % max(1, of)
        self._done += n
        self.n_steps += n
        total = max(self._announced, self._per_dialogue * self._n, self._done)
        self._move_to(
            0 if self.whole or not total else int(self._n * self._done / total)
        )

    def end(self) -> None:
        """
        End the part: all of its dialogues are finished.
        """
        if self._n:
            self._per_dialogue = self._done / self._n
        self._move_to(self._n)

    def _move_to(self, n_dialogues: int) -> None:
        more = max(0, n_dialogues - self.n_finished)
        self.n_finished += more
        if self.bar is None:
            return
        if self.n_steps:
            text = f'{self.n_steps} {self.steps}'
            self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(more)


def bar_of(
    stage: str,
    total: int | None,
    progress: bool = True,
    delay: float = 0,
    unit: str = 'dialogue',
) -> Bar:
    """
    Return a progress bar; in a log file it prints a line every `SHOWN_SECONDS`.

    ``update(0)`` shows a new postfix when it is time.

    :param total: `None` when it is not known before the end.
    :param delay: seconds before it is shown at all; most runs are read in less.
    """
    return Bar(
        total=total,
        desc=stage,
        unit=unit,
        disable=not progress or total == 0,
        miniters=0,
        delay=delay,
        beats=not delay,
        **bar_settings(),
    )


def counted(items: Iterable[T], unit: str = 'row') -> Iterator[T]:
    """
    Yield the items, with a bar that counts them where that takes more than a second.
    """
    with bar_of('read', None, delay=1, unit=unit) as bar:
        for item in items:
            yield item
            bar.update()


def byte_bar(what: str, total: int | None, start: int = 0) -> Bar:
    """
    Return the progress bar of a download, in bytes.

    :param start: bytes that are here already.
    """
    return Bar(
        desc=what,
        total=total,
        initial=start,
        unit='B',
        unit_scale=True,
        unit_divisor=1024,
        beats=False,
        **bar_settings(),
    )
