"""
Where models lie on this machine, and how they compute on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Machine:
    """
    Where models lie and how they compute; a command's options, read once.

    `datapath` is ParlAI's data folder (`None`: ParlAI's own choice), `fp16` is half
    precision on a GPU (`None`: as each model's own options say), `batchsize` is how
    many dialogues or contexts go through a model together, `max_gpu_memory` limits
    the weights of loaded systems in gigabytes, and `trust_model_code` names the model
    files that may run code when they are read.
    """

    datapath: str | None = None
    no_cuda: bool = False
    fp16: bool | None = None
    batchsize: int = 64
    max_gpu_memory: float | None = None
    trust_model_code: tuple[str, ...] = ()

    @classmethod
    def from_options(cls, opt: Mapping[str, Any]) -> Machine:
        """
        Return the machine that a command's or an agent's options describe.
        """
        names = [field.name for field in fields(cls)]
        given = {name: opt[name] for name in names if opt.get(name) is not None}
        if files := given.get('trust_model_code'):
            given['trust_model_code'] = tuple(files)
        return cls(**given)
