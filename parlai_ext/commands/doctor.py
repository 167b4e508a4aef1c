"""
`parlai doctor`: checks the installation and names the command that solves a problem.

Other packages than the standard library are imported only after a check that they can
be.
"""

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from parlai_ext import __version__
from parlai_ext.commands.command import COMMANDS, Command, as_started
from parlai_ext.core import JsonObject, frozen, parse_json

PARLAI = '1.7.2'
PYTHON = '3.11'  # the one with which the tests were run; `setup.py` refuses others
PIP = f'{sys.executable} -m pip install'
# prints the folder that hides our `parlai_internal` from `parlai`, or nothing
FIND_HIDING_FOLDER = """
from importlib.util import find_spec
import parlai_internal
try:
    door = find_spec('parlai_internal.scripts.parlai_ext_commands')
except ModuleNotFoundError:
    door = None
print('' if door else parlai_internal.__path__[0])
"""


@frozen
class Fault:
    """
    One result of the checks, and the command that changes it; not ``wrong`` if nothing
    needs to be done.
    """

    problem: str
    solution: str
    wrong: bool = True


class Doctor(Command):
    """
    Prints each problem with the command that solves it; exit code 1 if there is one.
    """

    def run(self) -> object:
        results = list(findings())
        for finding in results:
            print(f'{"wrong" if finding.wrong else "note"}: {finding.problem}')
            print(as_started(f'    {finding.solution}'))
        if not any(f.wrong for f in results):
            names = ('parlai', 'torch', 'transformers', 'numpy')
            versions = ', '.join(f'{name} {version_of(name)}' for name in names)
            version = sys.version.split()[0]
            print(
                f'all is well: parlai_ext {__version__}, {versions}, Python {version}'
            )
        return results

    @classmethod
    def execute(cls, opt: JsonObject) -> list[Fault]:
        results = super().execute(opt)
        if any(f.wrong for f in results):
            raise SystemExit(1)
        return results


def findings() -> Iterator[Fault]:
    """
    Yield everything that is missing, too new or hidden, the most important first.
    """
    early = [*check_python(sys.version_info[:2]), *check_packages()]
    yield from early
    pip_check = [sys.executable, '-m', 'pip', 'check', '--disable-pip-version-check']
    conflicts = subprocess.run(pip_check, capture_output=True, text=True).stdout
    yield from check_conflicts(conflicts.split('\n'))
    yield from check_hidden()
    # if an early check fails, the commands fail for the same reason
    if any(f.wrong for f in early):
        return
    yield from list(check_commands()) or check_parlai()


def check_commands() -> Iterator[Fault]:
    """
    Check that every command can be imported.
    """
    for name in COMMANDS:
        if reason := import_problem(f'{__package__}.{name}'):
            yield Fault(f'`parlai {name}` cannot be imported: {reason}', reinstall())


def check_parlai() -> Iterator[Fault]:
    """
    Check that `parlai` starts, and that it knows our commands.
    """
    try:
        import torch  # noqa: F401
        from parlai.core.script import SCRIPT_REGISTRY, setup_script_registry

        setup_script_registry()
    except Exception as e:
        problem = f'parlai cannot be imported: {type(e).__name__}: {e}'
        again = f'{PIP} --force-reinstall --no-deps torch parlai=={PARLAI}'
        yield Fault(problem, again)
        return
    unknown = [name for name in COMMANDS if name not in SCRIPT_REGISTRY]
    if unknown and not list(check_hidden()):
        yield Fault(f'`parlai` does not know {", ".join(unknown)}', reinstall())


def check_python(version: tuple[int, int]) -> Iterator[Fault]:
    """
    Check that this is the version of Python with which the tests were run.
    """
    here = '.'.join(map(str, version))
    if here != PYTHON:
        problem = f'Python {PYTHON} is needed; Python {here} was not tried'
        yield Fault(problem, f'make PYTHON=python{PYTHON} install')


