"""
Models are computed on the CPU, also where there is a GPU.
"""

from importlib import import_module

from parlai_ext.engines.machine import Machine
from parlai_ext.models.handle import ModelHandle, Models, model_system

CPU = Machine(no_cuda=True)


def models_on_cpu():
    """
    Return the models that scorers ask for.
    """
    return ModelHandle(CPU)


def load_here(kind, name):
    """
    Load a model in this process, as the process of its own loads it.
    """
    module, function = vars(Models)[kind].loader
    return vars(import_module(module))[function](
        kind, name, model_system(kind, name), CPU
    )


def load_judge(name, *, double=False):
    """
    Load a judge in this process; with its weights in float64 if asked.
    """
    judge = load_here('likelihood', name)
    if double:
        judge.network.double()
    return judge
