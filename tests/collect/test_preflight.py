"""
What is tried before a run: preflight, which names what is unfit to talk, and the pilot,
whose blocks say what the run takes.
"""

import re
from dataclasses import replace

import pytest

from parlai_ext.collect.collect import (
    SystemCheck,
    check_system,
    collect,
    pilot,
    preflight,
)
from parlai_ext.collect.forecast import (
    Forecast,
    SystemForecast,
    forecast_comparison_lines,
    forecast_settings,
    read_forecast,
    save_forecast,
    timed,
)
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.core import Dialogue, Opener, Roster, System, options_from_opt
from parlai_ext.engines import Machine
from parlai_ext.store import RunFolder
from parlai_ext.view.page import terminal_lines
from parlai_ext.worlds import block_player
from parlai_ext.worlds.block_player import BlockPlayer
from tests.support import trial_agents
from tests.support.dialogues import turns_of
from tests.support.interrupted import interrupted
from tests.support.plans import open_run, plan_to_try, prepare
from tests.support.small_run import files_of
from tests.support.trial_agents import CLOCK
from tests.support.user_error import user_error
from tests.support.written import json_in, written

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


# Pilot: blocks of a run on a clock that only agents move


@pytest.fixture(autouse=True)
def slow_talkers_clock(monkeypatch):
    for module in ('forecast', 'collect'):
        monkeypatch.setattr(f'parlai_ext.collect.{module}.perf_counter', CLOCK)


def forecast_of(opt):
    run = RunFolder.existing_or_none(opt['run_dir'])
    forecast = pilot(plan_to_try(opt), options_from_opt(Machine, opt), run)
    save_forecast(opt['run_dir'], forecast)
    return forecast


def lines_of(forecast):
    return terminal_lines('forecast', forecast=forecast)


TALKERS = ([stub('Talker', 'one'), stub('Talker', 'two')], [stub('Talker', 'friend')])


@pytest.fixture
def sevens(tmp_path):
    """
    Return the options of 7 dialogues for each of two pairs, in batches of two.
    """
    return {**protocol(tmp_path, *TALKERS, num_dialogues=7), 'batchsize': 2}


def test_a_forecast_on_a_steady_clock_is_what_the_run_takes(sevens):
    forecast = forecast_of(sevens)
    # three systems in 2 s each; each of the two pairs has blocks of 2, 2, 2 and 1
    # dialogues, in which both speak 5 times in batches of 0.5 + 0.25 s a reply. The
    # pilot has batches of two only, so that the single ones seem cheaper
    each_reply = (0.5 + 2 * 0.25) / 2
    assert forecast.collect_seconds == pytest.approx(3 * 2 + 2 * 7 * 10 * each_reply)
    assert forecast.dialogues == 14 and forecast.pilot_dialogues == 2 * 2
    before = CLOCK.now
    run, _ = prepare(sevens)
    with run.lock(), timed(run, 'collect'):
        collect(run, options_from_opt(Machine, sevens))
    assert CLOCK.now - before == pytest.approx(6 + 2 * 10 * (3 * 1.0 + 0.75))
    assert forecast_comparison_lines(run)[1].endswith(' +7 %')  # 81 s for 76 s


def test_what_a_first_batch_sets_up_is_counted_once(tmp_path):
    opt = protocol(tmp_path, [stub('SlowStart', 'one')], num_dialogues=8)
    one = forecast_of({**opt, 'batchsize': 2}).systems['one']
    # 2 s of loading and 10 s of the first batch; 8 dialogues of 5 replies, two in 1 s
    assert one.load_seconds == pytest.approx(2 + 10)
    assert one.reply_seconds == pytest.approx(8 * 5 * 0.5)


def test_a_forecast_has_the_money_of_all_replies(sevens):
    # 14 dialogues of 10 replies, a cent each
    forecast = forecast_of(sevens)
    assert forecast.cost == pytest.approx(1.40)
    assert forecast.systems['friend'].spent['cost'] == pytest.approx(0.70)
    assert forecast.systems['one'].spent['prompt_tokens'] == pytest.approx(35 * 30)
    # a block of 2 dialogues for each pair
    assert forecast.pilot_cost == pytest.approx(0.01 * 2 * 2 * 10)


