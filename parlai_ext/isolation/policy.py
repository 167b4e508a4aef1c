"""
What may be used of a record without the user's word: the one gate for systems and for
the models of scorers that stand in a manifest, a pack or beside scores.

A command line, and a protocol, roster or bench file that the user passes, is the user's
word. A record is not: its agents from outside the package are not imported, its
repositories' code is not run, its servers are not asked and no key is sent for it,
unless the user named the same thing in this command or made the record. The list is one
of what is allowed: agents of ParlAI and ours, models as data, and values that can name
neither code nor a server.

Which records this user made, and which files they trust, is in notes in the user's own
configuration folder.
"""

import os
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import (
    JsonObject,
    System,
    SystemFailed,
    UserError,
    bytes_hash,
    frozen,
    logger,
)
from parlai_ext.engines import local_path
from parlai_ext.files import FILE_OPTIONS, FOLDER_OPTIONS, sha256
from parlai_ext.store import Manifest, ScorerRecord, record_hash

# ParlAI's teachers are agents too: they would say any file, and download their data
AGENT_MODULES = re.compile(
    r'(parlai\.agents|projects|parlai_ext\.agents)(\.\w+)+', re.ASCII
)
# agents that talk to strangers, wait for the keyboard, or can run code
ROSTER_AGENTS = re.compile(
    r'(parlai_ext\.agents\.(hf|remote|safety_layer)'
    r'|parlai\.agents\.(safe_)?local_human)(\..*)?'
)
# ParlAI puts http:// before the value of such an option
SERVER_OPTIONS = re.compile(r'(\w+_)?(server|host|hostname|url|endpoint|address)')
NO_SERVER = ('', 'none', 'default')
# manifold:// is a store inside of Facebook, which its models mention
ADDRESS = re.compile(
    r'(?!manifold:)\b[a-z][a-z0-9+.-]{,40}://|^(localhost|\d+(\.\d+){3}|\[[0-9a-f:]+\])\b'
    r'|^\w[\w-]*(\.[\w-]+)+:\d+|^\w[\w-]*:\d{4,5}(/|$)',
    re.IGNORECASE | re.ASCII,
)
OUR_PACKAGES = ('parlai', 'parlai_ext')
TASK_OPTIONS = ('task', 'evaltask', 'pytorch_teacher_task')


def nested_values(settings: Any) -> Iterator[tuple[str, Any]]:
    """
    Yield each value of options or settings and of what is nested in them, which may be
    a circle in a pickle, with the key that it stands under.
    """
    left: list[tuple[str, Any]] = [('', settings)]
    seen = set()
    while left:
        key, value = left.pop()
        if not isinstance(value, Mapping | list | tuple | set):
            yield key, value
        elif id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Mapping):
                left += ((str(k), inner) for k, inner in value.items())
            else:
                left += ((key, inner) for inner in value)


def is_server(key: str, value: Any) -> bool:
    """
    True if an option's value is the address of a server, or holds one.
    """
    if not isinstance(value, str):
        return False
    if SERVER_OPTIONS.fullmatch(key):
        return value.strip().lower() not in NO_SERVER
    return ADDRESS.search(value) is not None


def agent_module(agent: str) -> str | None:
    """
    Return the module of ParlAI's or ours that the name of an agent leads to; `None` for
    any other.

    Follows core/loader.py:163 through all of its spellings; ``ext:foo:Bar`` is
    `foo.Bar` there.
    """
    from parlai.core.loader import AGENT_REGISTRY

    package = 'parlai'
    if agent in AGENT_REGISTRY:
        module = str(AGENT_REGISTRY[agent].__module__)
    else:
        package, name = _package_and_name(agent)
        if name.startswith('projects:'):
            module = name.replace(':', '.')
        elif ':' in name:
            module = name.split(':')[0]
        else:
            module = f'{package}.agents.{name.replace("/", ".")}'
    known = package in OUR_PACKAGES and AGENT_MODULES.fullmatch(module)
    return module if known and _is_installed(module) else None


