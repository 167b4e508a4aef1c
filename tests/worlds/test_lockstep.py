"""
The lockstep world: who speaks when, and what they have heard. That a batch changes
nothing is in tests/systems/test_families.py.
"""

from parlai.scripts.self_chat import SelfChat

from parlai_ext.commands import plugin
from parlai_ext.core import Opener, System
from parlai_ext.store import sample_openers
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.task_data import load_openers
from tests.support.lockstep_play import play, row
from tests.support.plans import says, some_openers
from tests.support.tiny_models import make_generator, make_ranker
from tests.support.trial_agents import BATCHES


def loaded(opts):
    """
    Return the players of systems by their names.
    """
    return {name: load_system(System(name, opt)) for name, opt in opts.items()}


def rows_of(pairs, openers):
    return [row(*pair, one.utterances) for pair in pairs for one in openers]


def test_one_batch_for_each_system_and_step():
    talker = {'model': 'tests.support.trial_agents:Talker'}
    players = loaded({'a': talker, 'b': talker})
    BATCHES.clear()
    play(rows_of(['ab', 'ba', 'aa'], some_openers(4)), players, 5)
    # utterances 2, 3, 4: `a` speaks in 8 rows, then in 8 (as second, and with itself),
    # then in 8; `b` in 4 each time
    assert sorted(BATCHES) == [4] * 3 + [8] * 3


def test_openers_of_any_length_play_side_by_side():
    # echo says what it heard last; it speaks first, so at even places
    expected = {
        'a': ['a', 'yes', 'yes', 'yes', 'yes'],
        'ab': ['a', 'b', 'b', 'yes', 'yes'],
        'abc': ['a', 'b', 'c', 'yes', 'yes'],
        'abcd': ['a', 'b', 'c', 'd', 'd'],
    }
    openers = [Opener.from_utterances(given, 'test') for given in expected]
    players = loaded({'echo': {'model': 'repeat_query'}, 'yes': says('yes').opt})
    dialogues = play(rows_of([('echo', 'yes')], openers), players, 5)
    assert {
        ''.join(turn.text for turn in one.utterances if turn.given): [*one.texts]
        for one in dialogues
    } == expected
    assert {one.speakers for one in dialogues} == {(*('echo', 'yes') * 2, 'echo')}


def test_stock_self_chat_says_the_same(tmp_path):
    plugin.register()
    greedy = {'model_file': make_generator(tmp_path), 'inference': 'greedy'}
    partner = make_ranker(tmp_path, 'ranker')
    more = {'selfchat_max_turns': 6, 'num_self_chats': 2, 'seed': 3}
    more |= {'outfile': tmp_path / 'selfchat', 'display_examples': False}
    task = {'task': 'ext:smalltalk', 'partner_model_file': partner}
    logs = SelfChat.main(**task, **greedy, **more)
    # ParlAI's logger adds an empty episode after each
    theirs = [[act['text'] for acts in one for act in acts] for one in logs if one]
    openers = sample_openers(load_openers('ext:smalltalk'), 2, seed=3)
    opts = {'one': greedy, 'other': {'model_file': partner}}
    players = loaded(opts)
    rows = rows_of([('one', 'other')], openers)
    assert theirs == [[*d.texts] for d in play(rows, players, 12)]
