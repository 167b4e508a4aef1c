"""
The house as a whole: what is light stays light, few modules read JSON, open models,
load code or read keys, and the contracts of pyproject.toml, by which `make lint` checks
who may import whom, catch faults. The examples in docstrings give what they say.
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
LIGHT = 'ranking store collect.plan results.ranking report.page'
LIGHT += ' commands.doctor judge_check.record scoring.llm_judges'
LIGHT += ' engines.open_engine engines.engine'
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
def broken_contracts(module_folder):
    """
    What `lint-imports` prints of each contract over a copy of the tree with `PLANTED`.
    """
    package = linked_package(module_folder)
    for files in PLANTED.values():
        for place, (line, _) in files.items():
            (package / place).write_text(line + '\n')
    command = [LINT_IMPORTS, '--no-logo', '--no-cache']
    done = subprocess.run(
        [*command, '--config', ROOT / 'pyproject.toml'],
        cwd=module_folder,
        env={**os.environ, 'PYTHONPATH': str(module_folder)},
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


def modules_with(pattern):
    return {
        name
        for name, path in module_paths(ROOT).items()
        if re.search(pattern, path.read_text('utf-8'))
    }


# what some modules alone may do, since they ask, or were asked for by those that ask,
# who named the thing: the modules, how it is written, and examples
DEEDS = {
    # `systems.remote.plain` shows a user's server in its docstring
    'read JSON': (
        'core.json_text systems.remote.plain',
        r'\bjson\.(loads?|JSONDecoder)\b|from json import'
        r'|\b(orjson|ujson|simplejson|pd\.read_json|pandas\.read_json)\b',
        'json.loads(text)',
    ),
    # Agents are built and models opened here. A safety layer has the system inside of
    # it beside itself; the index of a retriever is read by what stands in the place of
    # `torch.load`; for models of scorers `models.handle` decides in which process.
    'open models': (
        """
        agents.safety_layer.safety_layer compat.faults models.chat models.encoders
        models.handle models.parlai_models systems.catalogue.conversions
        systems.parlai_agents systems.pretrained systems.safe.load systems.safe.read
        training.trainings
        """,
        r'(?<!def )\b(create_agent|load_system|load_judge|load_encoder|AgentChat'
        r'|ParlaiClassifier|load_hf_judge|load_parlai_judge|torch_load)\('
        r'|(?<!safetensors\.)\b(pickle|torch|jit|joblib|dill|cloudpickle)\.loads?\('
        r'|\.from_pretrained\(|allow_pickle=True',
        """
        create_agent(opt)
        torch.load(path)
        parlai.utils.pickle.load(file)
        numpy.load(path, allow_pickle=True)
        torch.jit.load(path)
        AutoModel.from_pretrained(folder)
        """,
    ),
    # Modules are imported by name: our own out of tables, those of the user by
    # `isolation.outside_code`, an agent by `systems.parlai_agents`, a teacher by
    # `systems.task_data`.
    'load code': (
        """
        commands.command commands.doctor compat.faults isolation.fork_server
        isolation.outside_code isolation.policy models.handle models.judge_process
        ranking.ratings report.page report.table results.ranking scoring.references
        scoring.registry scoring.toxicity systems.catalogue.conversions
        systems.parlai_agents systems.pretrained systems.safe.load systems.safe.read
        systems.task_data tasks.pairs.agents tasks.pairs.worlds
        """,
        r'(?<!def )\b(import_module|__import__|exec_module|spec_from_file_location'
        r'|load_\w+_module|create_task_agent_from_taskname|resolve_name)\('
        r"|(?<![\w.`])(exec|eval)\(|\brunpy\b|'trust_remote_code'|trust_remote_code=",
        """
        importlib.import_module(opt['model'])
        exec(text)
        load_agent_module(name)
        from_pretrained(folder, trust_remote_code=True)
        """,
    ),
    # A variable whose name is not written there, or all of them: a key, to send it or
    # to hide it, the folder of data, and what pip and a process of its own are given.
    'read keys': (
        """
        core.errors engines.machine isolation.fork_server
        systems.catalogue.fetch_model systems.remote.settings
        """,
        r"(environ(\.get\(|\.pop\(|\[)|getenv\()(?!['\"])|\*\*os\.environ"
        r'|environ\.(copy|items|values)\(',
        """
        os.environ[opt['remote_key_env']]
        os.getenv(name)
        {**os.environ}
        """,
    ),
}


@pytest.mark.parametrize('deed', DEEDS)
def test_only_some_modules(deed):
    modules, pattern, examples = DEEDS[deed]
    assert modules_with(pattern) == set(modules.split())
    assert all(re.search(pattern, line) for line in examples.strip().split('\n'))


@pytest.mark.parametrize('name', sorted(modules_with('>>>')))
def test_examples_hold(name):
    assert not doctest.testmod(import_module(f'parlai_ext.{name}')).failed
