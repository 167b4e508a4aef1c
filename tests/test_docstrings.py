"""
The examples in docstrings give what they say.
"""

import doctest
from importlib import import_module

import pytest

from tests.test_house import ROOT, module_paths

EXAMPLES = [
    name
    for name, path in module_paths(ROOT).items()
    if '>>>' in path.read_text(encoding='utf-8')
]


@pytest.mark.parametrize('name', EXAMPLES)
def test_examples_hold(name):
    assert not doctest.testmod(import_module(f'parlai_ext.{name}')).failed
