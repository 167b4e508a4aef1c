"""
The house as a whole: what is light stays light, few modules read JSON, open models,
load code or read keys, and the contracts of pyproject.toml, by which `make lint` checks
who may import whom, catch faults. The examples in docstrings give what they say. The
smallest change of each kind, made over a copy of the tree, touches few files.
"""

import doctest
import io
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from tests.house.measures import BESIDE, ROOT, code_tokens, faults, siblings
from tests.support.forked import command_in_child
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


def linked_package(folder):
    """
    Return a copy of the package in a folder; its files are links to the real ones.
    """
    return shutil.copytree(
        ROOT / 'parlai_ext',
        folder / 'parlai_ext',
        ignore=shutil.ignore_patterns('__pycache__'),
        copy_function=os.symlink,
    )


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


# The numbers of the house


def test_tokens_leave_out_comments_docstrings_and_layout():
    assert code_tokens('x = 1  # one\n\n\n') == 3
    assert code_tokens("def f():\n    'Doc.'\n    return 1\n") == 7
    packed = code_tokens('x = [1, 2]\n')
    assert code_tokens('x = [\n    1,\n    2\n]\n') == packed


@pytest.mark.parametrize(
    'now, said',
    [
        ({'tokens': 101}, ['tokens rose from 100 to 101']),
        ({'tokens': 98}, ['tokens fell from 100 to 98']),
        ({'tokens': 99}, []),
        ({'tokens': 100, 'new': 2}, ["ratchets.yaml: other names: {'new'}"]),
    ],
)
def test_a_number_that_rose_fell_far_or_is_not_recorded_is_named(now, said):
    lines = faults(now, {'tokens': 100})
    assert [line[: len(start)] for line, start in zip(lines, said, strict=True)] == said


def test_siblings_are_modules_of_the_house_counted_once():
    text = (
        'import os\nfrom parlai_ext.core import errors\n'
        'from parlai_ext.core import options\ndef later():\n    import parlai_ext.api\n'
    )
    assert siblings(text) == 2


# The smallest change of each kind is made over a copy of the tree that links to the
# real files, and must work with no more files touched than `CHANGES` says.

CHANGES = yaml.safe_load(Path(__file__).with_name('changes.yaml').read_text('utf-8'))


def changed_tree(folder, changes):
    """
    Make a copy of the house in which some files are changed or new.
    """
    package = linked_package(folder)
    for top in ('parlai_internal', 'tests'):
        (folder / top).symlink_to(ROOT / top)
    for name, change in changes.items():
        real, place = ROOT / name, folder / name
        if Path(name).parts[0] in BESIDE:
            place = package / name
        if isinstance(change, dict):
            text = real.read_text('utf-8')
            assert text.count(change['before']) == 1, change
            change = text.replace(change['before'], change['after'])
        else:
            assert not real.exists()
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        place.write_text(change, encoding='utf-8')


@pytest.fixture(scope='module')
def outputs(module_folder):
    """
    By its kind, what the program of each change prints; no two changes touch the same
    file, so one tree has them all.
    """
    changes = [file for one in CHANGES.values() for file in one['files'].items()]
    assert len(dict(changes)) == len(changes)
    tree = module_folder / 'changed'
    changed_tree(tree, dict(changes))
    done = command_in_child(run_all, path=[tree], forget=['parlai_ext', 'tests'])
    assert done.code == 0, done.errors
    return json.loads(done.out.rstrip('\n').split('\n')[-1])


def run_all(_):
    printed = {}
    for kind, change in CHANGES.items():
        with redirect_stdout(io.StringIO()) as out:
            try:
                exec(change['program'], {})
            except Exception:
                print(traceback.format_exc())
        printed[kind] = out.getvalue()
    print(json.dumps(printed))


@pytest.mark.parametrize('kind', CHANGES)
def test_the_smallest_change_touches_few_files_and_works(outputs, kind):
    change = CHANGES[kind]
    assert len(change['files']) <= change['most']
    last_line = outputs[kind].rstrip('\n').split('\n')[-1]
    assert last_line == change['printed'], outputs[kind]
