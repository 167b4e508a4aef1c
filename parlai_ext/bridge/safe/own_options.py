"""
What a model's own `.opt` may ask for: agents of ParlAI and ours, and no strangers.

To name any other agent runs the module that it is in; that is for a roster to do, or
for whoever trusts the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from parlai.core.loader import AGENT_REGISTRY, REGISTERED_REPOS

from parlai_ext.bridge.safe.unpickle import Refused

HOME = re.compile(r'(parlai|projects|parlai_ext\.agents)(\.\w+)+', re.ASCII)
# what talks to strangers, or can run code: only a roster may seat these
ROSTER_ONLY = re.compile(r'parlai_ext\.agents\.(hf|remote)(\..*)?')
ASKED_ONLY = re.compile(r'hf_trust_code|remote_\w+')
OUR_REPOS = ('parlai', 'parlai_ext')
TASKS = ('task', 'evaltask', 'pytorch_teacher_task')


def check(path: str, opt: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """
    Refuse options that would have other code run than ParlAI's and ours.

    :param given: the roster's entry; what it says itself is the user's own word.
    :raises Refused: naming the agent or the option.
    """
    for part in _mappings(opt):
        agent = part.get('model')
        if agent and agent != given.get('model') and not is_ours(str(agent)):
            known = f'if you know it: `model: {agent}` in the roster entry'
            raise Refused(path, f'the agent {agent}', known)
        for key in filter(None, part):
            asks = ASKED_ONLY.fullmatch(str(key)) and part[key]
            if asks and key not in given:
                raise Refused(path, f'with {key}, which a roster alone may set,')


def _mappings(opt: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """
    Yield options and what is nested in them, which may be a circle in a pickle.
    """
    left: list[Any] = [opt]
    seen = set()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Mapping):
            yield one
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one


def is_ours(agent: str) -> bool:
    """
    Tell whether the name of an agent leads to ParlAI's modules or to ours.

    Follows core/loader.py:163 through all of its spellings; ``ext:foo:Bar`` is
    `foo.Bar` there.
    """
    if agent in AGENT_REGISTRY:
        module = AGENT_REGISTRY[agent].__module__
        return bool(HOME.fullmatch(module) and not ROSTER_ONLY.fullmatch(module))
    repo, path = _repo(agent)
    if path.startswith('projects:'):
        module = path.replace(':', '.')
    elif ':' in path:
        module = path.split(':')[0]
    else:
        module = f'{repo}.agents.{path.replace("/", ".")}'
    ours = repo in OUR_REPOS and HOME.fullmatch(module)
    return bool(ours and not ROSTER_ONLY.fullmatch(module))


def without_strange_tasks(opt: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return options without a task that only a module of somebody else has.

    An honest model names what it was trained on; a ranker would import that to make
    candidates of it.
    """
    return {k: v for k, v in opt.items() if k not in TASKS or _is_our_task(str(v))}


def _is_our_task(names: str) -> bool:
    for name in names.split(','):
        repo, path = _repo(name.strip())
        module = path.split(':')[0]
        home = module.startswith(('parlai.', 'projects.', 'parlai_ext.tasks.'))
        if repo not in OUR_REPOS or ('.' in module and not home):
            return False
    return True


def _repo(name: str) -> tuple[str, str]:
    """
    Return the package that a name's prefix stands for, and the rest of the name.
    """
    for prefix, about in REGISTERED_REPOS.items():
        if name.startswith(prefix):
            return str(about['repo']), name.removeprefix(prefix)
    return 'parlai', name
