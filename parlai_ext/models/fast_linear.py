"""
Linear layers that oneDNN computes, a library that comes with torch. On AMD's processors
with AVX-512 it takes half the time of the one that torch uses for float32.
"""

from pathlib import Path
from typing import Any

import torch
from torch import nn

CPU = Path('/proc/cpuinfo')
IS_AMD = CPU.exists() and {'AuthenticAMD', 'avx512f'} <= {*CPU.read_text().split()}
# what torch.compile takes, too; a torch that was built without oneDNN has none
LINEAR: Any = getattr(torch.ops.mkldnn, '_linear_pointwise', None)
LEAST = 2**16  # weights; of a smaller layer the call costs more than it saves


class FastLinear(nn.Linear):
    """
    A layer in float32 on a processor; where gradients are made, torch computes it.
    """

    def forward(self, input: torch.Tensor) -> Any:
        """
        Return ``[..., out]`` of ``[..., in]``.
        """
        if torch.is_grad_enabled():
            return super().forward(input)
        return LINEAR(input, self.weight, self.bias, 'none', [], '')


def quicken(network: nn.Module) -> None:
    """
    Have oneDNN compute the larger layers of a network where that is faster.
    """
    for layer in network.modules() if LINEAR and IS_AMD else ():
        if (
            type(layer) is nn.Linear
            and layer.weight.numel() >= LEAST
            and layer.weight.is_cpu
            and layer.weight.dtype == torch.float32
        ):
            layer.__class__ = FastLinear
