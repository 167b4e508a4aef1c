"""
Two ways to compute the same likelihoods, side by side: operations and times.
"""

import argparse
import math
import os
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.support.measures import times_in_turn
from parlai_ext.models.fast_linear import LINEAR


def _flops(_given: Any, weight: Any, *_: Any, out_shape: Any) -> int:
    """
    Return the operations of a layer that oneDNN computes, which torch does not count.
    """
    return 2 * math.prod(out_shape) * weight[1]


def compare_sides(
    title: str, sides: Mapping[str, Callable[[], Any]], opt: argparse.Namespace
) -> dict[str, Any]:
    """
    Print each side's operations and times, and the ratios to the first side; return
    each side's result.

    The counting run warms up, too.
    """
    counts, results = {}, {}
    for name, work in sides.items():
        with (
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False, custom_mapping={LINEAR: _flops}) as counter,
        ):
            results[name] = work()
        counts[name] = counter.get_total_flops()
    times = times_in_turn(sides, opt)
    print(f'{title} (load average {os.getloadavg()[0]:.1f}; {opt.clock} seconds)')
    first = next(iter(sides))
    for name, count in counts.items():
        middle = statistics.median(times[name])
        each = ', '.join(f'{t:.2f}' for t in times[name])
        line = f'  {name}: {count / 1e9:.1f} GFLOP, {middle:.3f} s ({each})'
        if name != first:
            bound = counts[first] / count
            ratio = statistics.median(times[first]) / middle
            line += (
                f'\n    {ratio:.2f} times as fast; counted {bound:.2f}; share '
                f'{ratio / bound:.0%}'
            )
        print(line, flush=True)
    if opt.device.startswith('cuda'):
        gib = torch.cuda.max_memory_allocated() / 2**30
        print(f'{torch.cuda.get_device_name()}, peak memory {gib:.1f} GiB')
    return results
