"""
Pilot: a sample of a run on a clock that only agents move says what the run takes.
"""

import json
from collections import Counter

import pytest

from parlai_ext.collect import amounts, sampler, timing
from parlai_ext.collect.collect import collect
from parlai_ext.collect.pilot import pilot
from parlai_ext.collect.plan import prepare
from parlai_ext.collect.preflight import planned, to_play
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.core.errors import UserError
from parlai_ext.store import RunFolder
from tests.collect.test_preflight import protocol, stub
from tests.support.small_run import files_of
from tests.support.trial_agents import CLOCK


@pytest.fixture
def short_pilot(monkeypatch):
    """
    Two dialogues a pair, so that a batch of the run is wider than one of the pilot.
    """
    monkeypatch.setattr(sampler, 'FEWEST', 2)
    monkeypatch.setattr(sampler, 'SHARE', 0)


def found_by_pilot(opt):
    found = pilot(planned(opt), opt, judge=False, clock=CLOCK, progress=False)
    if opt.get('run_dir'):
        timing.save_forecast(opt['run_dir'], found)
    return found


def play(opt, **more):
    run, _ = prepare({**opt, **more})
    with run.lock(), timing.timed(run, 'collect', clock=CLOCK):
        collect(run, opt, progress=False)
    return run


TALKERS = ([stub('Talker', 'one'), stub('Talker', 'two')], [stub('Talker', 'friend')])


def test_a_forecast_on_a_steady_clock_is_what_the_run_takes(tmp_path, short_pilot):
    opt = protocol(tmp_path, *TALKERS, num_dialogues=7)
    found = found_by_pilot(opt)
    # three systems in 2 s each; each target speaks 5 times in batches of 7 with the
    # friend, and so does the friend with both: 20 batches of 0.5 + 7 * 0.25 s
    assert found['collect_seconds'] == pytest.approx(3 * 2 + 20 * 2.25)
    assert found['dialogues'] == 14
    before = CLOCK.now
    play(opt)
    assert CLOCK.now - before == pytest.approx(51)
    line = timing.compared(opt['run_dir'])[0]
    assert line == 'collect    forecast 51 s, actual 51 s (+0 %)'


def test_a_forecast_has_the_money_of_all_replies(tmp_path, short_pilot):
    opt = protocol(tmp_path, *TALKERS, num_dialogues=7)
    # 14 dialogues of 10 replies, a cent each
    found = found_by_pilot(opt)
    assert found['cost'] == pytest.approx(1.40)
    assert found['systems']['friend']['spent']['cost'] == pytest.approx(0.70)
    assert found['prompt_tokens'] == pytest.approx(140 * 30)
    # itself: two pairs of 2 dialogues, and 7 twice of each system
    assert found['pilot']['cost'] == pytest.approx(0.01 * (2 * 2 * 10 + 3 * 7 * 2))


def test_replies_from_a_cache_are_told(tmp_path, short_pilot):
    opt = protocol(tmp_path, [stub('Cached', 'one')], num_dialogues=7)
    found = found_by_pilot(opt)
    assert found['systems']['one']['spent']['cost'] == pytest.approx(7 * 5 * 0.01)
    assert 'one: 5 of 10 replies came from its cache' in amounts.in_words(found)


def test_a_pilot_leaves_its_forecast_and_nothing_else(tmp_path, short_pilot):
    opt = protocol(tmp_path, *TALKERS)
    CollectDialogues.main(**opt, pilot=True)
    assert set(files_of(tmp_path / 'run')) == {'timing/forecast.json'}
    # so that the run may still be another one
    report = CollectDialogues.main(**opt, num_turns=6)
    assert report.n_played == 6


def test_a_pilot_needs_no_run_folder(tmp_path, short_pilot, capsys):
    config = protocol(tmp_path, *TALKERS)['config']
    CollectDialogues.main(config=config, pilot=True)
    assert 'dialogues an hour' in capsys.readouterr().out


def test_what_cannot_be_measured_is_named(tmp_path, short_pilot):
    targets = [*TALKERS[0], stub('Unbuildable', 'bad')]
    found = found_by_pilot(protocol(tmp_path, targets))
    assert 'bad' not in found['systems']
    assert "not measured: system 'bad': it cannot" in amounts.in_words(found)


def test_a_pilot_of_a_finished_run_is_refused(tmp_path, short_pilot):
    opt = protocol(tmp_path, *TALKERS)
    CollectDialogues.main(**opt)
    with pytest.raises(UserError, match='--pilot: all dialogues of .* are there'):
        CollectDialogues.main(**opt, pilot=True)


def test_a_run_that_goes_on_is_forecast_for_what_is_left(tmp_path, short_pilot):
    CollectDialogues.main(**protocol(tmp_path, TALKERS[0][:1]))
    found = found_by_pilot(protocol(tmp_path, TALKERS[0]))
    # the second target with the friend, three dialogues
    assert found['dialogues'] == 3
    assert set(found['systems']) == {'two', 'good'}


