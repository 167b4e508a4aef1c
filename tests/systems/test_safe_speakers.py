"""
What an agent does badly is told of that agent, and ends no command.
"""

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.core.errors import SystemFailed
from parlai_ext.core.json_text import without_half_characters
from parlai_ext.core.nouns import Opener, Pairing, System
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.players import Player
from parlai_ext.worlds.lockstep import BatchRow
from tests.support.lockstep_play import play
from tests.support.tiny_models import make_generator


class Halved(Agent):
    """
    Says half of a character, as a byte-level model cut short may.
    """

    def act(self):
        return Message(id='Halved', text='yes \ud83d', episode_done=False)


class HalvedTogether(Halved):
    """
    The same in batches, hearing itself.
    """

    heard = ()

    def batch_act(self, observations):
        return [self.act() for _ in observations]

    def self_observe(self, act):
        type(self).heard += (act['text'],)


class Leaving(Agent):
    """
    Ends the program, or its user does.
    """

    kind: type[BaseException] = SystemExit

    def act(self):
        raise self.kind(3)


class LeavingTogether(Leaving):
    def batch_act(self, observations):
        raise self.kind(3)


class Interrupted(Leaving):
    kind = KeyboardInterrupt


class LeavingAtOnce(Agent):
    def __init__(self, opt, shared=None):
        raise SystemExit(0)


def test_half_a_character_is_mended_for_the_partner(tmp_path):
    partner = System('friend', {'model_file': make_generator(tmp_path)})
    players = {
        'half': Player('half', Halved({})),
        'friend': load_system(partner, no_cuda=True),
    }
    pair = Pairing('p', 'half', 'friend', 'bipartite')
    opener = Opener('o', ('hello', 'hi'), 'test')
    [found] = play([BatchRow(pair, opener)], players, num_turns=6)
    assert (found.reason, len(found.utterances)) == (None, 6)
    assert found.utterances[2].text == 'yes \ufffd'


def test_who_spoke_half_a_character_hears_itself_whole():
    player = Player('half', HalvedTogether({}))
    [reply] = player.respond([player.join()])
    assert HalvedTogether.heard == (reply.text,) == ('yes \ufffd',)


@pytest.mark.parametrize(
    'text, said',
    [
        ('né \U0001f600', 'né \U0001f600'),
        ('\ud83d\ude00', '\U0001f600'),  # both halves are a character
        ('\ude00x', '\ufffdx'),
    ],
)
def test_only_what_is_half_is_replaced(text, said):
    assert without_half_characters(text) == said


@pytest.mark.parametrize('kind', [Leaving, LeavingTogether])
@pytest.mark.parametrize('n', [1, 2])
def test_an_agent_that_leaves_has_failed(kind, n):
    player = Player('gone', kind({}))
    replies = player.respond([player.join() for _ in range(n)])
    assert [(r.text, r.reason) for r in replies] == [(None, 'raised SystemExit: 3')] * n


def test_a_user_who_interrupts_is_obeyed():
    player = Player('x', Interrupted({}))
    with pytest.raises(KeyboardInterrupt):
        player.respond([player.join()])


def test_an_agent_that_leaves_while_it_is_built_has_failed():
    opt = {'model': 'tests.systems.test_safe_speakers:LeavingAtOnce'}
    with pytest.raises(
        SystemFailed, match="^system 'x': it cannot be built: raised Sy"
    ):
        load_system(System('x', opt))