def source_file(module: str) -> Path | None:
    """
    Return the file of a module, of which nothing is imported, nor of its packages;
    `None` if there is none.
    """
    names, spec, places = module.split('.'), None, None
    for i in range(len(names)):
        spec = PathFinder.find_spec('.'.join(names[: i + 1]), places)
        if spec is None:
            return None
        places = spec.submodule_search_locations
    return Path(spec.origin) if spec and spec.origin and spec.has_location else None


def is_our_agent(agent: str) -> bool:
    """
    True if the name of an agent leads to a module of ParlAI's or ours that the options
    of a model may name.
    """
    module = agent_module(agent)
    return module is not None and not ROSTER_AGENTS.fullmatch(module)


def agent_names_like(agent: str) -> list[str]:
    """
    Return the known agent names that are written in the same form as this one.
    """
    ours = agent.startswith('ext:')
    prefix, home = ('ext:', 'parlai_ext.agents') if ours else ('', 'parlai.agents')

    def names_in(package: str) -> list[str]:
        return [m.name for m in pkgutil.iter_modules(import_module(package).__path__)]

    names = names_in(home)
    package = agent.removeprefix(prefix).partition('/')[0]
    if '/' in agent and package in names:
        names = [f'{package}/{name}' for name in names_in(f'{home}.{package}')]
    return [prefix + name for name in names]


def is_our_task(task: str) -> bool:
    """
    True if the name of a task leads to a module of ParlAI's or ours.
    """
    package, name = _package_and_name(task.strip())
    module = name.split(':')[0]
    prefixes = ('parlai.', 'projects.', 'parlai_ext.tasks.')
    ours = '.' not in module or module.startswith(prefixes)
    return package in OUR_PACKAGES and ours and _is_installed(module)


def _package_and_name(name: str) -> tuple[str, str]:
    """
    Return the package that a name's prefix stands for, and the rest of the name.
    """
    from parlai.core.loader import REGISTERED_REPOS

    for prefix, about in REGISTERED_REPOS.items():
        if name.startswith(prefix):
            return str(about['repo']), name.removeprefix(prefix)
    return 'parlai', name


# --- the one gate for what stands in a record -----------------------------------------

# agents that only run code or ask a server by options that are looked at, too
CHECKED_AGENTS = re.compile(r'parlai_ext\.agents\.(hf|safety_layer)(\..*)?')
ASKING_AGENTS = re.compile(r'parlai_ext\.agents\.remote(\..*)?')
# a module, with or without a class; a file with a class; an agent inside a longer name
CODE = re.compile(
    r'[A-Za-z_]\w*(\.\w+)+(:.*)?|[^:]+\.py:.*|[\w./\\-]+:[A-Za-z_]\w*|.*\bagent:.*',
    re.DOTALL,
)
# options whose values are read as data, or are words of a library
DATA_OPTIONS = re.compile(
    '|'.join((*FILE_OPTIONS, *FOLDER_OPTIONS))
    + r'|hf_(adapter|revision|device|dtype)|datapath|download_path|\w+_(file|path)'
)
CANDIDATE_TASK = 'task:'  # a retriever's candidates, collected from a task
OPTION_FILES = ('init_opt',)  # would bring in options that nobody has looked at
NO = ('', 'false', 'f', 'no', 'n', '0', 'none')
ADVICE = (
    'only a record that this machine did not make names that; if you trust it, name it '
    'yourself: '
)
NAME_SYSTEM = (
    '--config FILE with this system, or --add-target for a target; where a command has '
    'neither, collect_dialogues has'
)
NAME_JUDGE = '--judge-model-file, --scorer or --config FILE'
LONGEST = 80  # characters of a value in a message


def is_named(system: System) -> bool:
    """
    True if this user named the system, now or when its record was made.
    """
    recorded = system.recorded
    return recorded is None or is_own_part(recorded.record, recorded.part)


