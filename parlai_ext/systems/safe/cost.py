"""
How many weights and parts a model may have, by the size of its files.

Options that come with a model may claim a billion layers. torch tells a hook of each
weight before it is filled, so that a model which its files cannot hold is refused
before it costs anything.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.nn.modules import module as torch_modules
from torch.nn.parameter import is_lazy

from parlai_ext.systems.safe.unpickle import BadModelFile

WEIGHTS_A_BYTE = 4  # as of weights in 2 bits, the smallest that there are
MORE_WEIGHTS = 500_000_000  # of parts that an agent brings along, such as a BERT
MOST_MODULES = 100_000  # layers and their parts


@dataclass(eq=False)
class _Bound:
    """
    What one model may cost, and what it has cost so far.
    """

    path: str
    n_bytes: int
    n_weights: int = 0
    n_modules: int = 0
    problem: str = ''

    def count_weight(self, module: Any, name: str, weight: Any) -> None:
        if _current.get() is not self:
            return
        before = module._parameters.get(name)  # which this one replaces
        self.n_weights += _size(weight) - _size(before)
        most = WEIGHTS_A_BYTE * self.n_bytes + MORE_WEIGHTS
        if self.n_weights > most:
            raise self.refusal(f'more than {most:,} weights')

    def count_module(self, module: Any, name: str, part: Any) -> None:
        if _current.get() is not self:
            return
        self.n_modules += 1
        if self.n_modules > MOST_MODULES:
            raise self.refusal(f'more than {MOST_MODULES:,} layers and parts')

    def refusal(self, what: str) -> BadModelFile:
        self.problem = self.problem or (
            f'its options ask for {what}, and its files have {self.n_bytes:,} bytes'
        )
        return BadModelFile(self.path, self.problem)


_current: ContextVar[_Bound | None] = ContextVar('parlai_ext_bound', default=None)


def _size(weight: Any) -> int:
    if weight is None or is_lazy(weight):
        return 0
    return int(weight.numel())


@contextmanager
def bounded_cost(path: str | Path, files: Iterable[Path] = ()) -> Iterator[None]:
    """
    Refuse a model that costs more, while it is loaded inside, than files of this size
    can mean.

    :param path: its file or folder, for the message.
    :param files: all files that it is read from; of a folder, those in it.
    :raises BadModelFile: naming the file and the limit.
    """
    path = Path(path)
    found = path.iterdir() if path.is_dir() else (path, *files)
    n_bytes = sum(file.stat().st_size for file in set(found) if file.is_file())
    bound = _Bound(str(path), n_bytes)
    hooks = (
        torch_modules.register_module_parameter_registration_hook(bound.count_weight),
        torch_modules.register_module_module_registration_hook(bound.count_module),
    )
    token = _current.set(bound)
    try:
        yield
    finally:
        _current.reset(token)
        for hook in hooks:
            hook.remove()
    if bound.problem:  # which a caller on the way up has hidden
        raise BadModelFile(bound.path, bound.problem)
