"""
Fixes of ParlAI 1.7.2, which does not find the worlds of our tasks, and of the logs that
it writes of them.
"""

import importlib.util
import sys
from functools import wraps
from typing import Any

from parlai_ext.compat.after_import import fixes, replaces


@fixes('parlai.core.loader')
def find_worlds_of_our_tasks(module: Any) -> None:
    """
    ParlAI looks for a task's world behind ``internal:`` only, and for ``task:Teacher``
    or ``task:option=value`` under a module name that does not exist
    (core/loader.py:383): it uses a stock world without a word. The fix gives our tasks
    their own world however they are spelled.
    """
    original = module.load_world_module

    @wraps(original)
    def load_world_module(taskname: str, **options: Any) -> Any:
        task = full_task_path(taskname.strip())
        if task.startswith('parlai_ext.'):
            name = task.partition(':')[0]
            worlds = name.removesuffix('.agents') + '.worlds'
            # ParlAI hides the error if they cannot be imported (core/loader.py:418)
            if ',' not in task and importlib.util.find_spec(worlds):
                importlib.import_module(worlds)
            own_only = {**options, 'num_agents': None, 'default_world': None}
            # the class named after the teacher, else the task's only one
            for spelling in (task, name):
                if world := original(spelling, **own_only):
                    return world
        return original(taskname, **options)

    # params.py and worlds.py hold the function under their own names
    for name in ('loader', 'params', 'worlds'):
        if importer := sys.modules.get(f'parlai.core.{name}'):
            vars(importer)['load_world_module'] = load_world_module


@replaces('parlai.utils.world_logging', 'WorldLogger.convert_to_labeled_data')
def label_only_answers(original: Any, self: Any, episode: Any) -> Any:
    """
    ParlAI takes two acts of every parley (utils/world_logging.py:145) and fails at a
    last utterance that nobody answers. The fix leaves it out: it has no label.
    """
    return original(self, [parley for parley in episode if len(parley) > 1])


@replaces('parlai.utils.world_logging', 'WorldLogger.write')
def tell_the_world_of_its_log(
    original: Any, self: Any, outfile: str, world: Any, *args: Any, **kwargs: Any
) -> None:
    """
    ParlAI asks a world to write its log in one format only (scripts/self_chat.py:157).
    The fix tells a world of ours that its log is written, in any format.
    """
    original(self, outfile, world, *args, **kwargs)
    if hasattr(world, 'log_written'):
        world.log_written()


def full_task_path(task: str) -> str:
    """
    Return the dotted path of one of our tasks; the name of any other task unchanged.

    >>> full_task_path('ext:smalltalk:Opener')
    'parlai_ext.tasks.smalltalk.agents:Opener'
    >>> full_task_path('ext:pairs:self_play')
    'parlai_ext.tasks.pairs.agents:SelfPlay'
    """
    name, colon, rest = task.removeprefix('ext:').partition(':')
    if not task.startswith('ext:') or '.' in name or ',' in task:
        return task
    if '=' not in rest:  # as ParlAI spells the teacher's name (core/loader.py:313)
        rest = ''.join(word[:1].upper() + word[1:] for word in rest.split('_'))
    return f'parlai_ext.tasks.{name.lower()}.agents{colon}{rest}'
