"""
The cache of loaded systems: as many as memory allows, each loaded once while it fits.
"""

import gc
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from pathlib import Path

import torch

from parlai_ext.core import System, SystemFailed, UserError, logger
from parlai_ext.engines import SHARE_FOR_WEIGHTS, Machine
from parlai_ext.isolation.policy import is_our_agent
from parlai_ext.systems.families import family_of, innermost
from parlai_ext.systems.family import model_path
from parlai_ext.systems.players import Player
from parlai_ext.systems.safe.load import named_servers
from parlai_ext.systems.spending import Ledger
from parlai_ext.systems.torch_memory import is_out_of_memory

UNKNOWN_MEMORY = 4 * 2**30
# model files below this size run on one thread; the mini zoo's have 2 MB
SMALL = 20_000_000


class ModelCache:
    """
    Loaded players by the name of their system. The longest unused one is dropped first.

    A system that cannot be loaded is not tried again; `problems` holds its error. What
    a system has used, as far as it counts that, is in `ledger` when it is
    dropped.

    :param budget: bytes of weights that may be loaded at once.
    """

    def __init__(self, load: Callable[[System], Player], budget: int):
        self.load = load
        self.budget = budget
        self.problems: dict[str, str] = {}
        self.ledger = Ledger()
        self._players: dict[str, Player] = {}
        # what systems that share their weights have in common, by name
        self._weights: dict[str, Hashable] = {}

    def load_all(self, systems: Collection[System]) -> Mapping[str, Player]:
        """
        Load these systems and return them by name. A system that fails to load is left
        out and its error is in `problems`.
        """
        wanted = {system.name: system for system in systems}
        for name in wanted:
            if name in self._players:
                self._players[name] = self._players.pop(name)  # used last
        for name, system in wanted.items():
            if name not in self._players and name not in self.problems:
                self._weights[name] = key = weights_key(system)
                shared = any(self._weights[other] == key for other in self._players)
                size = 0 if shared else size_on_disk(system)
                self._make_room(size, wanted)
                self._load(system, wanted)
        self._make_room(0, wanted)
        return {name: self._players[name] for name in wanted if name in self._players}

    def can_hold(self, systems: Iterable[System]) -> bool:
        """
        True if all of these systems may be loaded at once.
        """
        sizes: dict[Hashable, int] = {}
        for system in systems:
            key = weights_key(system)
            player = self._players.get(system.name)
            size = player.n_bytes if player else size_on_disk(system)
            sizes[key] = max(size, sizes.get(key, 0))
        return sum(sizes.values()) <= self.budget

    def loaded_weights(self) -> set[str]:
        """
        Return the names of the weights that are loaded: their keys, as text.
        """
        return {str(self._weights[name]) for name in self._players}

    def drop_failed(self, error: SystemFailed) -> None:
        """
        Drop a system that cannot go on, and never load it again.
        """
        logger.warning('%s', error)
        self.problems[error.system] = str(error)
        if error.system in self._players:
            self._drop([error.system])

    def clear(self) -> None:
        """
        Drop every player.
        """
        if self._players:
            self._drop(list(self._players))

    def _load(self, system: System, keep: Collection[str]) -> None:
        """
        Load a system; when memory runs out, once more without those not to ``keep``.
        """
        try:
            player = self._players[system.name] = self.load(system)
            self.ledger.begin(system.name, player.agent)
        except UserError as error:
            out = is_out_of_memory(error.__cause__)
            others = [name for name in self._players if name not in keep]
            if out and others:
                self._drop(others)
                self._load(system, keep)
                return
            self.drop_failed(SystemFailed(system.name, str(error)))

    def _make_room(self, more: int, keep: Collection[str]) -> None:
        """
        Drop players until ``more`` bytes fit, but none of those to ``keep``.
        """
        for name in [name for name in self._players if name not in keep]:
            # weights that several share count once
            sizes = {self._weights[one]: p.n_bytes for one, p in self._players.items()}
            if more + sum(sizes.values()) <= self.budget:
                return
            self._drop([name])

    def _drop(self, names: Iterable[str]) -> None:
        """
        Drop players by name, after what they used is written down.
        """
        for name in names:
            self.ledger.end(name, self._players.pop(name).agent)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def weights_key(system: System) -> Hashable:
    """
    Return what the system has in common with those that share its weights; its name
    where nobody does.
    """
    opt = innermost(system).opt
    return family_of(opt).weights_key(opt) or system.name


def size_on_disk(system: System) -> int:
    """
    Return the size of the system's weights on disk, 1 when it has none (yet).
    """
    opt = innermost(system).opt
    return max(1, family_of(opt).weight_bytes(opt))


def memory_for_weights(no_cuda: bool, max_memory: float | None = None) -> int:
    """
    Return how many bytes of weights may be loaded at once on this machine.

    :param max_memory: a limit in gigabytes that the user gave.
    """
    if torch.cuda.is_available() and not no_cuda:
        free = torch.cuda.mem_get_info()[0]
    else:
        free = free_memory()
    limit = int(free * SHARE_FOR_WEIGHTS)
    if max_memory is None:
        return limit
    if max_memory * 1e9 > limit:
        logger.warning(
            '--max-gpu-memory: %g GB lowered to %.1f, which is %d %% of what is free',
            max_memory,
            limit / 1e9,
            SHARE_FOR_WEIGHTS * 100,
        )
    return min(limit, int(max_memory * 1e9))


def fit_threads(systems: Iterable[System]) -> None:
    """
    Use one thread if the model files of all these systems are small: a small model
    gains little from a second thread, and loses much when another program needs the
    core, since threads that wait for each other spin (docs/performance.md).
    OMP_NUM_THREADS takes precedence.

    The decision depends on the files alone, not on the order of loading, so that a
    resumed run computes as an uninterrupted one does.
    """
    if 'OMP_NUM_THREADS' in os.environ:
        return
    paths = [model_path(system.opt) for system in systems]
    files = [path for path in paths if path is not None and path.is_file()]
    if files and all(path.stat().st_size < SMALL for path in files):
        torch.set_num_threads(1)


def are_small(systems: Iterable[System], machine: Machine) -> bool:
    """
    True if several processes may each load these systems unasked, and compute what this
    one does: on the CPU, with one thread, weights below `SMALL`, no server to ask and
    no code from outside.
    """
    on_gpu = torch.cuda.is_available() and not machine.no_cuda
    return not on_gpu and all(
        torch.get_num_threads() == 1
        and (1 if system.opt.get('model_file') else 0) < size_on_disk(system) < SMALL
        and is_our_agent(str(system.opt.get('model') or 'fixed_response'))
        and not named_servers(system.opt)
        for system in systems
    )


def free_memory() -> int:
    """
    Return the machine's free memory in bytes, from Linux's ``/proc/meminfo``.
    """
    try:
        lines = Path('/proc/meminfo').read_text().split('\n')
    except OSError:
        return UNKNOWN_MEMORY
    kilobytes = [line.split()[1] for line in lines if line.startswith('MemAvailable:')]
    return int(kilobytes[0]) * 1024 if kilobytes else UNKNOWN_MEMORY
