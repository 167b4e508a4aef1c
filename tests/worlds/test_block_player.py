"""
The block player: who speaks when and what they have heard; agents that fail; replies
that a cut run has kept. That a batch changes nothing is in
tests/systems/test_families.py.
"""

import random
import shutil
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.scripts.self_chat import SelfChat

from parlai_ext.commands import plugin
from parlai_ext.commands.signals import Interrupted
from parlai_ext.core import Opener, Roster, System, UserError
from parlai_ext.isolation.policy import note_parts
from parlai_ext.store import SystemRecord, disk, sample_openers, system_part
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.players import Player
from parlai_ext.systems.task_data import load_openers
from parlai_ext.worlds import block_player
from parlai_ext.worlds.block_player import Lockstep
from tests.support.interrupted import interrupted
from tests.support.lockstep_play import play, row
from tests.support.plans import collected, open_run, says, some_openers
from tests.support.store_samples import files_under
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


# Agents that fail: the dialogue ends with a reason, the others go on.

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


# A run that is cut off in the middle of its first block: the next one does not ask
# again for the replies that were kept, and its files are those of a run that was not
# cut off.


class Counting(Agent):
    """
    Says how long what it heard was; counts its replies in all dialogues, and does what
    `Counting.at` says before the one with that number.
    """

    n_replies = 0
    at: dict = {}

    def act(self):
        kind = Counting
        kind.at.get(kind.n_replies, lambda: None)()
        kind.n_replies += 1
        return Message(id='me', text=self.words(), episode_done=False)

    def words(self):
        return f'{len(self.observation["text"])} letters'


class Draws(Counting):
    """
    Draws its words with all three generators of random numbers.
    """

    def words(self):
        return f'{random.random()} {np.random.random()} {torch.rand(1).item()}'


class Script(Counting):
    """
    Says one line after the other, in each dialogue from the first one on.
    """

    line = 0

    def words(self):
        self.line += 1
        return f'line {self.line}'


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(Counting, 'n_replies', 0)
    monkeypatch.setattr(Counting, 'at', {})
    monkeypatch.setattr(block_player, 'FREE_SECONDS', 1e9)


def run_of(root, kind, **opt):
    model = opt or {'model': f'{__name__}:{kind.__name__}'}
    targets = (System('target', model),)
    roster = Roster(targets, (System('echo', {'model': 'repeat_query'}),))
    return open_run(root, roster, some_openers(3), 4, batchsize=4, num_turns=10)


def interrupt():
    Counting.at.clear()  # once
    raise Interrupted


def cut_run(root, kind, place):
    """
    Return a run that was interrupted at this reply.
    """
    run = run_of(root, kind)
    Counting.at = {place: interrupt}
    with pytest.raises(KeyboardInterrupt):
        collected(run)
    return run


# of 3 dialogues with 4 replies each
@pytest.mark.parametrize('kind', [Counting, Draws])
@pytest.mark.parametrize('cut', [1, 7])
def test_replies_before_ctrl_c_are_not_asked_for_again(tmp_path, kind, cut):
    whole = run_of(tmp_path / 'whole', kind)
    collected(whole)
    assert Counting.n_replies == 12
    run = cut_run(tmp_path / 'cut', kind, 12 + cut)
    assert run.dialogue_shards() == []
    collected(run)
    assert Counting.n_replies == 24
    assert files_under(run.root) == files_under(whole.root)


@pytest.mark.parametrize('kind, free_seconds', [(Script, 1e9), (Counting, -1e9)])
def test_a_system_with_a_state_or_whose_state_takes_long_to_look_at_is_asked_again(
    tmp_path, monkeypatch, kind, free_seconds
):
    monkeypatch.setattr(block_player, 'FREE_SECONDS', free_seconds)
    collected(run_of(tmp_path / 'whole', kind))
    run = cut_run(tmp_path / 'cut', kind, 12 + 7)
    collected(run)
    assert Counting.n_replies == 12 + 7 + 12
    assert files_under(run.root) == files_under(tmp_path / 'whole')


def test_kill_9_loses_what_was_not_yet_written(tmp_path, monkeypatch):
    # a file that is written after each reply; the folder as it is before the eighth
    monkeypatch.setattr(disk, 'SAVE_SECONDS', 0)
    run = run_of(tmp_path / 'whole', Draws)
    Counting.at = {7: lambda: shutil.copytree(tmp_path / 'whole', tmp_path / 'killed')}
    collected(run)
    (tmp_path / 'killed' / 'at_work.txt').unlink(missing_ok=True)
    collected(run_of(tmp_path / 'killed', Draws))
    assert Counting.n_replies == 12 + 5
    assert files_under(tmp_path / 'killed') == files_under(tmp_path / 'whole')


def test_replies_of_other_systems_are_not_used(tmp_path):
    run = cut_run(tmp_path / 'cut', Counting, 7)
    [kept] = run.root.glob('replies/*')
    run.manifest.targets['target'] = SystemRecord(identity='f' * 16)
    note_parts(run.manifest, [system_part('target'), system_part('echo')])
    collected(run)
    assert Counting.n_replies == 7 + 12
    assert not kept.exists()


def test_a_model_goes_on_in_the_middle_of_a_block(tmp_path):
    opt = {'model_file': 'zoo:mini/step-50/model', 'inference': 'topk', 'topk': 5}
    collected(run_of(tmp_path / 'whole', None, **opt))
    run = run_of(tmp_path / 'cut', None, **opt)
    asked = []
    # 4 batches of each system
    for n_batches in (5, 2):
        with interrupted(Player, 'propose', n_batches) as calls:
            collected(run)
        asked += [player.name for player, _ in calls]
    collected(run)
    assert asked == ['target', 'echo'] * 3 + ['target']
    assert files_under(run.root) == files_under(tmp_path / 'whole')


def test_the_counter_counts_what_is_stored(tmp_path, capsys):
    run = cut_run(tmp_path / 'cut', Counting, 7)
    said = capsys.readouterr().err
    last_bar = [line for line in said.split('\n') if '/3 ' in line][-1]
    assert ' 0/3 ' in last_bar
    # 7 of the target, and 6 of the echo that it had answered to
    assert 'stored: 0 of 3 dialogues, and 13 replies of the next ones' in said
    assert len(run.dialogue_shards()) == 0
