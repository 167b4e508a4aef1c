"""
What may be used of a record without the user's word: the one gate for systems and for
the models of scorers that stand in a manifest, a pack or beside scores.

A command line, and a protocol, roster or bench file that the user passes, is the user's
word. A record is not: its agents from outside the package are not imported, its
repositories' code is not run, its servers are not asked and no key is sent for it,
unless the user named the same thing in this command or made the record (`own_records`).
The list is one of what is allowed: agents of ParlAI and ours, models as data, and
values that can name neither code nor a server.
"""

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core import System, SystemFailed, UserError
from parlai_ext.files.roster_file import FILE_OPTIONS, FOLDER_OPTIONS
from parlai_ext.isolation.names import (
    ROSTER_AGENTS,
    TASK_OPTIONS,
    Options,
    agent_module,
    is_our_task,
    is_server,
    nested_values,
)
from parlai_ext.isolation.own_records import named_parts

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
NAME_SYSTEM = '--config FILE with this system, or --add-target for a target'
NAME_JUDGE = '--judge-model-file, --scorer or --config FILE'
LONGEST = 80  # characters of a value in a message


def is_named(system: System) -> bool:
    """
    True if this user named the system, now or when its record was made.
    """
    recorded = system.recorded
    return recorded is None or recorded.part in named_parts(recorded.record)


def require_named(system: System) -> None:
    """
    Refuse a system of a record that would run code, ask a server or send a key, unless
    the user named it. Called before anything of a system is imported, asked or loaded.

    :raises SystemFailed: naming each option.
    """
    if not is_named(system) and (uses := list(unnamed_uses(system.opt))):
        problem = f'{"; ".join(uses)}: {ADVICE}{NAME_SYSTEM}'
        raise SystemFailed(system.name, problem)


def require_named_options(what: str, opt: Options) -> None:
    """
    Refuse options of a recorded scorer, or of a model that it names, as `require_named`
    refuses a system.

    :param what: names the scorer or the model.
    """
    if uses := list(unnamed_uses(opt)):
        raise UserError(f'{what}: {"; ".join(uses)}: {ADVICE}{NAME_JUDGE}')


def unnamed_uses(opt: Options) -> Iterator[str]:
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
        prepare_parlai()  # which makes `ext:` known
        module = agent_module(value) or ''
        if ASKING_AGENTS.fullmatch(module):
            return 'asks a server'
        is_ours = CHECKED_AGENTS.fullmatch(module) or (
            module and not ROSTER_AGENTS.fullmatch(module) and _is_installed(module)
        )
        return None if is_ours else 'is an agent from outside the package'
    if is_server(key, value):
        return 'is the address of a server'
    if key in OPTION_FILES:
        return 'is a file of further options'
    if key == 'safety_system':  # a record holds its options one by one
        return 'names a system by a text'
    prepare_parlai()
    task = value.removeprefix(CANDIDATE_TASK) if key not in TASK_OPTIONS else value
    if key in TASK_OPTIONS or task != value:
        ours = all(map(is_our_task, task.partition('@')[0].split(',')))
        return None if ours else 'is a task from outside the package'
    if DATA_OPTIONS.fullmatch(key):
        return None
    code = not re.search(r'\s', value.strip()) and any(
        CODE.fullmatch(part) for part in value.strip().split(',')
    )
    return 'is code from outside the package' if code or 'agent:' in value else None


def _is_installed(module: str) -> bool:
    """
    True unless a folder of the current directory stands in the place of ParlAI's
    `projects`, which no file of it keeps from being found there.
    """
    top = module.partition('.')[0]
    if top != 'projects':
        return True
    spec, parlai = find_spec(top), find_spec('parlai')
    if spec is None or parlai is None or parlai.origin is None:
        return True  # it will not be found when it is asked for
    home = os.path.dirname(os.path.dirname(os.path.realpath(parlai.origin)))
    places = list(spec.submodule_search_locations or ())
    return [os.path.dirname(os.path.realpath(place)) for place in places] == [home]
