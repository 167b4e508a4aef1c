"""
What a name or an address in an option leads to: our code or a stranger's, a server.
"""

import pkgutil
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

Options = Mapping[str, Any]  # of a system, by name

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
    r'(?!manifold:)\b[a-z][a-z0-9+.-]*://|^(localhost|\d+(\.\d+){3}|\[[0-9a-f:]+\])\b'
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
    return module if known else None


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
    ours = module.startswith(('parlai.', 'projects.', 'parlai_ext.tasks.'))
    return package in OUR_PACKAGES and ('.' not in module or ours)


def _package_and_name(name: str) -> tuple[str, str]:
    """
    Return the package that a name's prefix stands for, and the rest of the name.
    """
    from parlai.core.loader import REGISTERED_REPOS

    for prefix, about in REGISTERED_REPOS.items():
        if name.startswith(prefix):
            return str(about['repo']), name.removeprefix(prefix)
    return 'parlai', name