def require_named(system: System) -> None:
    """
    Refuse a system of a record that would run code, ask a server or send a key, unless
    the user named it. Called before anything of a system is imported, asked or loaded.

    :raises SystemFailed: naming each option.
    """
    if not is_named(system) and (uses := list(unnamed_uses(system.opt))):
        problem = f'{"; ".join(uses)}: {ADVICE}{NAME_SYSTEM}'
        raise SystemFailed(system.name, problem)


def require_named_options(what: str, opt: JsonObject) -> None:
    """
    Refuse options of a recorded scorer, or of a model that it names, as `require_named`
    refuses a system.

    :param what: names the scorer or the model.
    """
    if uses := list(unnamed_uses(opt)):
        raise UserError(f'{what}: {"; ".join(uses)}: {ADVICE}{NAME_JUDGE}')


def unnamed_uses(opt: JsonObject) -> Iterator[str]:
    """
    Yield a line for each option, also a nested one, that may only be used if the user
    named it.
    """
    for key, value in nested_values(opt):
        if what := _use(key, value):
            yield f'{key}: {str(value)!r:.{LONGEST}} {what}'


def _use(key: str, value: Any) -> str | None:
    """
    Return what the value of an option would do; `None` if it is data.
    """
    if str(value).strip().lower() in NO and key != 'model':
        return None
    if 'trust' in key:
        return 'runs code that comes with a model'
    if key.endswith('key_env'):
        return 'is a variable whose value would be sent'
    if not isinstance(value, str):
        return None
    if key == 'model':
        return agent_use(value)
    if is_server(key, value):
        return 'is the address of a server'
    if key in OPTION_FILES:
        return 'is a file of further options'
    if key == 'safety_system':  # a record holds its options one by one
        return 'names a system by a text'
    prepare_parlai()
    if key in TASK_OPTIONS or value.startswith(CANDIDATE_TASK):
        tasks = value.removeprefix(CANDIDATE_TASK).partition('@')[0].split(',')
        ours = all(map(is_our_task, tasks))
        return None if ours else 'is a task from outside the package'
    if DATA_OPTIONS.fullmatch(key):
        return None
    words = value.split()
    code = len(words) == 1 and any(map(CODE.fullmatch, words[0].split(',')))
    return 'is code from outside the package' if code or 'agent:' in value else None


def agent_use(agent: str) -> str | None:
    """
    Return what the agent of this name would do; `None` if it only reads data.
    """
    prepare_parlai()  # which makes `ext:` known
    module = agent_module(agent) or ''
    if ASKING_AGENTS.fullmatch(module):
        return 'asks a server'
    is_ours = CHECKED_AGENTS.fullmatch(module) or is_our_agent(agent)
    return None if is_ours else 'is an agent from outside the package'


def _is_installed(module: str) -> bool:
    """
    True unless a folder of the current directory stands in the place of ParlAI's
    `projects`, which no file of it keeps from being found there.
    """
    spec = find_spec('projects') if module.startswith('projects.') else None
    if spec is None:  # then it will not be found when it is asked for
        return True
    import parlai

    home = Path(parlai.__file__).resolve().parents[1]
    places = spec.submodule_search_locations or ()
    return [Path(place).resolve().parent for place in places] == [home]


# --- notes of what this user named and trusts -----------------------------------------
# A run folder or a pack may come from anybody, and its checksums fit whatever it holds.
# So that a user's own run goes on without being asked about its systems again, the
# commands that write a record note, outside of the run folder, which parts of it the
# user named. Trust in the code of models and agents is noted by the hash of their
# files; nothing in a run says so.

SCORER = 'protocol.scorer'  # the part of a manifest that says how a run is scored
CONFIG = 'config'  # the same part of the record beside scores


