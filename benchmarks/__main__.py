"""
List the benchmarks with one line each.
"""

import ast
from pathlib import Path


def first_lines() -> dict[str, str]:
    """
    Return the first line of each benchmark's docstring by the benchmark's name.
    """
    folder = Path(__file__).parent
    modules = [path for path in folder.glob('*.py') if not path.stem.startswith('__')]
    packages = [path.with_name('__init__.py') for path in folder.glob('*/__main__.py')]
    lines = {}
    for path in sorted(modules + packages):
        name = path.parent.name if path.name == '__init__.py' else path.stem
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding='utf-8')))
        lines[name] = (docstring or '').split('\n')[0]
    return dict(sorted(lines.items()))


if __name__ == '__main__':
    print('python -m benchmarks.NAME [--help], or: make bench NAME=…\n')
    for name, line in first_lines().items():
        print(f'  {name:26} {line}')
