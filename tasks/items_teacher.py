"""
A ParlAI teacher of a list of items, each of which is an episode of its own; and metrics
that are worked out of all that was collected.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from parlai.core.message import Message
from parlai.core.metrics import Metric
from parlai.core.opt import Opt
from parlai.core.teachers import FixedDialogTeacher

from parlai_ext.core import DeclaresOptions, JsonObject


class PointsMetric(Metric):
    """
    A number that is worked out of points, which are collected until it is asked for.

    The sum of metrics is the metric of all their points, in whatever order they come.
    A sum knows the metrics that it is of, so that adding copies no points.

    :param name: which number of the points.
    :param level: of what they are.
    """

    __slots__ = ('level', 'name', 'parts')
    macro_average = False

    def __init__(self, name: str, level: str = 'item', points: Iterable[Any] = ()):
        self.name = name
        self.level = level
        self.parts: tuple[Any, ...] = (tuple(points),)

    @property
    def points(self) -> tuple[Any, ...]:
        """
        The points, in their own order.
        """
        points = []
        waiting = [self.parts]
        while waiting:
            for part in waiting.pop():
                if isinstance(part, PointsMetric):
                    waiting.append(part.parts)
                else:
                    points += part
        return tuple(sorted(points))

    def __add__(self, other: Any) -> Any:
        if other is None:
            return self
        total = type(self)(self.name, self.level)
        total.parts = (self, other)
        return total

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.level, self.points)

    def number(self) -> float | None:
        """
        Return the number, or `None` when it does not exist.
        """
        raise NotImplementedError

    def value(self) -> float:
        """
        Return the number as ParlAI wants it: NaN when it does not exist.
        """
        number = self.number()
        return float('nan') if number is None else number


class ItemsTeacher(DeclaresOptions, FixedDialogTeacher):
    """
    Subclasses define `read` and `get`.

    :cvar shared: what the clones of a batch read together: attributes that `read` sets.
    :cvar hidden: keys of a message that the model does not see.
    """

    shared: ClassVar[tuple[str, ...]] = ('items',)
    hidden: ClassVar[tuple[str, ...]] = ()
    items: Sequence[Any]

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        if shared:
            for name in self.shared:
                setattr(self, name, shared[name])
        else:
            self.read(opt)
        self.reset()

    def read(self, opt: Opt) -> None:
        """
        Read the items, and what else is shared.
        """
        raise NotImplementedError

    def share(self) -> dict[str, object]:
        """
        Return what a clone needs.
        """
        return super().share() | {name: getattr(self, name) for name in self.shared}

    def num_episodes(self) -> int:
        """
        Return the number of items.
        """
        return len(self.items)

    num_examples = num_episodes

    def process_action(self, action: Message) -> Message:
        """
        Take away what the model does not see.
        """
        action = super().process_action(action).copy()
        for key in self.hidden:
            action.pop(key, None)
        return action

    def report(self) -> JsonObject:
        """
        Return the metrics; a number of points that does not exist is left out.
        """
        return {
            key: metric
            for key, metric in super().report().items()
            if not isinstance(metric, PointsMetric) or metric.number() is not None
        }