def check_packages() -> Iterator[Fault]:
    """
    Check that the packages that `setup.py` requires are installed, ParlAI in the
    version that `compat` fixes, and our own ones (a checkout on the path is not
    enough); and for the module that `parlai` imports first and setuptools 82 removed.
    """
    if version_of('parlai_ext') is None:
        yield Fault('parlai_ext itself is not installed', reinstall())
    missing = [name for name in requirements() if version_of(name) is None]
    if missing:
        yield Fault(f'missing: {", ".join(missing)}', f'{PIP} {" ".join(missing)}')
    version = version_of('setuptools')
    if version and import_problem('pkg_resources'):
        problem = f'setuptools {version} is too new: `parlai` imports its pkg_resources'
        yield Fault(f'{problem}, gone since 82', f"{PIP} 'setuptools<80.9'")
    version = version_of('parlai')
    install = f'{PIP} --no-deps parlai=={PARLAI}'
    if version is None:
        yield Fault('parlai is missing', install)
    elif version != PARLAI:
        yield Fault(f'parlai {version} is installed, {PARLAI} is needed', install)
    for name in ('agents', 'tasks', 'worlds', 'zoo_configs'):
        if find_spec(f'parlai_ext.{name}') is None:
            yield Fault(f'parlai_ext.{name} is not installed', reinstall())
            return


def check_conflicts(lines: Sequence[str]) -> Iterator[Fault]:
    """
    Check the lines of `pip check` for conflicts of ours and of packages that we use.
    """
    pins = [line for line in lines if line.startswith('parlai ')]
    if pins:
        problem = f"{len(pins)} of parlai's own requirements are not met, on purpose"
        yield Fault(f'{problem} (numpy~=1.23 and the like)', 'nothing to do', False)
    ours = ['parlai_ext', 'parlai-ext', *(name.lower() for name in requirements())]
    for line in lines:
        clash = re.match(r'(\S+) \S+ has requirement (.+), but you have (.*)\.', line)
        if clash and clash[1].lower() in ours:
            problem = f'{clash[3]} does not fit {clash[1]}, which needs {clash[2]}'
            yield Fault(problem, f"{PIP} '{clash[2]}'")


def check_hidden() -> Iterator[Fault]:
    """
    Check for another `parlai_internal` before ours, which hides our commands.
    """
    # in a process that, like `parlai`, does not look into the current folder
    command = [sys.executable, '-P', '-c', FIND_HIDING_FOLDER]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().split('\n')[-1]
        yield Fault(f'parlai_internal cannot be imported: {reason}', reinstall())
        return
    other = done.stdout.strip()
    if not other:
        return
    folder = Path(other, 'scripts')
    line = 'from parlai_ext.commands import plugin; plugin.register()'
    yield Fault(
        f'{other} hides our package of that name, so `parlai` lacks our commands '
        '(`parlai-ext COMMAND` has them)',
        f"mkdir -p '{folder}' && echo '{line}' > '{folder}/parlai_ext_commands.py'",
    )


def import_problem(module: str) -> str:
    """
    Return why a module cannot be imported, or ``''``.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            import_module(module)
    except Exception as e:
        return f'{type(e).__name__}: {e}'
    return ''


def requirements() -> list[str]:
    """
    Return the names of the packages that `setup.py` requires.
    """
    try:
        lines = metadata.requires('parlai_ext') or []
    except metadata.PackageNotFoundError:
        return []
    needed = [line for line in lines if 'extra ==' not in line]
    return [re.split(r'[^\w.-]', line)[0] for line in needed]


def reinstall() -> str:
    """
    Return the command that installs parlai_ext again from its source.
    """
    try:
        source = metadata.distribution('parlai_ext').read_text('direct_url.json')
        where = parse_json(source or '{}')
    except metadata.PackageNotFoundError:
        where = {}
    editable = '-e ' if where.get('dir_info', {}).get('editable') else ''
    folder = where.get('url', str(Path(__file__).parents[2])).removeprefix('file://')
    return f"{PIP} --force-reinstall --no-deps {editable}'{folder}'"


def version_of(package: str) -> str | None:
    """
    Return the installed version of ``package``.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
