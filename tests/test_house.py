"""
The rooms of the house, and who may import whom: the table below, held.

Every import counts, also one inside a function, because it is a dependency all the
same. A library may be named by a room only if the table gives it to that room.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BESIDE = ('agents', 'tasks', 'worlds', 'zoo_configs')  # they install inside parlai_ext
BARE_CORE = 'errors text_file records signature schedule strict_yaml zoo_configs chat'
CORE = f'{BARE_CORE} rosters config openers_file human_scores options command '
CORE += 'dialogue_means'
ROOMS = 'ranking store report scoring likelihood remote bridge compat plugin'
LIBRARY = f'{CORE} {ROOMS}'
FACES = 'worlds agents tasks'
MATHS = 'numpy scipy'
NETWORK = 'huggingface_hub requests tqdm urllib3'
MODELS = 'parlai safetensors torch transformers'

# room: (rooms that it may import beside itself, libraries beside the standard one)
TABLE = {
    'errors': ('', ''),
    'zoo_configs': ('', ''),
    'records': ('errors', ''),
    'signature': (BARE_CORE, ''),
    'chat': ('', ''),
    'schedule': (BARE_CORE, ''),
    'text_file': ('errors', ''),
    'strict_yaml': ('errors text_file', 'yaml'),
    'rosters': (BARE_CORE, ''),
    'config': (f'{BARE_CORE} rosters', ''),
    'openers_file': (BARE_CORE, ''),
    'human_scores': (BARE_CORE, ''),
    'dialogue_means': ('records', ''),
    'options': ('errors', ''),
    'command': ('errors', ''),
    'ranking': (BARE_CORE, MATHS),
    'store': (CORE, ''),
    'report': (f'{CORE} store', 'pandas jinja2 markupsafe'),
    'scoring': (CORE, f'{MATHS} nltk'),
    'likelihood': (CORE, 'numpy torch transformers'),
    'remote': (BARE_CORE, 'requests'),
    'compat': ('errors', 'huggingface_hub transformers'),
    'plugin': (f'{CORE} compat mini', 'parlai'),
    # tasks: only to name those that there are, where one was misspelled
    'bridge': (f'{LIBRARY} tasks', f'{MODELS} {NETWORK} numpy'),
    'mini': (LIBRARY, 'parlai tokenizers torch'),
    'worlds': (f'{LIBRARY} mini', 'parlai'),
    'tasks': (f'{LIBRARY} mini worlds', 'parlai'),
    # stages: a scorer agent is built as the stage builds its scorer
    'agents': (f'{LIBRARY} mini stages', 'jinja2 parlai torch transformers'),
    # imports: games that are scored without a run folder
    'stages': (f'{LIBRARY} mini {FACES} imports', 'numpy torch tqdm'),
    # imports: the stages know what is different about a run of imported dialogues
    'imports': (f'{CORE} store stages', 'tqdm'),
    'doctor': (f'{LIBRARY} mini', 'parlai torch'),
    '__main__': ('command doctor plugin', 'parlai'),
    'scripts': (
        f'{LIBRARY} mini {FACES} stages imports doctor __init__',
        'torch tqdm',
    ),
    '__init__': ('', ''),
}
# ranking a run that is there, or showing it, must not pay for models
LIGHT = 'ranking store stages.plan stages.rank stages.report report.page doctor'
HEAVY = {'torch', 'parlai', 'transformers'}


def modules(root):
    """
    Yield the dotted name inside parlai_ext and the path of every module of the house.
    """
    for top in ('parlai_ext', *BESIDE):
        for path in sorted((root / top).rglob('*.py')):
            parts = list(path.relative_to(root).with_suffix('').parts)
            name = '.'.join(parts[1:] if top == 'parlai_ext' else parts)
            yield name.removesuffix('.__init__'), path


def imports(name, path):
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


def trespasses(root):
    """
    Return a line for every import that the table does not allow.
    """
    rooms = {name.split('.')[0] for name, _ in modules(root)}
    found = []
    for name, path in modules(root):
        room = name.split('.')[0]
        if room not in TABLE:
            found.append(f'{name}: the table has no room {room!r}')
            continue
        for imported in imports(name, path):
            if not allowed(room, imported, rooms):
                found.append(f'{name} imports {imported}')
    return found


def allowed(room, imported, rooms):
    """
    Return whether the table lets ``room`` import ``imported``.
    """
    mine, libraries = (entry.split() for entry in TABLE[room])
    top, _, rest = imported.partition('.')
    if top in BESIDE:
        return False
    if top != 'parlai_ext':
        return top in sys.stdlib_module_names or top in libraries
    other = rest.split('.')[0]
    other = other if other in rooms else '__init__'
    return other == room or other in mine or not rest


def test_every_import_is_in_the_table():
    assert trespasses(ROOT) == []


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
        ('parlai_ext/ranking/new.py', 'from parlai_ext.store import RunFolder'),
        ('parlai_ext/ranking/new.py', 'from ..bridge import agents'),
        ('parlai_ext/records.py', 'from parlai_ext import report'),
        ('parlai_ext/store/new.py', 'def later():\n    import parlai.core.opt'),
        ('parlai_ext/report/new.py', 'import parlai'),
        ('parlai_ext/scoring/new.py', 'import torch.nn'),
        ('parlai_ext/likelihood/new.py', 'from parlai.core.opt import Opt'),
        ('parlai_ext/likelihood/new.py', 'from parlai_ext.bridge import judge'),
        ('parlai_ext/bridge/new.py', 'from parlai_ext.worlds import lockstep'),
        ('parlai_ext/stages/new.py', 'from parlai_ext.scripts import doctor'),
        ('parlai_ext/stages/new.py', 'from parlai.core.opt import Opt'),
        ('parlai_ext/mini/new.py', 'import parlai_ext.scripts.doctor'),
        ('worlds/new.py', 'from parlai_ext.scripts.doctor import Doctor'),
        ('worlds/new.py', 'import worlds.lockstep'),
        ('agents/new.py', 'from zoo_configs import path'),
        ('parlai_ext/newroom/new.py', 'import json'),
    ],
)
def test_a_planted_trespass_is_caught(tmp_path, place, line):
    for room in ('bridge', 'store', 'report', 'scripts', 'records', 'ranking'):
        (tmp_path / 'parlai_ext' / room).mkdir(parents=True)
        (tmp_path / 'parlai_ext' / room / '__init__.py').touch()
    for room in BESIDE:
        (tmp_path / room).mkdir()
        (tmp_path / room / '__init__.py').touch()
    assert trespasses(tmp_path) == []
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text(line + '\n')
    assert len(trespasses(tmp_path)) == 1