def test_only_paid_replies_say_what_a_reply_costs(tmp_path):
    opt = protocol(tmp_path, [stub('Cached', 'one')], num_dialogues=8)
    found = forecast_of(opt)
    one = found.systems['one']
    # 20 of 40 replies were paid with a cent each, so 40 cost 40 cents
    assert one.spent['cost'] == pytest.approx(8 * 5 * 0.01)
    assert '$0.40               20' in lines_of(found)[2]


def test_a_pilot_leaves_its_forecast_and_the_run_may_still_be_another_one(
    tmp_path, printed
):
    opt = protocol(tmp_path, *TALKERS, num_dialogues=3)
    CollectDialogues.main(**opt, pilot=True)
    assert set(files_of(tmp_path / 'run')) == {'timing/forecast.json'}
    assert CollectDialogues.main(**opt, num_turns=6, seed=5).n_played == 6
    lines = [x for x in printed().split('\n') if 'forecast ' in x]
    assert lines[-1] == (
        'forecast not compared: it was made with other settings: '
        'num_turns: 12 → 6; seed: 0 → 5'
    )


def test_a_pilot_needs_no_run_folder(tmp_path, printed):
    config = protocol(tmp_path, *TALKERS)['config']
    CollectDialogues.main(config=config, pilot=True)
    assert '\ncollect ' in printed()


def test_what_cannot_be_measured_is_named(tmp_path):
    targets = [*TALKERS[0], stub('Unbuildable', 'bad')]
    forecast = forecast_of(protocol(tmp_path, targets))
    assert 'bad' not in forecast.systems
    assert "not measured: system 'bad': it cannot" in lines_of(forecast)[-1]


def test_a_pilot_of_a_finished_run_is_refused(tmp_path):
    opt = protocol(tmp_path, *TALKERS)
    CollectDialogues.main(**opt)
    with user_error('--pilot: all dialogues of the run are there'):
        CollectDialogues.main(**opt, pilot=True)


def test_a_run_that_goes_on_is_forecast_for_what_is_left(tmp_path):
    CollectDialogues.main(**protocol(tmp_path, TALKERS[0][:1]))
    forecast = forecast_of(protocol(tmp_path, TALKERS[0]))
    # the second target with the friend, three dialogues
    assert forecast.dialogues == 3
    assert set(forecast.systems) == {'two', 'good'}


def test_systems_that_do_not_fit_together_are_a_caution(tmp_path, monkeypatch):
    monkeypatch.setattr(block_player, 'memory_for_weights', lambda *limits: 1)
    step = {'name': 'step', 'opt': {'model_file': 'zoo:mini/step-50/model'}}
    forecast = forecast_of(protocol(tmp_path, [step], num_dialogues=1))
    assert 'not counted: the systems do not fit' in lines_of(forecast)[-1]


def test_one_command_forecasts_and_the_next_compares(tmp_path, printed, monkeypatch):
    monkeypatch.undo()  # a real clock
    opt = {**protocol(tmp_path, *TALKERS), 'check_sample': 4}
    forecast = EvaluateSystems.main(**opt, pilot=True)
    assert forecast.score_seconds > 0 and forecast.judged == 6 * 5
    EvaluateSystems.main(**opt, dry_run=True)
    assert 'forecast of the pilot:\ncollect ' in printed()
    EvaluateSystems.main(**opt, bootstraps=20)
    words = printed()
    for name in ('collect', 'score', 'together'):
        assert f'\n{name} ' in words
    # nothing was left to do, so nothing is added
    before = files_of(tmp_path / 'run')
    EvaluateSystems.main(**opt, bootstraps=20)
    assert files_of(tmp_path / 'run') == before


