"""
The house as a whole: what is light stays light, one reader of JSON, and the contracts
of pyproject.toml, by which `make lint` checks who may import whom, catch faults.
The examples in docstrings give what they say.
"""

import doctest
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.house.measures import BESIDE, ROOT
from tests.support.linked_package import linked_package
from tests.support.run_python import run_python

# ranking a run that is there, or showing it, must not pay for models
LIGHT = 'ranking store collect.plan results.rank report.page'
LIGHT += ' commands.doctor judge_check.record scoring.llm_judges'
LIGHT += ' engines.open_engine engines.ray_cluster'
LIGHT += ' packs.publish packs.verify packs.compare commands.cite_run'
LIGHT += ' people.rating_set people.ranking'
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
    done = run_python(code)
    assert done.returncode == 0, done.stderr


# by contract, what is planted in a file, and the import that breaks the contract
PLANTED = {
    'a folder imports': {
        'report/upwards.py': ('from parlai_ext.audit import record', 'audit.record'),
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
    package = linked_package(root)
    for files in PLANTED.values():
        for place, (line, _) in files.items():
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


# who reads JSON by other means than `core.json_text`
READS_JSON = re.compile(
    r'\bjson\.(loads?|JSONDecoder)\b|from json import'
    r'|\b(orjson|ujson|simplejson|pd\.read_json|pandas\.read_json)\b'
)


def modules_with(pattern):
    return {
        name
        for name, path in module_paths(ROOT).items()
        if pattern.search(path.read_text(encoding='utf-8'))
    }


def test_all_json_is_read_by_the_strict_reader():
    # the second shows a user's server in its docstring
    assert modules_with(READS_JSON) == {'core.json_text', 'systems.remote.plain'}


LOADER = 'loads a model of a scorer: `models.handle` decides in which process'
# what may build an agent or open a model, and what may have it done, with the reason
OPENS_MODELS = {
    'agents.safety_layer.safety_layer': 'loads the system inside of it beside itself',
    'compat.agents': 'opens an index by what stands in the place of `torch.load`',
    'models.chat': LOADER,
    'models.encoder_kinds': LOADER,
    'models.handle': 'decides in which process a model of a scorer is loaded',
    'models.parlai_likelihood': LOADER,
    'systems.parlai_agents': 'builds the agent of a system',
    'systems.player_process': 'asks `is_trusted` first, or is a process of its own',
    'systems.safe.load': 'has the readers that stand in the places of the originals',
    'systems.safe.read': 'has the readers of data',
}
# who calls a builder of a model, or opens a pickle
OPENS = re.compile(
    r'(?<!def )\b(create_agent|load_system|load_judge|load_encoder|AgentChat'
    r'|ParlaiClassifier|load_hf_judge|load_parlai_judge)\('
    r'|(?<!safetensors\.)\b(pickle|torch|joblib|dill|cloudpickle)\.loads?\('
    r'|allow_pickle=True'
)


def test_models_are_opened_where_it_is_decided_in_which_process():
    assert modules_with(OPENS) == set(OPENS_MODELS)


@pytest.mark.parametrize(
    'line',
    [
        'agent = create_agent(opt)',
        'torch.load(path)',
        'parlai.utils.pickle.load(file)',
        'numpy.load(path, allow_pickle=True)',
    ],
)
def test_a_module_that_opens_a_model_is_found(line):
    assert OPENS.search(line)


EXAMPLES = [
    name
    for name, path in module_paths(ROOT).items()
    if '>>>' in path.read_text(encoding='utf-8')
]


@pytest.mark.parametrize('name', EXAMPLES)
def test_examples_hold(name):
    assert not doctest.testmod(import_module(f'parlai_ext.{name}')).failed
