"""
The folders of the house and who may import whom, checked over the whole module graph.

Every import counts, also one inside a function or under TYPE_CHECKING, because it is
a dependency all the same.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BESIDE = ('agents', 'tasks', 'worlds', 'zoo_configs')  # they install inside parlai_ext

# A folder may import itself and the folders above it in this list, never one below.
# Beside each stand the libraries, beside the standard one, that it may import. A module
# with a row of its own counts as a folder.
FOLDERS = {
    'worlds.pairings': '',
    'core': 'pydantic pydantic_core tqdm',
    'worlds.schedule': '',
    'tournament.games': '',
    'zoo_configs': '',
    'files': 'yaml',
    'view': 'jinja2 markupsafe pandas tabulate',
    'store': 'pydantic',
    'engines': 'ray',
    'ranking': 'evalica numpy pandas scipy',
    'stopping.rule': 'numpy',
    'data': '',
    'mini': 'parlai tokenizers torch',
    'compat': 'huggingface_hub numpy parlai torch transformers',
    'isolation': 'parlai',
    'systems': 'gguf h5py httpx2 huggingface_hub numpy parlai pyarrow safetensors '
    'tokenizers torch transformers',
    'models': 'numpy parlai safetensors torch transformers',
    'scoring': 'nltk numpy rouge_score sacrebleu safetensors scipy',
    'bench': 'numpy scipy',
    'judge_check': 'numpy scipy',
    'training': 'numpy peft safetensors scipy torch transformers yaml',
    'worlds': 'numpy parlai torch',
    'collect': 'numpy parlai torch',
    'toxic': 'numpy parlai spacy stanza',
    'results': 'numpy',
    'report.view': '',
    'judge_check.section': '',
    'tournament': 'numpy',
    'stopping': 'numpy scipy',
    'audit': 'numpy',
    'people': 'numpy scipy',
    'report': 'matplotlib pandas',
    'packs': '',
    'tasks': 'parlai',
    'agents': 'jinja2 parlai torch transformers',
    'commands': 'parlai torch',
    'api': 'matplotlib pandas',
    '__main__': 'parlai',
    '__init__': '',
}
# Circles and upward imports that are still there. This set only ever shrinks.
KNOWN: set[str] = set()
# ranking a run that is there, or showing it, must not pay for models
LIGHT = 'ranking store collect.plan results.rank report.write report.page'
LIGHT += ' commands.installation judge_check.record scoring.llm.judges'
LIGHT += ' engines.open_engine engines.ray_cluster'
LIGHT += ' packs.publish packs.verify packs.compare packs.cite'
LIGHT += ' people.rating_set people.ranking people.rating_page'
LIGHT += ' report.dialogue_text'
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


def imported_names(name, path):
    """
    Yield the absolute names that a module imports.
    """
    package = ['parlai_ext', *name.split('.')]
    if path.name != '__init__.py':
        package.pop()
    tree = ast.parse(path.read_text(encoding='utf-8'))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = '.'.join([*above, *([node.module] if node.module else [])])
            yield from (f'{base}.{alias.name}' for alias in node.names)


def imported_modules(paths):
    """
    Return, for every module of the house, the modules of the house that it imports.
    """
    graph = {}
    for name, path in paths.items():
        graph[name] = set()
        for imported in imported_names(name, path):
            top, _, target = imported.partition('.')
            while target and target not in paths:
                target = target.rpartition('.')[0]
            if top == 'parlai_ext' and target and target != name:
                graph[name].add(target)
    return graph


def row_of(module):
    """
    Return the row of the table that a module belongs to: its own, or its folder's.
    """
    return module if module in FOLDERS else module.split('.')[0]


def folder_of(module, paths):
    """
    Return the dotted folder that a module lies in: a package lies in itself, and so
    does a module with a row of its own.
    """
    if module in FOLDERS:
        return module
    return module if paths[module].name == '__init__.py' else module.rpartition('.')[0]


def circles(graph):
    """
    Return the groups of nodes that reach each other (Tarjan's strong components).
    """
    order, low, stack, groups = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph[node]:
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            start = stack.index(node)
            groups.append(sorted(stack[start:]))
            del stack[start:]

    for node in graph:
        if node not in order:
            visit(node)
    return [group for group in groups if len(group) > 1]


def folder_graph(graph, paths):
    """
    Return which folders import which; a nested folder counts as a folder of its own.
    """
    folders = {folder_of(module, paths): set() for module in graph}
    for module, targets in graph.items():
        here = folder_of(module, paths)
        folders[here] |= {folder_of(target, paths) for target in targets} - {here}
    return folders


def trespasses(root):
    """
    Return a line for every import that the table does not allow, and every circle.
    """
    paths = module_paths(root)
    graph = imported_modules(paths)
    rows = list(FOLDERS)
    lines = [f'circle of modules: {" ".join(group)}' for group in circles(graph)]
    lines += [
        f'circle of folders: {" ".join(group)}'
        for group in circles(folder_graph(graph, paths))
    ]
    for name, path in paths.items():
        folder = row_of(name)
        if folder not in rows:
            lines.append(f'{name}: the table has no folder {folder!r}')
            continue
        for imported in imported_names(name, path):
            top = imported.partition('.')[0]
            allowed = top in sys.stdlib_module_names or top in FOLDERS[folder].split()
            if top != 'parlai_ext' and not allowed:
                lines.append(f'{name} imports {imported}')
        for target in sorted(graph[name]):
            if rows.index(row_of(target)) > rows.index(folder):
                lines.append(f'{name} imports {target}')
    return lines


def test_every_import_is_in_the_table_and_nothing_goes_in_circles():
    assert sorted(set(trespasses(ROOT)) ^ KNOWN) == []


@pytest.mark.parametrize('name', LIGHT.split())
def test_a_light_module_starts_without_models(name):
    code = f'import sys, parlai_ext.{name}; print(*sys.modules)'
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())


@pytest.mark.parametrize(
    'place, line',
    [
        ('parlai_ext/ranking/new.py', 'import torch'),
        ('parlai_ext/ranking/new.py', 'from parlai_ext.report import page'),
        ('parlai_ext/ranking/new.py', 'from ..systems import agents'),
        ('parlai_ext/core/nouns.py', 'from parlai_ext import report'),
        ('parlai_ext/store/new.py', 'def later():\n    import parlai.core.opt'),
        ('parlai_ext/report/new.py', 'import parlai'),
        ('parlai_ext/scoring/new.py', 'import torch.nn'),
        ('parlai_ext/systems/new.py', 'from parlai_ext.commands import doctor'),
        ('worlds/new.py', 'from parlai_ext.commands.doctor import Doctor'),
        ('worlds/pairings.py', 'from parlai_ext.core.nouns import Pairing'),
        ('worlds/schedule.py', 'from parlai_ext.systems import agents'),
        ('parlai_ext/core/new.py', 'from parlai_ext.worlds import schedule'),
        ('worlds/new.py', 'import worlds.lockstep'),
        ('agents/new.py', 'from zoo_configs import path'),
        ('parlai_ext/newroom/new.py', 'import json'),
        ('parlai_ext/store/one.py', 'from parlai_ext.store import two'),
        ('parlai_ext/store/deep/one.py', 'from parlai_ext.store import two'),
    ],
)
def test_a_planted_trespass_is_caught(tmp_path, place, line):
    for folder in ('systems', 'store', 'report', 'commands', 'core', 'ranking'):
        (tmp_path / 'parlai_ext' / folder).mkdir(parents=True)
        (tmp_path / 'parlai_ext' / folder / '__init__.py').touch()
    (tmp_path / 'parlai_ext' / 'commands' / 'doctor.py').touch()
    (tmp_path / 'parlai_ext' / 'report' / 'page.py').touch()
    (tmp_path / 'parlai_ext' / 'systems' / 'agents.py').touch()
    two = 'from parlai_ext.store import one'
    if 'deep' in place:
        two = 'from parlai_ext.store.deep import one'
    if place.startswith('parlai_ext/store/') and 'one' in place:
        (tmp_path / 'parlai_ext' / 'store' / 'two.py').write_text(two + '\n')
        (tmp_path / 'parlai_ext' / 'store' / 'deep').mkdir()
        (tmp_path / 'parlai_ext' / 'store' / 'deep' / '__init__.py').touch()
        (tmp_path / 'parlai_ext' / 'store' / 'one.py').touch()
        (tmp_path / 'parlai_ext' / 'store' / 'deep' / 'one.py').touch()
    for folder in BESIDE:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / '__init__.py').touch()
    assert trespasses(tmp_path) == []
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text(line + '\n')
    assert trespasses(tmp_path) != []


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