def test_systems_that_do_not_fit_are_loaded_again(tmp_path):
    partners = [stub('Talker', 'x'), stub('Talker', 'y')]
    opt = {**protocol(tmp_path, TALKERS[0], partners), 'batchsize': 3}
    plan = planned(opt)
    sizes = dict.fromkeys(('one', 'two', 'x', 'y'), 10)
    work = sampler.Sampler(plan, opt, CLOCK)
    todo = to_play(work.stage, opt['run_dir'])
    assert work.simulated(todo, sizes)[1] == Counter(sizes.keys())
    work.cast.budget = 20
    # one with x, one with y, two with y, two with x: only the last x is new
    loads = work.simulated(todo, sizes)[1]
    assert loads == Counter({'one': 1, 'two': 1, 'x': 2, 'y': 1})


def test_sessions_add_up_also_those_that_were_interrupted(tmp_path, short_pilot):
    opt = protocol(tmp_path, *TALKERS, num_dialogues=7)
    found_by_pilot(opt)
    run, _ = prepare(opt)
    with pytest.raises(KeyboardInterrupt), timing.timed(run, 'collect', clock=CLOCK):
        CLOCK.now += 10
        raise KeyboardInterrupt
    play(opt)
    actual = json.loads((run.root / 'timing/actual.json').read_text())
    assert actual['collect'] == pytest.approx(
        {'seconds': 10 + 51, 'dialogues': 14, 'sessions': 2}
    )


def test_a_run_without_a_pilot_has_no_times(tmp_path):
    opt = protocol(tmp_path, *TALKERS)
    run = play(opt)
    assert not (run.root / 'timing').exists()
    assert timing.compared(run.root) == []


def test_one_command_forecasts_and_the_next_compares(tmp_path, short_pilot, capsys):
    opt = protocol(tmp_path, *TALKERS)
    found = EvaluateSystems.main(**opt, pilot=True)
    assert found['score_seconds'] > 0 and found['judged'] == 6 * 5
    EvaluateSystems.main(**opt, dry_run=True)
    assert 'as a pilot found:\ncollect ' in capsys.readouterr().out
    EvaluateSystems.main(**opt, bootstraps=20)
    words = capsys.readouterr().out
    assert all(f'\n{name:10} forecast ' in words for name in timing.PHASES)
    # nothing was left to do, so nothing is added
    before = files_of(tmp_path / 'run')
    EvaluateSystems.main(**opt, bootstraps=20)
    assert files_of(tmp_path / 'run') == before


def test_what_a_run_has_paid_is_compared_with_its_forecast(
    tmp_path, short_pilot, capsys
):
    opt = protocol(tmp_path, *TALKERS, num_dialogues=7)
    CollectDialogues.main(**opt, pilot=True)
    CollectDialogues.main(**opt)
    # 14 dialogues of 10 replies, a cent each
    said = 'money      forecast $1.40, actual $1.40 (+0 %)'
    assert said in capsys.readouterr().out


def test_what_was_paid_before_an_interruption_is_kept(
    tmp_path, short_pilot, monkeypatch
):
    opt = {**protocol(tmp_path, *TALKERS, num_dialogues=7), 'batchsize': 7}
    CollectDialogues.main(**opt, pilot=True)
    original = RunFolder.write_dialogues

    def write(self, *args):
        original(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, 'write_dialogues', write)
    with pytest.raises(KeyboardInterrupt):
        CollectDialogues.main(**opt)
    monkeypatch.setattr(RunFolder, 'write_dialogues', original)
    CollectDialogues.main(**opt)
    actual = json.loads((tmp_path / 'run/timing/actual.json').read_text())
    assert actual['spent']['cost'] == pytest.approx(1.40)
    assert actual['collect']['sessions'] == 2


def test_a_run_with_other_settings_is_not_compared(tmp_path, short_pilot, capsys):
    opt = protocol(tmp_path, *TALKERS, num_dialogues=3)
    CollectDialogues.main(**opt, pilot=True)
    CollectDialogues.main(**opt, num_turns=6, seed=5)
    lines = [x for x in capsys.readouterr().out.split('\n') if 'forecast' in x]
    assert lines[-1] == (
        'forecast   not compared: it was made with other settings: '
        'num_turns: 12 → 6; seed: 0 → 5'
    )


def test_a_run_with_the_pilots_settings_is_compared(tmp_path, short_pilot, capsys):
    opt = protocol(tmp_path, *TALKERS, num_dialogues=3)
    CollectDialogues.main(**opt, pilot=True)
    CollectDialogues.main(**opt)
    assert 'collect    forecast ' in capsys.readouterr().out
