"""
Preflight: what is unfit to talk stops a run before it begins, and is named.
"""

import re
from dataclasses import replace

import pytest

from parlai_ext.collect.collect import SystemCheck, check_system, preflight
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.core import Dialogue
from parlai_ext.engines import Machine
from parlai_ext.store import RunFolder
from tests.support import trial_agents
from tests.support.dialogues import turns_of
from tests.support.plans import plan_to_try
from tests.support.user_error import user_error
from tests.support.written import written

GIVEN = ('We went to the hills today.', 'Was it far from your home?')


def stub(kind, name=None):
    opt = {'model': f'tests.support.trial_agents:{kind}'}
    return {'name': name or kind.lower(), 'opt': opt}


def says(name, text):
    return {'name': name, 'opt': {'model': 'fixed_response', 'fixed_response': text}}


ECHO = {'name': 'echo', 'opt': {'model': 'repeat_query'}}
GOOD, FINE = stub('Talker', 'good'), stub('Talker', 'fine')


def protocol(folder, targets, partners=(GOOD,), **keys):
    made = {
        'pairing': 'bipartite',
        'openers': 'ext:smalltalk',
        'num_dialogues': 3,
        'num_turns': 12,
        'scorer': {'name': 'fed', 'judge_model_file': 'zoo:mini/judge/model'},
        'roster': {'targets': list(targets), 'partners': list(partners)},
        **keys,
    }
    config = written(folder, 'protocol.yaml', made)
    return {'config': str(config), 'run_dir': str(folder / 'run')}


def checked(folder, targets, *more, **keys):
    """
    Return the checks of these systems by name.
    """
    opt = protocol(folder, targets, *more, **keys)
    return {one.system: one for one in preflighted(opt)}


def preflighted(opt):
    run = RunFolder.existing_or_none(opt['run_dir'])
    return preflight(plan_to_try(opt), Machine(), run)


def talk(*texts, ended_by=None, reason=None):
    """
    Return a dialogue over the given opener; the first reply is the first speaker's.
    """
    turns = turns_of(('other', 'me'), (*GIVEN, *texts))
    return Dialogue('d', 'p', 'o', turns, ended_by, reason)


@pytest.mark.parametrize(
    'kind, reason',
    [
        ('Raises', 'raised RuntimeError: the tokenizer is gone'),
        ('Silent', 'empty reply'),
        ('Dots', "empty replies: nothing but '...'"),
    ],
)
def test_an_unfit_system_is_found_and_the_others_are_not_blamed(tmp_path, kind, reason):
    checks = checked(tmp_path, [stub(kind, 'bad'), FINE])
    assert checks['bad'].stop.startswith(reason)
    assert {name for name, one in checks.items() if one.stop} == {'bad'}


def test_an_echo_stops_the_command_before_anything_is_written(tmp_path, printed):
    opt = protocol(tmp_path, [ECHO, FINE])
    with user_error(r"1 of 3 .*'echo': copied replies: 6 of 6"):
        EvaluateSystems.main(**opt, preflight=True)
    assert not (tmp_path / 'run').exists()
    assert re.search(r'echo +STOP', printed())


def test_a_constant_reply_is_a_copy_but_for_floors_which_may_not_raise_either(tmp_path):
    targets = [says(name, 'I do not know.') for name in ('same', 'floor-a', 'planted')]
    targets.append(stub('Raises', 'floor-raises'))
    # a system with a planted place may be dull, too
    reference = {'kind': 'planted', 'Overall': {'planted': 1, 'floor-raises': 2}}
    found = checked(tmp_path, targets, reference=reference)
    assert found['same'].stop and found['floor-raises'].stop
    for name in ('floor-a', 'planted'):
        assert found[name].stop is None
        assert re.match("copied replies: .*'I do not know.'", found[name].warnings[0])


