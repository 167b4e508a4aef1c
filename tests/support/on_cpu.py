"""
Models are computed on the CPU, also where there is a GPU, and in this process.
"""

from functools import cache

from parlai_ext.engines.machine import Machine
from parlai_ext.models.handle import ModelHandle, Models

CPU = Machine(no_cuda=True)


@cache
def _model(kind, name, machine):
    return vars(Models)[kind].load(kind, name, machine)


class ModelsHere(ModelHandle):
    """
    The models that scorers ask for. Those of strangers are loaded in this process, too:
    their own costs seconds, and `tests/models/test_judge_process.py` compares both.
    """

    def model(self, kind, name):
        return _model(kind, name, self.machine)


def models_on_cpu(machine=CPU):
    """
    Return the models that scorers ask for.
    """
    return ModelsHere(machine)
