"""
Each fix mends something that fails without it.
"""

import importlib
import json
import subprocess
import sys

import pytest

from parlai_ext import compat
from tests.support import compat_trials

# each trial, what comes of it without the fix, and whether what comes with it is right
TRIALS = [
    (
        'decay_by_the_default_scheduler',
        "unexpected keyword argument 'verbose'",
        lambda rates: rates == [1, 1, 0.5],
    ),
    (  # the logits are those of a pass without cache
        'reorder_the_cache_of_gpt2',
        'expected Tensor as element',
        lambda distance: distance < 1e-5,
    ),
    (  # the order is that of a pass over each candidate
        'rank_with_gpt2',
        'must be Tensor, not list',
        lambda orders: orders[0] == orders[1],
    ),
    (
        'token_ids_as_an_array',
        "no attribute 'int'",
        lambda ids: ids == ['ndarray', 'a', 'b', 'a'],
    ),
    ('reply_without_a_leading_space', 'AssertionError', lambda text: text == 'hi'),
    ('dialogpt_from_a_folder', 'huggingface.co', bool),
    (  # the start, what was drawn, what was best
        'beam_after_nucleus_sampling',
        "no attribute 'get_mask'",
        lambda said: said == [1, 4, 3],
    ),
    (
        'talk_without_the_word_counts_of_the_training',
        '/home/its/author/counts',
        lambda bins: bins == {},
    ),
    (
        'bars_while_gpt2_is_read',
        'Loading weights',
        lambda shown: '%|' not in shown,
    ),
    (
        'bars_of_a_ranker_that_is_done_at_once',
        '2/2',
        lambda shown: '%|' not in shown,
    ),
    (  # 8 was heard and is forbidden; the padding token, the next best, was not
        'block_the_context_of_a_short_row',
        '[1, 0]',
        lambda said: said == [0, 0],
    ),
    (  # it goes to a row's own last states
        'attend_locally_to_a_short_row',
        '0.',
        lambda distance: distance < 1e-6,
    ),
]


@pytest.mark.parametrize('trial, _, works', TRIALS)
def test_with_the_fix_it_works(module_folder, trial, _, works):
    compat.apply()
    came = getattr(compat_trials, trial)(module_folder)
    assert works(came), came


@pytest.mark.slow  # one of these failing means that a fix can go
def test_parlai_needs_the_fixes(tmp_path):
    command = [sys.executable, '-m', compat_trials.__name__, str(tmp_path)]
    names = [name for name, *_ in TRIALS]
    subprocess.run([*command, *names], capture_output=True, check=True)
    results = json.loads((tmp_path / 'results.json').read_text())
    for trial, complaint, _ in TRIALS:
        assert complaint in str(results[trial])


@pytest.fixture(scope='module')
def toy_task(tmp_path_factory):
    """
    A task `ext:toy` with worlds of its own, beside ours.
    """
    import parlai.core.worlds  # noqa: F401  (so that it, too, holds the stock function)

    import parlai_ext.tasks

    compat.apply()
    home = tmp_path_factory.mktemp('tasks')
    for name in ('toy', 'bare', 'broken'):
        (home / name).mkdir()
        (home / name / '__init__.py').write_text('')
        (home / name / 'agents.py').write_text('class DefaultTeacher: pass\n')
    worlds = [
        f'class {k}World: pass' for k in ('Default', 'SelfChat', 'SelfChatSpecial')
    ]
    (home / 'toy' / 'worlds.py').write_text('\n'.join(worlds))
    (home / 'broken' / 'worlds.py').write_text('import no_such_package\n')
    parlai_ext.tasks.__path__.append(str(home))
    importlib.invalidate_caches()
    yield
    parlai_ext.tasks.__path__.remove(str(home))


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
        ('ext:bare', 'self_chat', 'DialogPartnerWorld'),
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
