"""
Models are computed on the CPU, also where there is a GPU, and in this process.
"""

from functools import cache
from pkgutil import resolve_name

from parlai_ext.engines import Machine
from parlai_ext.models.handle import ModelHandle, Models, model_system

CPU = Machine(no_cuda=True)


def load_here(kind, name, machine=CPU):
    """
    Load a model in this process, as the process of its own loads it.
    """
    load = resolve_name(vars(Models)[kind].loader)
    return load(kind, name, model_system(kind, name), machine)


_model = cache(load_here)


class ModelsHere(ModelHandle):
    """
    The models that scorers ask for. Those of strangers are loaded in this process, too:
    their own costs seconds, and `tests/models/test_model_handle.py` compares both.
    """

    def model(self, kind, name):
        return _model(kind, name, self.machine)


def models_on_cpu(machine=CPU):
    """
    Return the models that scorers ask for.
    """
    return ModelsHere(machine)


def load_judge(name, *, double=False):
    """
    Load a judge in this process; with its weights in float64 if asked.
    """
    judge = load_here('likelihood', name)
    if double:
        judge.model.double()
    return judge
