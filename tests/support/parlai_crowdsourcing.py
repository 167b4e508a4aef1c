"""
Functions and constants of ParlAI's crowdsourcing tasks, without what these import.

The tasks import Mephisto, Hydra and others, none of which reading a file needs. What is
asked for is taken from ParlAI's own source and nothing of it is changed.
"""

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def parlai_source(file):
    """
    Return the parsed source of a file of ParlAI's crowdsourcing tasks.
    """
    spec = find_spec('parlai')
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / 'crowdsourcing' / 'tasks'
    return ast.parse((folder / file).read_text(encoding='utf-8'))


def parlai_constant(file, name):
    """
    Return a literal that a file assigns to a name.
    """
    for node in parlai_source(file).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f'{file}: no {name}')


def parlai_method(file, cls, name, **names):
    """
    Return a method of a class as a function.

    :param names: what the method's code refers to.
    """
    for node in parlai_source(file).body:
        if isinstance(node, ast.ClassDef) and node.name == cls:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == name:
                    inner.returns = None
                    for argument in inner.args.args:
                        argument.annotation = None
                    module = ast.Module([inner], [])
                    exec(compile(module, file, 'exec'), names)
                    method = names[name]
                    return method
    raise AssertionError(f'{file}: no {cls}.{name}')
