"""
A run that is cut off in the middle of its first block: the next one does not ask again
for the replies that were kept, and its files are those of a run that was not cut off.
"""

import random
import shutil

import numpy as np
import pytest
import torch
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.commands.signals import Interrupted
from parlai_ext.core import Roster, System
from parlai_ext.isolation.policy import note_parts
from parlai_ext.store import SystemRecord, disk, system_part
from parlai_ext.systems.players import Player
from parlai_ext.worlds import block_player
from tests.support.interrupted import interrupted
from tests.support.plans import collected, open_run, some_openers
from tests.support.store_samples import files_under


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
