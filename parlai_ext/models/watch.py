"""
What a model tells of a long call while it works: what is finished, and its results.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


class Kept(Protocol):
    """
    A place where results of batches are kept.
    """

    def get(self, key: str) -> Any | None:
        """
        Return the results of a batch, `None` where they are not kept.
        """
        ...

    def put(self, key: str, results: Any) -> None:
        """
        Keep the results of a batch, plain JSON data.
        """
        ...


@dataclass(frozen=True)
class Watch:
    """
    Told of each batch that a model finishes. It shows progress and keeps results, so
    that a call that was killed and is made again need not do them anew.

    A key stands for a batch and the call that it is part of: equal keys mean equal
    inputs in equal company, so that kept results are, to the last bit, those that the
    model would give again.

    :param on_finished: called with the number of inputs of a finished batch, and that
        of all inputs of the call.
    :param kept: where results are kept; `None`: nowhere.
    """

    on_finished: Callable[[int, int], object] | None = None
    kept: Kept | None = None

    @property
    def keeps(self) -> bool:
        """
        True if results are kept.
        """
        return self.kept is not None

    def tell(self, n: int, of: int) -> None:
        """
        Say that ``n`` more of a call's inputs are finished.
        """
        if self.on_finished is not None:
            self.on_finished(n, of)

    def get(self, key: str) -> Any | None:
        """
        Return the results of a batch, `None` where they are not kept.
        """
        return None if self.kept is None else self.kept.get(key)

    def put(self, key: str, results: Any) -> None:
        """
        Keep the results of a batch, plain JSON data.
        """
        if self.kept is not None:
            self.kept.put(key, results)


NO_WATCH = Watch()
