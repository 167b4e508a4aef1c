"""
The house as a whole: what is light stays light, one reader of JSON, and the contracts
of pyproject.toml, by which `make lint` checks who may import whom, catch faults.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BESIDE = ('agents', 'tasks', 'worlds', 'zoo_configs')  # they install inside parlai_ext

# ranking a run that is there, or showing it, must not pay for models
LIGHT = 'ranking store collect.plan results.rank report.page'
LIGHT += ' commands.doctor judge_check.record scoring.llm.judges'
LIGHT += ' engines.open_engine engines.ray_cluster'
LIGHT += ' packs.publish packs.verify packs.compare packs.cite'
LIGHT += ' people.rating_set people.ranking people.annotator_files'
LINT_IMPORTS = Path(sys.executable).with_name('lint-imports')
HEAVY = {'torch', 'parlai', 'transformers'}


def module_paths(root):
    """
    Return the path of every module of the house by its name inside parlai_ext.
    """
    paths = {}
    for top in ('parlai_ext', *BESIDE):
        for path in sorted((root / top).rglob('*.py')):
            parts = list(path.relative_to(root).with_suffix('').parts)
            name = '.'.join(parts[1:] if top == 'parlai_ext' else parts)
            paths[name.removesuffix('.__init__')] = path
    return paths


@pytest.mark.parametrize('name', LIGHT.split())
def test_a_light_module_starts_without_models(name):
    code = f'import sys, parlai_ext.{name}; print(*sys.modules)'
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())


@pytest.mark.parametrize(
    'place, line, contract',
    [
        ('ranking/new.py', 'from parlai_ext.report import page', 'a folder imports'),
        ('ranking/new.py', 'from ..systems import players', 'a folder imports'),
        ('people/new.py', 'from parlai_ext.audit import record', 'a folder imports'),
        (
            'stopping/new.py',
            'def later():\n    import parlai_ext.tournament.rank',
            'a folder imports',
        ),
        ('report/new.py', 'import parlai.core.opt', 'what ranks'),
        ('packs/new.py', 'def later():\n    import torch.nn', 'what ranks'),
    ],
)
def test_a_planted_import_breaks_its_contract(tmp_path, place, line, contract):
    package = tmp_path / 'parlai_ext'
    (package / place).parent.mkdir(parents=True)
    for path in (ROOT / 'parlai_ext').iterdir():
        if path.name == place.split('/')[0]:
            for inner in path.iterdir():
                (package / path.name / inner.name).symlink_to(inner)
        elif path.name != '__pycache__':
            (package / path.name).symlink_to(path)
    (package / place).write_text(line + '\n')
    done = subprocess.run(
        [
            LINT_IMPORTS,
            '--no-logo',
            '--no-cache',
            '--config',
            ROOT / 'pyproject.toml',
        ],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(tmp_path)},
        capture_output=True,
        text=True,
    )
    broken = [x for x in done.stdout.split('\n') if 'BROKEN' in x]
    assert len(broken) == 1 and broken[0].startswith(contract)


# what may parse JSON itself, with the reason
OWN_JSON = {'core.json_text': 'it is the strict reader that all others call'}


def json_readers(source):
    """
    Yield the lines at which a module reads JSON by other means than `core.json_text`.
    """
    names = {'load', 'loads', 'JSONDecoder'}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ''
            if (owner == 'json' and node.attr in names) or (
                owner in ('pd', 'pandas') and node.attr == 'read_json'
            ):
                yield node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported = {alias.name for alias in node.names}
            if isinstance(node, ast.Import):
                forbidden = {'orjson', 'ujson', 'simplejson'}
            else:
                forbidden = names if node.module == 'json' else set()
            if imported & forbidden:
                yield node.lineno


def test_all_json_is_read_by_the_strict_reader():
    readers = {
        name: lines
        for name, path in module_paths(ROOT).items()
        if (lines := list(json_readers(path.read_text(encoding='utf-8'))))
    }
    assert set(readers) == set(OWN_JSON), readers


def test_a_module_that_reads_json_itself_is_found():
    for source in (
        'import json\nx = json.loads(text)',
        'import json\nread = json.load',
        'from json import loads',
        'import json\nd = json.JSONDecoder()',
        'import orjson',
        'import pandas as pd\npd.read_json(path)',
    ):
        assert list(json_readers(source)), source
    assert not list(json_readers('import json\njson.dumps(1)'))
