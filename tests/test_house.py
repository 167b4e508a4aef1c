"""
The house as a whole: what is light stays light, one reader of JSON, and the contracts
of pyproject.toml, by which `make lint` checks who may import whom, catch faults.
"""

import ast
import os
import re
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


def test_light_modules_start_without_models():
    code = f"""
import sys
for name in {LIGHT.split()}:
    __import__(f'parlai_ext.{{name}}')
    if {HEAVY} & set(sys.modules):
        sys.exit(name)
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# by contract, what is planted in a file, and the import that breaks the contract
PLANTED = {
    'a folder imports': {
        'ranking/upwards.py': ('from parlai_ext.report import page', 'report.page'),
        'ranking/relative.py': ('from ..systems import players', 'systems.players'),
        'people/feature.py': ('from parlai_ext.audit import record', 'audit.record'),
        'stopping/later.py': (
            'def later():\n    import parlai_ext.tournament.rank',
            'tournament.rank',
        ),
    },
    'what ranks': {
        'report/parlai.py': ('import parlai.core.opt', 'parlai'),
        'packs/torch.py': ('def later():\n    import torch.nn', 'torch'),
    },
}


@pytest.fixture(scope='module')
def broken_contracts(tmp_path_factory):
    """
    What `lint-imports` prints of each contract over a copy of the tree with `PLANTED`.
    """
    root = tmp_path_factory.mktemp('planted')
    package = root / 'parlai_ext'
    package.mkdir()
    planted = {k: v for files in PLANTED.values() for k, v in files.items()}
    folders = {place.split('/')[0] for place in planted}
    for path in (ROOT / 'parlai_ext').iterdir():
        if path.name in folders:
            (package / path.name).mkdir()
            for inner in path.iterdir():
                (package / path.name / inner.name).symlink_to(inner)
        elif path.name != '__pycache__':
            (package / path.name).symlink_to(path)
    for place, (line, _) in planted.items():
        (package / place).write_text(line + '\n')
    command = [LINT_IMPORTS, '--no-logo', '--no-cache']
    done = subprocess.run(
        [*command, '--config', ROOT / 'pyproject.toml'],
        cwd=root,
        env={**os.environ, 'PYTHONPATH': str(root)},
        capture_output=True,
        text=True,
    )
    chapters = re.split(r'^(.+)\n-+\n', done.stdout, flags=re.MULTILINE)
    return dict(zip(chapters[1::2], chapters[2::2], strict=True))


@pytest.mark.parametrize('contract', PLANTED)
def test_planted_imports_break_their_contract(broken_contracts, contract):
    [text] = [v for name, v in broken_contracts.items() if name.startswith(contract)]
    found = re.findall(r'^- +parlai_ext\.(\S+) -> (?:parlai_ext\.)?(\S+) ', text, re.M)
    assert set(found) == {
        (place.removesuffix('.py').replace('/', '.'), imported)
        for place, (_, imported) in PLANTED[contract].items()
    }


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


LOADER = 'loads a model of a scorer: `models.handle` decides in which process'
# what may build an agent or open a model, and what may have it done, with the reason
OPENS_MODELS = {
    'agents.safety_layer.safety_layer': 'loads the system inside of it beside itself',
    'compat.rag': 'opens an index by what stands in the place of `torch.load`',
    'models.chat': LOADER,
    'models.classifiers': LOADER,
    'models.encoder_kinds': LOADER,
    'models.parlai_likelihood': LOADER,
    'systems.parlai_agents': 'builds the agent of a system',
    'systems.player_process': 'asks `is_trusted` first, or is a process of its own',
    'systems.safe.load': 'has the readers that stand in the places of the originals',
    'systems.safe.read': 'has the readers of data',
}
BUILDERS = {'create_agent', 'load_system', 'load_judge', 'load_encoder', 'AgentChat'}
BUILDERS |= {'ParlaiClassifier', 'load_hf_judge'}
PICKLES = {'pickle', 'torch', 'joblib', 'dill', 'cloudpickle'}


def model_openers(source):
    """
    Yield the lines at which a module builds a model or opens a pickle.
    """
    for node in ast.walk(ast.parse(source)):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in BUILDERS:
            yield node.lineno
        if isinstance(called, ast.Attribute) and called.attr in ('load', 'loads'):
            owner = ast.unparse(called.value)
            if owner.rpartition('.')[2] in PICKLES and 'safetensors' not in owner:
                yield node.lineno
        words = node.keywords if called else ()
        if any(ast.unparse(word) == 'allow_pickle=True' for word in words):
            yield node.lineno


def test_models_are_opened_where_it_is_decided_in_which_process():
    openers = {
        name: lines
        for name, path in module_paths(ROOT).items()
        if (lines := list(model_openers(path.read_text(encoding='utf-8'))))
    }
    assert set(openers) == set(OPENS_MODELS), openers


def test_a_module_that_opens_a_model_is_found():
    for source in (
        'agent = create_agent(opt)',
        'import torch\ntorch.load(path)',
        'import parlai.utils.pickle\nparlai.utils.pickle.load(file)',
        'import numpy\nnumpy.load(path, allow_pickle=True)',
    ):
        assert list(model_openers(source)), source
    assert not list(model_openers('import safetensors.numpy as s\ns.load(data)'))
