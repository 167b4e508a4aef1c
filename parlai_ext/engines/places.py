"""
The places of workers: on which node, with how many cores, with how much of which GPU.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

GPU_MEMORY = 'gpu_memory'  # GB of all GPUs of a node, which its `ray start` declares


@dataclass(frozen=True)
class Place:
    """
    A place for one worker.

    :param node: Ray's id of the node; `host` is its name or address.
    :param slot: counts the places of a node.
    :param share: of the memory of its device that the worker may use, from 0 to 1.
    """

    node: str
    host: str
    slot: int
    cpus: int
    gpus: float
    share: float


def places(
    nodes: Iterable[Mapping[str, Any]],
    cpus: int,
    *,
    no_gpu: bool = False,
    needed: float | None = None,
) -> list[Place]:
    """
    Return the places that a cluster has for workers.

    Where a node has GPUs, workers are placed on GPUs only: one for each, or as many as
    the declared memory of a GPU holds. Else each has a node's cores to itself.

    :param nodes: as ``ray.nodes()`` returns them.
    :param cpus: cores of a worker.
    :param needed: GB of a GPU that a worker takes; a node that declares less for each
        of its GPUs has no place. `None`: a whole GPU.
    """
    alive = [node for node in nodes if node.get('Alive')]
    gpus = not no_gpu and any(node['Resources'].get('GPU') for node in alive)
    found = []
    for node in alive:
        have = node['Resources']
        n_cores = int(have.get('CPU', 0) // cpus)
        on_each = 1
        if gpus:
            n_gpus = int(have.get('GPU', 0))
            declared = have.get(GPU_MEMORY)  # of all GPUs of the node
            if n_gpus and declared is not None and needed is not None:
                on_each = int(declared / n_gpus // needed)
            n_places = min(n_cores, n_gpus * on_each)
            share = 1 / max(1, on_each)
        else:
            n_places = n_cores
            share = 1 / max(1, n_cores)
        host = str(node.get('NodeManagerHostname') or node.get('NodeManagerAddress'))
        found += [
            Place(node['NodeID'], host, slot, cpus, 1 / on_each if gpus else 0.0, share)
            for slot in range(n_places)
        ]
    return found
