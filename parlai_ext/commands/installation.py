"""
What keeps `parlai` and parlai_ext from working here, and the command that mends it.

Imports nothing but the standard library until it is known that the rest can be.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from parlai_ext.commands.command import COMMANDS, find_command

PARLAI = '1.7.2'
OLD_SETUPTOOLS = "'setuptools<80.9'"
PIP = f'{sys.executable} -m pip install'
# prints the folder that hides our door to `parlai`, or nothing
LOOK = """
from importlib.util import find_spec
import parlai_internal
try:
    door = find_spec('parlai_internal.scripts.parlai_ext_commands')
except ModuleNotFoundError:
    door = None
print('' if door else parlai_internal.__path__[0])
"""


@dataclass(frozen=True)
class Finding:
    """
    What is so, and the command that mends it; not ``wrong`` if it may stay so.
    """

    what: str
    mend: str
    wrong: bool = True


def findings() -> list[Finding]:
    """
    Return everything that is missing, too new or hidden, what matters most first.
    """
    early = [*packages(), *pkg_resources(), *parlai(), *rooms()]
    found = [*early, *conflicts(pip_check()), *hidden()]
    # with one of the first wrong, these would say the same in other words
    return found if any(f.wrong for f in early) else [*found, *commands()]


def packages() -> Iterator[Finding]:
    """
    The packages that `setup.py` asks for.
    """
    if version_of('parlai_ext') is None:
        yield Finding('parlai_ext itself is not installed', reinstall())
    missing = [name for name in requirements() if version_of(name) is None]
    if missing:
        yield Finding(f'missing: {", ".join(missing)}', f'{PIP} {" ".join(missing)}')


def pkg_resources() -> Iterator[Finding]:
    """
    The module that `parlai` imports first and setuptools 82 took away.
    """
    version = version_of('setuptools')
    if version and not importable('pkg_resources'):
        what = f'setuptools {version} is too new: `parlai` imports its pkg_resources'
        yield Finding(f'{what}, gone since 82', f'{PIP} {OLD_SETUPTOOLS}')


def parlai() -> Iterator[Finding]:
    """
    ParlAI, in the version that the fixes were made for.
    """
    version = version_of('parlai')
    install = f'{PIP} --no-deps parlai=={PARLAI}'
    if version is None:
        yield Finding('parlai is missing', install)
    elif version != PARLAI:
        yield Finding(f'parlai {version} is here and {PARLAI} is meant', install)


def rooms() -> Iterator[Finding]:
    """
    Our own packages: a checkout on the path is not an installation.
    """
    for room in ('agents', 'tasks', 'worlds', 'zoo_configs'):
        if find_spec(f'parlai_ext.{room}') is None:
            yield Finding(f'parlai_ext.{room} is not installed', reinstall())
            return


def conflicts(lines: Sequence[str]) -> Iterator[Finding]:
    """
    What the ``lines`` of `pip check` say of the packages that we use.
    """
    pins = [line for line in lines if line.startswith('parlai ')]
    if pins:
        what = f"{len(pins)} of parlai's own requirements are not met, as is meant"
        yield Finding(f'{what} (numpy~=1.23 and the like)', 'nothing to do', False)
    ours = [name.lower() for name in requirements()]
    for line in lines:
        clash = re.match(r'(\S+) \S+ has requirement (.+), but you have (.*)\.', line)
        if clash and clash[1].lower() in ours:
            what = f'{clash[3]} does not suit {clash[1]}, which wants {clash[2]}'
            yield Finding(what, f"{PIP} '{clash[2]}'")


def hidden() -> Iterator[Finding]:
    """
    Another `parlai_internal` in front of ours: `parlai` then never meets our commands.
    """
    # asked in a process that, like `parlai`, does not look into the current folder
    look = [sys.executable, '-P', '-c', LOOK]
    done = subprocess.run(look, capture_output=True, text=True)
    if done.returncode:
        why = done.stderr.strip().split('\n')[-1]
        yield Finding(f'parlai_internal cannot be imported: {why}', reinstall())
        return
    other = done.stdout.strip()
    if not other:
        return
    folder = Path(other, 'scripts')
    line = 'from parlai_ext.commands import plugin; plugin.register()'
    yield Finding(
        f'{other} hides our package of that name, so `parlai` lacks our commands '
        '(`python -m parlai_ext COMMAND` has them)',
        f"mkdir -p '{folder}' && echo '{line}' > '{folder}/parlai_ext_commands.py'",
    )


def commands() -> Iterator[Finding]:
    """
    The commands themselves, and whether `parlai` knows them.
    """
    broken = [name for name in COMMANDS if why_not_importable(name)]
    for name in broken:
        what = f'`parlai {name}` cannot be imported: {why_not_importable(name)}'
        yield Finding(what, reinstall())
    if broken:
        return
    try:
        import torch  # noqa: F401
        from parlai.core.script import SCRIPT_REGISTRY, setup_script_registry

        setup_script_registry()
    except Exception as e:
        what = f'parlai cannot be imported: {type(e).__name__}: {e}'
        again = f'{PIP} --force-reinstall --no-deps torch parlai=={PARLAI}'
        yield Finding(what, again)
        return
    unknown = [name for name in COMMANDS if name not in SCRIPT_REGISTRY]
    if unknown and not list(hidden()):
        yield Finding(f'`parlai` does not know {", ".join(unknown)}', reinstall())


def why_not_importable(name: str) -> str:
    """
    Return why the command called ``name`` cannot be imported; nothing if it can.
    """
    try:
        find_command(name)
    except Exception as e:
        return f'{type(e).__name__}: {e}'
    return ''


def importable(module: str) -> bool:
    """
    Return whether ``module`` can be imported.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            import_module(module)
    except Exception:
        return False
    return True


def pip_check() -> list[str]:
    """
    Return what pip says of packages that do not suit each other.
    """
    check = [sys.executable, '-m', 'pip', 'check', '--disable-pip-version-check']
    return subprocess.run(check, capture_output=True, text=True).stdout.split('\n')


def requirements() -> list[str]:
    """
    Return the names of the packages that `setup.py` asks for.
    """
    try:
        lines = metadata.requires('parlai_ext') or []
    except metadata.PackageNotFoundError:
        return []
    needed = [line for line in lines if 'extra ==' not in line]
    return [re.split(r'[^\w.-]', line)[0] for line in needed]


def reinstall() -> str:
    """
    Return the command that installs parlai_ext again from where it came.
    """
    try:
        source = metadata.distribution('parlai_ext').read_text('direct_url.json')
        where = json.loads(source or '{}')
    except metadata.PackageNotFoundError:
        where = {}
    editable = '-e ' if where.get('dir_info', {}).get('editable') else ''
    place = where.get('url', str(Path(__file__).parents[2])).removeprefix('file://')
    return f"{PIP} --force-reinstall --no-deps {editable}'{place}'"


def version_of(package: str) -> str | None:
    """
    Return the installed version of ``package``.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