def test_a_model_that_is_no_judge_is_found_before_anything_is_played(tmp_path):
    judge = {'name': 'fed', 'judge_model_file': 'zoo:mini/retrieval/model'}
    opt = protocol(tmp_path, [FINE], scorer=judge)
    with user_error('judge zoo:mini/retrieval.* is no generator'):
        EvaluateSystems.main(**opt, preflight=True)
    assert not (tmp_path / 'run').exists()


def test_each_system_opens_two_dialogues_in_one_batch(tmp_path):
    trial_agents.BATCHES.clear()
    found = checked(tmp_path, [FINE])
    # each of two systems gives three replies in two dialogues, two at a time
    assert trial_agents.BATCHES == [2] * 6
    assert found['fine'].n_replies == 6


def test_preflight_with_a_dry_run_ends_there(tmp_path):
    opt = protocol(tmp_path, [FINE])
    found = CollectDialogues.main(**opt, preflight=True, dry_run=True)
    assert found.dialogues == 3
    assert not (tmp_path / 'run').exists()


def test_what_cannot_be_loaded_may_be_left_out(tmp_path):
    opt = protocol(tmp_path, [stub('Unbuildable', 'bad'), FINE])
    with user_error("'bad': cannot be loaded"):
        CollectDialogues.main(**opt, preflight=True)
    with user_error('^not all could be collected'):
        CollectDialogues.main(**opt, preflight=True, skip_missing=True)
    assert len(list(RunFolder.existing(opt['run_dir']).iter_dialogues())) == 3


def test_only_systems_with_work_left_are_tried(tmp_path):
    CollectDialogues.main(**protocol(tmp_path, [FINE]))
    found = preflighted(protocol(tmp_path, [FINE, stub('Talker', 'new')]))
    assert [one.system for one in found] == ['new', 'good']


def test_changed_settings_are_refused_before_any_dialogue(tmp_path):
    opt = protocol(tmp_path, [FINE])
    CollectDialogues.main(**opt)
    trial_agents.BATCHES.clear()
    with user_error('num_turns'):
        CollectDialogues.main(**opt, num_turns=8, preflight=True)
    assert trial_agents.BATCHES == []


def test_replies_cut_at_the_longest_are_told(tmp_path):
    long = checked(tmp_path, [stub('Capped', 'long')])['long']
    assert long.stop is None
    assert long.warnings == ('all replies are cut at the longest, 5 tokens',)


@pytest.mark.parametrize(
    'system, dialogues, stop, warnings',
    [
        # one copy by chance is none
        ('other', ['a b|Thanks!|thanks|c', 'd|e|f|g'], None, ()),
        # `me` is second here: it hears x and z, and repeats both times what it heard
        ('me', ['x|X.|z|z ?', 'k|l|m|n'], 'copied replies: 2 of 4', ()),
        # of a model whose prompt was not cut off before its first reply
        ('me', ['b a d c|B a d c. Yes!|z|z', 'k|l|m|n'], 'copied replies: 2 of 4', ()),
        ('me', ['a|x|b|y', 'c|x|d|y'], 'copied replies: the same in all dialogues', ()),
        # with the same partner's words they are what is to be expected
        ('me', ['a|x|b|y', 'a|x|b|y'], None, ()),
        # a loop within each dialogue is told and stops nothing
        (
            *('me', ['a|x|b|x', 'c|y|d|y'], None),
            ("says one thing throughout a dialogue ('x')",),
        ),
    ],
)
def test_replies_that_copy_are_told_from_those_that_happen_to_repeat(
    system, dialogues, stop, warnings
):
    found = check_system(system, [talk(*texts.split('|')) for texts in dialogues])
    cut = found.stop and found.stop[: len(stop or found.stop)]
    assert replace(found, stop=cut) == SystemCheck(system, stop, warnings, 4)


def test_who_broke_a_dialogue_off_is_told_by_reason():
    cut = talk('a', ended_by='me', reason='blank reply')
    assert check_system('me', [cut]).stop.startswith('blank reply')
    assert check_system('other', [cut]).stop is None
