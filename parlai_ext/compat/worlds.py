"""
Our tasks get their own worlds, however they are spelled.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import wraps
from typing import Any


def worlds_behind_our_prefix(module: Any) -> None:
    """
    core/loader.py:383 looks for a task's world behind ``internal:`` only, and with
    ``:Teacher`` or ``:option=value`` under a name that nobody uses: both end in a stock
    world, in silence. Our tasks get their own world however they are spelled.
    """
    original = module.load_world_module

    @wraps(original)
    def load_world_module(
        taskname: str,
        interactive_task: bool = False,
        selfchat_task: bool = False,
        num_agents: int | None = None,
        default_world: Any = None,
    ) -> Any:
        task = full_task_path(taskname.strip())
        found = None
        if task.startswith('parlai_ext.'):
            import_worlds(task)
            # the class named after the teacher, else the task's only one
            for spelling in (task, task.partition(':')[0]):
                found = found or original(spelling, interactive_task, selfchat_task)
        return found or original(
            taskname, interactive_task, selfchat_task, num_agents, default_world
        )

    # params.py and worlds.py hold the function under their own names
    for name in ('loader', 'params', 'worlds'):
        user = sys.modules.get(f'parlai.core.{name}')
        if user is not None and hasattr(user, 'load_world_module'):
            user.__dict__['load_world_module'] = load_world_module


def full_task_path(task: str) -> str:
    """
    Return the dotted path of one of our tasks; another's name as it is.

    >>> full_task_path('ext:smalltalk:Opener')
    'parlai_ext.tasks.smalltalk.agents:Opener'
    """
    name, colon, rest = task.removeprefix('ext:').partition(':')
    if not task.startswith('ext:') or '.' in name or ',' in task:
        return task
    return f'parlai_ext.tasks.{name.lower()}.agents{colon}{rest}'


def import_worlds(task: str) -> None:
    """
    Import the worlds of our ``task``, if it has any; loader.py:418 hides why it can't.
    """
    package = task.partition(':')[0].removesuffix('.agents')
    if ',' not in task and importlib.util.find_spec(package + '.worlds'):
        importlib.import_module(package + '.worlds')
