"""
The lockstep world: who speaks when, what they have heard, and that a batch changes
nothing.
"""

from collections import Counter

import pytest
from parlai.scripts.self_chat import SelfChat

from parlai_ext.commands import plugin
from parlai_ext.core import Opener, System
from parlai_ext.systems.openers import load_openers
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.players import Player
from parlai_ext.worlds.schedule import sample_openers
from tests.support.lockstep_play import DECODING, play, row
from tests.support.plans import says, some_openers
from tests.support.tiny_models import in_float64, make_generator, make_ranker


def rows_of(pairs, openers):
    return [row(*pair, one.utterances) for pair in pairs for one in openers]


@pytest.fixture(scope='module')
def cast(module_folder):
    opts = {
        name: {'model_file': make_generator(module_folder, name, seed), **way}
        for seed, (name, way) in enumerate(DECODING.items(), start=1)
    }
    for seed in (5, 6):
        name = f'ranker{seed}'
        opts[name] = {'model_file': make_ranker(module_folder, name, seed)}
    found = {name: load_system(System(name, opt)) for name, opt in opts.items()}
    for player in found.values():
        in_float64(player.agent)
    return found


@pytest.fixture(scope='module')
def batched(cast):
    names = [name for name in cast if name != 'ranker6']
    rows = rows_of([(a, b) for a in names for b in names], some_openers(2))
    return rows, play(rows, cast, 8)


def one_by_one(row, cast, num_turns):
    """
    Play one dialogue with nothing but ParlAI's own `observe` and `act`.
    """
    names = (row.pairing.first, row.pairing.second)
    agents, texts = [cast[name].agent.clone() for name in names], []
    for i in range(num_turns):
        speaker, listener = agents[i % 2], agents[1 - i % 2]
        if i < len(row.opener.utterances):
            act = {'text': row.opener.utterances[i], 'episode_done': False}
            speaker.observe({'episode_done': False})
            speaker.self_observe(act)
        else:
            act = speaker.act()
        listener.observe({'text': act['text'], 'episode_done': False})
        texts.append(act['text'])
    return texts


def test_batched_equals_one_by_one_in_float64(cast, batched):
    rows, dialogues = batched
    assert len(rows) == 32
    # one dialogue of each pair, over one opener and the other in turn
    some = [2 * pair + pair % 2 for pair in range(16)]
    found = [[*dialogues[i].texts] for i in some]
    assert found == [one_by_one(rows[i], cast, 8) for i in some]


def test_a_smaller_batch_changes_nothing_in_float64(cast, batched):
    rows, dialogues = batched
    assert play(rows, cast, 8, batchsize=7) == dialogues


def test_the_models_are_various_enough_to_tell_dialogues_apart(batched):
    _, dialogues = batched
    assert all(len(d.utterances) == 8 and d.ended_by is None for d in dialogues)
    said = {d.texts for d in dialogues}
    assert len(said) == len(dialogues) and len(set().union(*said)) > 100


def test_a_ranker_never_repeats_a_line_of_its_own_dialogue(batched):
    _, dialogues = batched
    for dialogue in dialogues:
        for i, turn in enumerate(dialogue.utterances):
            if turn.speaker.startswith('ranker') and not turn.given:
                assert turn.text not in dialogue.texts[:i]


def test_one_batch_for_each_system_and_step(cast, monkeypatch):
    sizes = []
    original = Player._batch_act

    def counted(self, participants):
        sizes.append((self.name, len(participants)))
        return original(self, participants)

    monkeypatch.setattr(Player, '_batch_act', counted)
    pairs = [('greedy', 'ranker5'), ('ranker5', 'greedy'), ('greedy', 'greedy')]
    play(rows_of(pairs, some_openers(4)), cast, 5)
    # utterances 2, 3, 4: greedy speaks in 8 rows, then in 8 (as second, and with
    # itself), then in 8; the ranker in 4 each time
    assert Counter(sizes) == {('greedy', 8): 3, ('ranker5', 4): 3}


def test_openers_of_any_length_play_side_by_side():
    # echo says what it heard last; it speaks first, so at even places
    expected = {
        'a': ['a', 'yes', 'yes', 'yes', 'yes'],
        'ab': ['a', 'b', 'b', 'yes', 'yes'],
        'abc': ['a', 'b', 'c', 'yes', 'yes'],
        'abcd': ['a', 'b', 'c', 'd', 'd'],
    }
    openers = [Opener.from_utterances(given, 'test') for given in expected]
    systems = (System('echo', {'model': 'repeat_query'}), says('yes'))
    players = {system.name: load_system(system) for system in systems}
    dialogues = play(rows_of([('echo', 'yes')], openers), players, 5)
    assert {
        ''.join(turn.text for turn in one.utterances if turn.given): [*one.texts]
        for one in dialogues
    } == expected
    assert {one.speakers for one in dialogues} == {(*('echo', 'yes') * 2, 'echo')}


def test_stock_self_chat_says_the_same(cast, module_folder):
    plugin.register()
    greedy = {'model_file': str(module_folder / 'greedy'), 'inference': 'greedy'}
    partner = str(module_folder / 'ranker6')
    more = {'selfchat_max_turns': 6, 'num_self_chats': 2, 'seed': 3}
    more |= {'outfile': str(module_folder / 'selfchat'), 'display_examples': False}
    task = {'task': 'ext:smalltalk', 'partner_model_file': partner}
    logs = SelfChat.main(**task, **greedy, **more)
    # ParlAI's logger adds an empty episode after each
    theirs = [[act['text'] for acts in one for act in acts] for one in logs if one]
    openers = sample_openers(load_openers('ext:smalltalk'), 2, seed=3)
    opts = {'one': greedy, 'other': {'model_file': partner}}
    players = {name: load_system(System(name, opt)) for name, opt in opts.items()}
    rows = rows_of([('one', 'other')], openers)
    assert theirs == [[*d.texts] for d in play(rows, players, 12)]
