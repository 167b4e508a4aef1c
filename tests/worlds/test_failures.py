"""
Agents that fail: the dialogue ends with a reason, the others go on.
"""

from unittest.mock import Mock

import pytest
import torch
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.core import UserError
from parlai_ext.systems.players import Player
from parlai_ext.worlds.block_player import Lockstep
from tests.support.lockstep_play import play, row

OPT = {'task': 'none'}


class Stub(Agent):
    """
    Says 'fine'; a subclass fails in `answer` once it has heard 'now'.
    """

    def act(self):
        if self.observation.get('text') == 'now':
            return self.answer()
        return Message(id='stub', text='fine', episode_done=False)

    def answer(self):
        raise NotImplementedError


class Batched(Stub):
    """
    Answers whole batches; one bad row spoils its batch.
    """

    def batch_act(self, observations):
        found = []
        for observation in observations:
            self.observation = observation
            found.append(self.act())
        return found


class Now(Agent):
    """
    Says 'now' after having heard `patience` utterances.
    """

    heard = 0

    def observe(self, observation):
        self.heard += 1
        return super().observe(observation)

    def act(self):
        text = 'now' if self.heard >= self.opt['patience'] else 'wait'
        return Message(id='now', text=text, episode_done=False)


def raising(error):
    def answer(self):
        raise error(f'bad thing in {object()}\nsecond line')

    return answer


ANSWERS = {
    'None': (lambda self: None, 'no reply (None)'),
    'no text': (lambda self: Message(id='x'), 'reply without a text'),
    'text None': (lambda self: {'text': None}, 'the text of the reply is None'),
    'bytes': (lambda self: {'text': b'hi'}, 'the text of the reply is bytes, not str'),
    'blank': (lambda self: {'text': ' \n\u3000'}, 'blank reply'),
    'raising': (
        raising(ValueError),
        'raised ValueError: bad thing in <object object at 0x…> second line',
    ),
}


@pytest.mark.parametrize('base', [Stub, Batched])
@pytest.mark.parametrize('kind', ANSWERS)
def test_only_the_failing_dialogue_ends(kind, base):
    # a partner that provokes it, and one that does not
    stub = type('Failing', (base,), {'answer': ANSWERS[kind][0]})
    players = {'stub': Player('stub', stub(OPT))}
    for name, patience in ('soon', 3), ('late', 99):
        players[name] = Player(name, Now({**OPT, 'patience': patience}))
    rows = [row('stub', name, ['hi', 'hello']) for name in ('soon', 'late')]
    failed, other = play(rows, players, 12)
    # the partner has heard 'hi', 'fine', 'fine' when it says 'now', and the stub fails
    assert [*failed.texts] == ['hi', 'hello', 'fine', 'wait', 'fine', 'now']
    assert (failed.ended_by, failed.reason) == ('stub', ANSWERS[kind][1])
    assert len(other.utterances) == 12
    assert (other.ended_by, other.reason) == (None, None)


def test_a_reason_is_short():
    error = ValueError('x' * 5000)
    assert len(lonely(answer=Mock(side_effect=error)).reason) == 200


def lonely(**methods):
    """
    Let a stub with these methods speak with itself, its opener provoking it at once.
    """
    stub = type('Failing', (Stub,), methods)
    alone = row('stub', 'stub', ['now'])
    [dialogue] = play([alone], {'stub': Player('stub', stub(OPT))}, 12)
    return dialogue


@pytest.mark.parametrize(
    'method, does, reason',
    [
        ('observe', ConnectionError('no line'), 'raised ConnectionError: no line'),
        # so that it cannot be cloned
        ('share', TypeError('only one of me'), 'raised TypeError: only one of me'),
        ('batch_act', [], 'raised TypeError: batch_act did not return 1 replies'),
    ],
)
def test_whatever_else_fails_ends_the_dialogue(method, does, reason):
    dialogue = lonely(**{method: Mock(side_effect=[does])})
    assert (dialogue.ended_by, dialogue.reason) == ('stub', reason)
    assert [*dialogue.texts] == ['now']


def test_an_interrupt_is_not_a_failed_reply():
    with pytest.raises(KeyboardInterrupt):
        lonely(answer=Mock(side_effect=KeyboardInterrupt))


def test_a_batch_that_memory_does_not_hold_is_halved_and_stays_so():
    class Narrow(Batched):
        widths = []

        def batch_act(self, observations):
            self.widths.append(len(observations))
            if len(observations) > 3:
                raise torch.OutOfMemoryError('CUDA out of memory')
            return super().batch_act(observations)

    player = Player('narrow', Narrow(OPT))
    participants = [player.join() for _ in range(10)]
    for participant in participants:
        participant.hear('hello', 'other')
    for _ in range(2):
        assert [reply.text for reply in player.respond(participants)] == ['fine'] * 10
    # 10 -> 5 + 5, 5 -> 2 + 3; what did not fit is not tried again
    assert Narrow.widths == [10, 5, 2, 3, 2, 3] + [2, 3, 2, 3]


@pytest.mark.parametrize('batchsize', [None, 1])
@pytest.mark.parametrize('method', ['answer', 'observe', 'clone'])
def test_the_others_go_on_without_a_system_that_cannot(method, batchsize):
    # one that answers cannot once it hears 'now'
    cannot = Mock(side_effect=UserError('remote_url: not set'))
    players = {
        'gone': Player('gone', type('Gone', (Batched,), {method: cannot})(OPT)),
        'fine': Player('fine', Batched(OPT)),
        'also': Player('also', Now({**OPT, 'patience': 2})),
    }
    pairs = [('also', 'gone'), ('fine', 'fine'), ('gone', 'fine')]
    rows = [row(*pair, ['hello']) for pair in pairs]
    [first, second, third], failed = Lockstep(rows, players, 8, batchsize).play()
    assert (first, third) == (None, None)
    assert [*second.texts] == ['hello'] + ['fine'] * 7
    assert failed.keys() == {'gone'}
    assert str(failed['gone']) == "system 'gone': remote_url: not set"