@frozen
class Notes:
    """
    Notes of one kind: files in a folder of the user's configuration, each named by the
    hash of what it is about. That a note is there is all that counts; its text is for
    people.

    :param folder: its name.
    :param here: what this process noted, where the folder cannot be written or is
        another machine's.
    """

    folder: str
    here: set[str] = field(default_factory=set)

    @property
    def path(self) -> Path:
        """
        The folder, which need not exist; one that cannot be made where the user has no
        folder for configuration.
        """
        home = Path(os.environ.get('XDG_CONFIG_HOME', ''))
        # a relative one would lie in whatever folder a command is started from
        if not home.is_absolute():
            home = Path(os.devnull)
            with suppress(RuntimeError):
                home = Path.home() / '.config'
        return home / 'parlai_ext' / self.folder

    def add(self, digest: str, text: str, what: str, on_disk: bool) -> None:
        """
        Make a note; warn where it cannot be written.

        :param what: what it says, for the warning.
        :param on_disk: `False` for a worker, to which the process that gives it work
            says so: the notes of its own machine stay as they are.
        """
        self.here.add(digest)
        file = self.path / digest
        if not on_disk or file.is_file():
            return
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(0o600)
            file.write_text(f'{text}\n', 'utf-8')
        except OSError as error:
            warn_once(f'that {what} cannot be noted in {self.path}: {error.strerror}')

    def has(self, digest: str) -> bool:
        """
        True if this user made the note, in this process or an earlier one.
        """
        return digest in self.here or (self.path / digest).is_file()


@cache
def warn_once(line: str) -> None:
    """
    Show a line, once in a process.
    """
    logger.warning('%s', line)


OWN_RECORDS, TRUSTED = Notes('own_records'), Notes('trusted')


def is_own_part(digest: str, part: str) -> bool:
    """
    True if this user named a part of a record when it was made.

    :param digest: the record's `record_hash`.
    """
    return OWN_RECORDS.has(_part_hash(digest, part))


def is_own_scorer(manifest: Manifest) -> bool:
    """
    True if this user named the scorer of a run when it was made.
    """
    return is_own_part(record_hash(manifest), SCORER)


def note_parts(
    record: Manifest | ScorerRecord, parts: Iterable[str], *, on_disk: bool = True
) -> None:
    """
    Note that this user named these parts of a record, beside those noted before.

    :param on_disk: as of `Notes.add`.
    """
    digest = record_hash(record)
    what = (
        'this run is yours (to go on with systems from outside the package, pass '
        '--config again)'
    )
    for part in parts:
        OWN_RECORDS.add(_part_hash(digest, part), part, what, on_disk)


def _part_hash(digest: str, part: str) -> str:
    return bytes_hash(f'{digest} {part}'.encode())


def note_trust(names: Iterable[str | Path], *, on_disk: bool = True) -> None:
    """
    Let the files of ``--trust-model-code``, as they are now, run code, in later
    commands, too.

    :param on_disk: as of `Notes.add`.
    """
    files = _existing_files(names)
    options = [Path(f'{file}.opt') for file in files]
    for file in (*files, *filter(Path.is_file, options)):
        text = str(file.resolve())
        TRUSTED.add(sha256(file), text, f'{file} is trusted', on_disk)


def trusted_hashes(names: Sequence[str]) -> dict[str, str]:
    """
    Return the hash of each trusted file by its name; where names are the same, by as
    much of the path as tells them apart.
    """
    paths = map(os.path.realpath, _existing_files(names))
    files = [Path(path) for path in dict.fromkeys(paths)]
    hashes: dict[str, str] = {}
    for file in files:
        n = 1
        while any(o.parts[-n:] == file.parts[-n:] for o in files if o != file):
            n += 1
        hashes['/'.join(file.parts[-n:])] = sha256(file)
    return hashes


def _existing_files(names: Iterable[str | Path]) -> list[Path]:
    files = [local_path(str(name)) for name in names]
    for file in files:
        if not file.is_file():
            raise UserError(f'--trust-model-code: there is no file {file}')
    return files


def is_trusted_file(path: str | Path) -> bool:
    """
    True if the user trusted a file of these bytes, wherever it lay, in this command or
    an earlier one.
    """
    # a large file is not hashed where nothing is trusted
    may_be = os.path.isfile(path) and (TRUSTED.here or TRUSTED.path.is_dir())
    return bool(may_be) and TRUSTED.has(sha256(Path(path)))
