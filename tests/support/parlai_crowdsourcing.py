"""
Functions and constants of ParlAI's crowdsourcing tasks, without what these import.

The tasks import Mephisto, Hydra and others, none of which reading a file needs. What is
asked for is taken from ParlAI's own source and nothing of it is changed.
"""

import ast
from functools import cache
from pathlib import Path

import parlai


@cache
def parlai_source(file):
    """
    Return the parsed source of a file of ParlAI's crowdsourcing tasks.
    """
    folder = Path(parlai.__path__[0]) / 'crowdsourcing' / 'tasks'
    return ast.parse((folder / file).read_text('utf-8'))


def named(nodes, kind, name):
    return next(n for n in nodes if isinstance(n, kind) and n.name == name)


def parlai_constant(file, name):
    """
    Return a literal that a file assigns to a name.
    """
    return next(
        ast.literal_eval(node.value)
        for node in parlai_source(file).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    )


def parlai_method(file, cls, name, **names):
    """
    Return a method of a class as a function.

    :param names: what the method's code refers to.
    """
    owner = named(parlai_source(file).body, ast.ClassDef, cls)
    method = named(owner.body, ast.FunctionDef, name)
    method.returns = None
    for argument in method.args.args:
        argument.annotation = None
    exec(compile(ast.Module([method], []), file, 'exec'), names)
    return names[name]
