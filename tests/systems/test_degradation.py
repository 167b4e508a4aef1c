"""
Systems made worse on purpose: what the model is shown, what is said, what is signed.
"""

import random
from weakref import ref

import pytest

from parlai_ext.core import System
from parlai_ext.files import EVERYDAY, read_openers_file
from parlai_ext.systems.chat.conversation import Degradation, moved_words
from parlai_ext.systems.chat.messages import ChatTurn
from parlai_ext.systems.model_cache import ModelCache, size_on_disk
from parlai_ext.systems.parlai_agents import load_system
from tests.support.family_hf import OPT
from tests.support.talk import loaded, replies_alone, replies_to
from tests.support.tiny_models import sentences

OPENERS = list(read_openers_file(EVERYDAY).openers.values())
TURNS = tuple(ChatTurn(bool(n % 2), text) for n, text in enumerate(sentences(5)))
DIALOGUES = [sentences(2, seed) for seed in range(6)]
WAYS = {
    'last_turn': {'degrade_last_turns': 1},
    'other_context': {'degrade_context': 'other'},
    'shuffled': {'degrade_shuffle': 1.0},
}


@pytest.fixture(scope='module')
def model(chat_folder):
    return {**OPT, 'hf_model': chat_folder, 'hf_dtype': 'float64'}


def test_only_the_last_turns_are_shown():
    assert Degradation(last_turns=2).shown_turns(TURNS) == TURNS[3:]


def test_other_context_shares_nothing_with_the_conversation():
    texts = set()
    for mine, theirs in OPENERS:
        turns = (ChatTurn(True, mine), ChatTurn(False, theirs))
        shown = Degradation(context='other').shown_turns(turns)
        assert [turn.mine for turn in shown] == [True, False]
        other = tuple(turn.text for turn in shown)
        assert other in OPENERS and mine not in other and theirs not in other
        texts.add(other)
    assert len(texts) > len(OPENERS) / 4


@pytest.mark.parametrize('share, n_words, n_moved', [(0.25, 20, 5), (1, 1, 0)])
def test_a_share_of_the_words_changes_places(share, n_words, n_moved):
    words = [str(n) for n in range(n_words)]
    for seed in range(20):
        text = moved_words(' '.join(words), share, random.Random(seed)).split()
        assert sorted(text) == sorted(words)
        assert sum(a != b for a, b in zip(text, words, strict=True)) == n_moved


@pytest.mark.parametrize('way', WAYS)
def test_a_batch_changes_no_degraded_reply(way, model):
    player = loaded(**model, **WAYS[way])
    alone = replies_alone(player, DIALOGUES)
    assert replies_to(player, DIALOGUES) == alone
    assert replies_to(loaded(**model), DIALOGUES) != alone


def test_a_shared_model_goes_with_its_last_agent(model):
    player = loaded(**{**model, 'hf_dtype': 'float32'})
    weights = ref(player.agent.model)
    del player
    ModelCache(load_system, 1)._drop([])  # collects what nobody uses
    assert weights() is None


def test_shared_weights_are_counted_once(model):
    systems = [System(way, {**model, **WAYS[way]}) for way in WAYS]
    one = max(load_system(systems[0]).n_bytes, size_on_disk(systems[0]))
    cache = ModelCache(load_system, one)
    assert cache.can_hold(systems)
    assert not cache.can_hold(
        [*systems, System('own', {**model, 'hf_dtype': 'float32'})]
    )
    players = cache.load_all(systems)
    assert len({id(player.agent.model) for player in players.values()}) == 1
    again = cache.load_all(systems[:1]) | cache.load_all(systems[1:])
    assert all(again[name] is players[name] for name in WAYS)
