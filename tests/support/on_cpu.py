"""
Models are computed on the CPU, also where there is a GPU.
"""

from parlai_ext.engines.machine import Machine
from parlai_ext.models.handle import ModelHandle

CPU = Machine(no_cuda=True)


def models_on_cpu():
    """
    Return the models that scorers ask for.
    """
    return ModelHandle(CPU)
