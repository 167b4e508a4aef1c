"""
What an agent's code does to the program: it raises what ends programs, prints,
says half of a character; it is told of that agent, and ends no command.
"""

import os
import signal

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.commands.signals import Interrupted, signals_as_interrupt
from parlai_ext.core import SystemFailed
from parlai_ext.systems.players import LONGEST_REPLY, Player, read_reply
from parlai_ext.worlds.block_player import Lockstep
from tests.support.lockstep_play import row
from tests.support.talk import loaded

SAID = ('hello', 'hi')
ROWS = [row('bad', 'good', SAID), row('good', 'also', SAID)]


class Echo(Agent):
    """
    Says what it heard.
    """

    def act(self):
        return Message(id='Echo', text=self.observation['text'], episode_done=False)


def doing(deed):
    """
    Return an agent that does something before it replies.
    """

    def act(self):
        deed()
        return Echo.act(self)

    return type('Doing', (Echo,), {'act': act})({})


def played(agent):
    """
    Play a dialogue of an agent, and one of others beside it.
    """
    players = {name: Player(name, Echo({})) for name in ('good', 'also')}
    players['bad'] = Player('bad', agent)
    return Lockstep(ROWS, players, 4).play()


class Mute(Exception):
    """
    Cannot be turned into words.
    """

    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize('is_ignored', [False, True])
@pytest.mark.parametrize('error', [KeyboardInterrupt(), SystemExit(0), Mute()])
def test_whatever_an_agent_raises_ends_its_dialogue_only(error, is_ignored, request):
    def deed():
        raise error

    if is_ignored:  # as `nohup` and `&` of scripts do
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with signals_as_interrupt():
        dialogues, failed = played(doing(deed))
    assert not failed and dialogues[0].ended_by == 'bad'
    assert dialogues[0].reason == f'raised {type(error).__name__}' + (
        ': 0' if isinstance(error, SystemExit) else ''
    )
    assert len(dialogues[1].utterances) == 4


def test_a_signal_while_an_agent_works_ends_the_command():
    with pytest.raises(Interrupted), signals_as_interrupt():
        played(doing(lambda: os.kill(os.getpid(), signal.SIGINT)))


def test_what_an_agent_prints_goes_to_standard_error_and_changes_no_terminal(capfd):
    def deed():
        import sys

        print('\x1b]0;mine\x07 tea')
        sys.stdout.close()
        print('\x9b2J rain')

    dialogues, failed = played(doing(deed))
    captured = capfd.readouterr()
    assert not failed and len(dialogues[0].utterances) == 4
    assert captured.out == ''
    assert captured.err == '␛]0;mine␇ tea\n⟨U+009B⟩2J rain\n'


@pytest.mark.parametrize('more, spoken', [(0, True), (1, False)])
def test_a_reply_has_a_million_characters_at_most(more, spoken):
    reply = read_reply({'text': 'x' * (LONGEST_REPLY + more)})
    assert (reply.text is not None) == spoken
    assert spoken or reply.reason == '1,000,001 characters; at most 1,000,000'


class Halved(Agent):
    """
    Says half of a character, as a byte-level model cut short may, and hears itself.
    """

    heard = ()

    def batch_act(self, observations):
        return [Message(id='Halved', text='yes \ud83d') for _ in observations]

    def self_observe(self, act):
        type(self).heard += (act['text'],)


class LeavingAtOnce(Agent):
    def __init__(self, opt, shared=None):
        raise SystemExit(0)


def test_half_a_character_is_mended_for_the_partner_and_for_who_said_it():
    player = Player('half', Halved({}))
    [reply] = player.respond([player.join()])
    assert Halved.heard == (reply.text,) == ('yes \ufffd',)


def test_an_agent_that_leaves_while_it_is_built_has_failed():
    opt = {'model': 'tests.systems.test_agent_code:LeavingAtOnce'}
    with pytest.raises(
        SystemFailed, match="^system 'x': it cannot be built: raised Sy"
    ):
        loaded('x', **opt)
