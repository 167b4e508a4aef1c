"""
What a model tells of a long call while it works: what is finished, and its results.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from parlai_ext.core import frozen

T = TypeVar('T')


def unchanged(results: Any) -> Any:
    """
    Return results that are plain JSON data already.
    """
    return results


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


@frozen
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

    def tell(self, n: int, of: int) -> None:
        """
        Say that ``n`` more of a call's inputs are finished.
        """
        if self.on_finished is not None:
            self.on_finished(n, of)

    def results(
        self,
        key: str,
        compute: Callable[[], T],
        to_json: Callable[[T], Any] = unchanged,
        from_json: Callable[[Any], T] = unchanged,
    ) -> T:
        """
        Return the results of a batch: those that are kept, or computed now and kept.

        :param to_json, from_json: turn results into plain JSON data, and back.
        """
        if self.kept is None:
            return compute()
        stored = self.kept.get(key)
        if stored is not None:
            return from_json(stored)
        results = compute()
        self.kept.put(key, to_json(results))
        return results


NO_WATCH = Watch()
