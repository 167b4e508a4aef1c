"""
The engine that the command line chooses: its options, and how it is opened.

Commands import this module for their help, so it imports little.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.core import UserError, frozen, option, optional, options_of

if TYPE_CHECKING:
    from parlai_ext.engines.engine import Engine
    from parlai_ext.engines.machine import Machine

RAY = 'ray'


@frozen
class EngineOptions:
    """
    Where tasks run; the options of Ray need ``--engine ray``.
    """

    title = 'where it runs'
    engine: str = option(
        'local',
        choices=('local', RAY),
        metavar='NAME',
        help='local: on this machine; ray: on the machines of a Ray cluster (local)',
    )
    workers: int | None = optional(
        low=1,
        metavar='N',
        help='processes on this machine, of one thread each; 1: this process (one a '
        'core where all models are small and on the CPU, else 1)',
    )
    ray_address: str | None = optional(
        metavar='ADDRESS|auto',
        help='HOST:PORT of the cluster; auto: the one that this machine is in (auto)',
    )
    ray_cpus: int | None = optional(
        low=1,
        help='CPU cores, and threads, of each worker (1)',
    )
    ray_patience: float | None = optional(
        low=5,
        metavar='SECONDS',
        help='a worker without a sign of life for so long is taken as lost (60)',
    )

    def __post_init__(self) -> None:
        if self.engine == RAY and self.workers is not None:
            raise UserError(
                '--workers needs --engine local; --ray-cpus shares out cores'
            )
        for name, one in options_of(EngineOptions).items():
            is_rays = name.startswith(RAY) and getattr(self, name) is not None
            if is_rays and self.engine != RAY:
                raise UserError(f'{one.flag_name()} needs --engine ray')


@contextmanager
def open_engine(
    options: EngineOptions, folder: str | Path, machine: 'Machine'
) -> Iterator['Engine']:
    """
    Open the engine that the options choose, and close it at the end.

    :param folder: is written to by the workers, which must all see it.
    :raises UserError: when Ray is not there, or cannot be reached.
    """
    from parlai_ext.engines.engine import (
        LocalEngine,
        RayEngine,
        remove_abandoned_tokens,
    )

    remove_abandoned_tokens(Path(folder))
    if options.engine != RAY:
        yield LocalEngine(options.workers)
        return
    cpus, patience = options.ray_cpus or 1, options.ray_patience or 60.0
    engine = RayEngine(Path(folder), cpus, patience, machine)
    with engine.connected(options.ray_address or 'auto'):
        yield engine