def test_what_was_paid_before_an_interruption_is_kept(sevens, tmp_path):
    CollectDialogues.main(**sevens, pilot=True)
    with interrupted(BlockPlayer, 'play_block', 1):
        CollectDialogues.main(**sevens)
    CollectDialogues.main(**sevens)
    actual = json_in(tmp_path / 'run/timing/actual.json')
    assert actual['spent']['cost'] == pytest.approx(1.40)
    assert actual['collect']['dialogues'] == 14


def spent(cost, prompt=0, completion=0):
    counts = {'requests': 10, 'cached': 0, 'prompt_tokens': prompt}
    return {**counts, 'completion_tokens': completion, 'cost': cost}


def forecast(**changes):
    systems = {
        't': SystemForecast(500, 20.0, 5.0, 3000, spent(10, 15_000, 2500)),
        'p': SystemForecast(500, 30.0, 21.0, 1000),
    }
    made = {'protocol': 'p', 'settings': {}, 'systems': systems}
    made |= {'dialogues': 100, 'utterances': 1200, 'judged': 500}
    made |= {'score_seconds': 104.0, 'peak_bytes': 500_000, 'peak_gpu_bytes': 0}
    made |= {'pilot_dialogues': 4, 'pilot_seconds': 30.0, 'pilot_cost': 0.4}
    return Forecast(**{**made, **changes})


def test_a_forecast_prints_time_memory_and_money():
    lines = lines_of(forecast())
    assert '4 dialogues in 30 s and $0.40' in lines[0]
    # 500 replies in 20 s
    for part in ('500  0.04 s', '15,000 + 2,500', '$10.00'):
        assert part in lines[2]
    # two systems: 5 + 20 + 21 + 30 s
    assert lines[4] == 'collect    76 s for 100 dialogues'
    assert lines[5:7] == ['score      1.7 min for 500 utterances', 'together   3.0 min']
    assert lines[7] == 'memory     0.0 MB of weights; at most 0.5 MB'
    # 200 bytes an utterance and 700 more if it is judged
    assert lines[8:] == ['money      $10.00', 'disk       about 0.6 MB']
    systems = {**forecast().systems, 'q': SystemForecast(1, 1.0, 1.0, 1, spent(None))}
    assert 'money      $10.00, and what has no price' in lines_of(
        forecast(systems=systems)
    )


def test_a_forecast_without_a_judge_is_read_as_it_was_saved(tmp_path):
    made = forecast(score_seconds=None, cautions=('a caution',))
    save_forecast(tmp_path, made)
    assert read_forecast(tmp_path) == made
    assert not any('score' in line for line in lines_of(made))


def test_half_a_run_is_compared_with_half_the_forecast(tmp_path):
    roster = Roster((System('t', {}),), (System('p', {}),))
    openers = [Opener.from_utterances(('Hi.', 'Hello.'), 'here')]
    run = open_run(tmp_path, roster, openers, 1)
    settings = forecast_settings(run.manifest.protocol)
    save_forecast(tmp_path, forecast(settings=settings))
    stages = {'collect': (57.0, 50), 'score': (26.0, 25)}
    actual = {k: {'seconds': s, 'dialogues': n} for k, (s, n) in stages.items()}
    actual |= {'peak_bytes': 1_000_000, 'peak_gpu_bytes': 0, 'spent': spent(4.0)}
    written(tmp_path / 'timing', 'actual.json', actual)
    assert forecast_comparison_lines(run) == [
        # half of 76 s, a quarter of 104 s
        '          forecast  actual  difference',
        'collect       38 s    57 s       +50 %',
        'score         26 s    26 s        +0 %',
        'together      64 s    83 s       +30 %',
        'memory      0.5 MB  1.0 MB      +100 %',
        'money        $5.00   $4.00       -20 %',
        'timed: 50 dialogues collected and 25 scored of 100',
    ]


@pytest.mark.parametrize('text', ['{', '[]', '{}', '{"systems": 1}'])
def test_a_damaged_forecast_is_named(tmp_path, text):
    save_forecast(tmp_path, forecast())
    written(tmp_path, 'timing/forecast.json', text)
    with user_error('forecast.json: .*; delete the file'):
        read_forecast(tmp_path)
