"""
Which worlds a task gets.
"""

import importlib

import pytest

from parlai_ext import compat
from tests.support.store_samples import write_files


@pytest.fixture(scope='module')
def toy_task(module_folder):
    """
    A task `ext:toy` with worlds of its own, beside ours.
    """
    import parlai.core.worlds  # noqa: F401  (so that it, too, holds the stock function)

    import parlai_ext.tasks

    compat.apply()
    worlds = [
        f'class {k}World: pass\n' for k in ('Default', 'SelfChat', 'SelfChatSpecial')
    ]
    files = {'toy/worlds.py': ''.join(worlds).encode()}
    files['broken/worlds.py'] = b'import no_such_package\n'
    for name in ('toy', 'bare', 'broken'):
        files[f'{name}/agents.py'] = b'class DefaultTeacher: pass\n'
    write_files(module_folder, files)
    parlai_ext.tasks.__path__.append(str(module_folder))
    importlib.invalidate_caches()
    yield
    parlai_ext.tasks.__path__.remove(str(module_folder))


@pytest.mark.parametrize(
    'spelling, kind, world',
    [
        ('ext:toy', 'self_chat', 'SelfChatWorld'),
        ('ext:toy:Special', 'self_chat', 'SelfChatSpecialWorld'),
        ('ext:toy:level=2', 'self_chat', 'SelfChatWorld'),
        ('parlai_ext.tasks.toy.agents:Opener', 'self_chat', 'SelfChatWorld'),
        ('ext:toy:Opener', 'plain', 'DefaultWorld'),
        # no interactive world in this task, no world at all in that: the stock one
        ('ext:toy', 'interactive', 'DialogPartnerWorld'),
        ('self_chat', 'self_chat', 'SelfChatWorld'),
        ('internal:nothing', 'self_chat', 'DialogPartnerWorld'),
        ('ext:toy,ext:bare', 'plain', 'DialogPartnerWorld'),
    ],
)
@pytest.mark.parametrize('module', ['loader', 'worlds', 'params'])
def test_which_world_a_spelling_gets(toy_task, module, spelling, kind, world):
    load = importlib.import_module(f'parlai.core.{module}').load_world_module
    found = load(
        spelling,
        interactive_task=kind == 'interactive',
        selfchat_task=kind == 'self_chat',
        num_agents=2,
    )
    assert found.__name__ == world


def test_parlai_needs_the_fix_of_worlds(toy_task):
    from parlai.core.loader import load_world_module

    stock = load_world_module.__wrapped__
    found = stock('ext:toy', selfchat_task=True, num_agents=2)
    assert found.__name__ == 'DialogPartnerWorld'


def test_worlds_that_cannot_be_imported_say_so(toy_task):
    from parlai.core.loader import load_world_module

    with pytest.raises(ModuleNotFoundError, match='no_such_package'):
        load_world_module('ext:broken', num_agents=2)
