"""
A command that did not do what it was asked for says why, and its exit code is not 0.
"""

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from tests.collect.test_preflight import ECHO, GOOD, protocol, stub
from tests.support.user_error import user_error
from tests.support.written import json_in

GONE = 'no/such/model'


class SecondRaises(Agent):
    """
    Raises in every dialogue but the first, each of which has one reply of it.
    """

    n_replies = 0

    def act(self):
        type(self).n_replies += 1
        if self.n_replies > 1:
            raise RuntimeError('no more')
        return Message(id='once', text='well', episode_done=False)


def opt_of(tmp_path, targets, **keys):
    made = {'openers': 'ext:everyday_openers', 'num_turns': 4}
    made |= {'scorer': {'name': 'length'}, 'ranking': {'bootstraps': 20}, **keys}
    return protocol(tmp_path, targets, [ECHO], **made)


FIRST = r"^system 'bad': .* all of its 3 dialogues.*RuntimeError.*; so did worse$"


@pytest.mark.parametrize('command', [EvaluateSystems, CollectDialogues])
def test_a_target_that_fails_in_every_dialogue_is_an_error(tmp_path, command):
    opt = opt_of(tmp_path, [stub('Raises', 'bad'), GOOD, stub('Raises', 'worse')])
    for _ in range(2):  # also when nothing is left to be played
        with user_error(FIRST):
            command.main(**opt)
    if command is EvaluateSystems:  # the others are ranked all the same
        ranking = json_in(tmp_path / 'run' / 'ranking.json')
        rows = ranking['dimensions'].popitem()[1]
        assert 'good' in {row['system'] for row in rows}
        assert (tmp_path / 'run' / 'report.html').exists()


def test_a_partner_that_fails_in_every_dialogue_is_an_error(tmp_path):
    opt = protocol(tmp_path, [GOOD], [stub('Raises')], num_turns=4)
    with user_error("^system 'raises': "):
        CollectDialogues.main(**opt)


def test_a_target_that_fails_in_some_dialogues_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(SecondRaises, 'n_replies', 0)
    some = {'name': 'some', 'opt': {'model': f'{__name__}:SecondRaises'}}
    assert CollectDialogues.main(**opt_of(tmp_path, [some])).n_played == 3


def test_a_dry_run_for_a_folder_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    opt = opt_of(tmp_path, [GOOD])
    (tmp_path / 'file').write_text('')
    with user_error(r'^--run-dir .*/file/runs/new: .*/file is a file'):
        opt['run_dir'] = tmp_path / 'file' / 'runs' / 'new'
        EvaluateSystems.main(**opt, dry_run=True)
    # as for another user, or on a disk that is read only
    monkeypatch.setattr('os.access', lambda path, mode: path != tmp_path)
    with user_error(f'^--run-dir .*/runs/new: {tmp_path} cannot be written'):
        opt['run_dir'] = tmp_path / 'runs' / 'new'
        EvaluateSystems.main(**opt, dry_run=True)


def test_a_dry_run_with_a_missing_system_says_why(tmp_path, printed):
    gone = {'name': 'gone', 'opt': {'model_file': GONE}}
    opt = opt_of(tmp_path, [gone, GOOD])
    with user_error(f"^system 'gone': model_file: .*{GONE}"):
        EvaluateSystems.main(**opt, dry_run=True)
    assert 'missing    1 system: gone' in printed()
    assert EvaluateSystems.main(**opt, dry_run=True, skip_missing=True).dialogues == 6


def test_a_dry_run_with_a_missing_judge_says_why(tmp_path, printed):
    judge = {'name': 'fed', 'judge_model_file': GONE}
    opt = opt_of(tmp_path, [GOOD], scorer=judge)
    with user_error(f'^scorer fed: its judge: model_file: .*{GONE}'):
        EvaluateSystems.main(**opt, dry_run=True, skip_missing=True)
    assert 'missing    1 system: judge' in printed()
