"""
A run that stops when it is settled: what it plays, what it writes, what it refuses.
"""

import shutil

import pytest

from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.publish_run import PublishRun
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.commands.verify_run import VerifyRun
from parlai_ext.core.records import record_from_json
from parlai_ext.results.ranking import read_ranking
from parlai_ext.stopping import run as blocks
from parlai_ext.stopping.rule import Stopping
from parlai_ext.store import RunFolder
from tests.collect.test_preflight import protocol
from tests.support.published_runs import files_in
from tests.support.small_run import files_of
from tests.support.user_error import user_error

FLOOR = 'parlai_ext.agents.mini_floor.mini_floor:MiniFloorAgent'
PLANNED = 60


def floor(name, kind):
    return {'name': name, 'opt': {'model': FLOOR, 'floor_kind': kind}}


TARGETS = [floor('salad', 'word_salad'), floor('generic', 'generic_reply')]
PARTNER = [floor('partner', 'generic_reply')]
STOP = {'stop': 'when-ranked', 'margin': 0.5, 'block_openers': 10, 'check_sample': 0}


def options(folder, **keys):
    made = {'num_dialogues': PLANNED, 'num_turns': 5, 'scorer': {'name': 'length'}}
    made['ranking'] = {'bootstraps': 20}
    return protocol(folder, TARGETS, PARTNER, **{**made, **keys})


@pytest.fixture(scope='module')
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp('stopped')
    ranking = EvaluateSystems.main(**options(folder), **STOP)
    return folder / 'run', ranking


def test_it_stops_as_soon_as_every_pair_is_settled(stopped):
    root, ranking = stopped
    run, stopping = RunFolder.existing(root), ranking.stopping
    assert stopping.is_settled and stopping.used < PLANNED
    assert len(run.openers) == stopping.used == len(list(run.iter_dialogues())) / 2
    assert [look.n_open > 0 for look in stopping.looks[:-1]] == [True] * (
        len(stopping.looks) - 1
    )
    longer = max(ranking.standings['Overall'], key=lambda standing: standing.score)
    assert stopping.pairs[0].first == longer.system


def test_the_manifest_says_how_many_were_planned_and_why_it_stopped(stopped):
    note = RunFolder.existing(stopped[0]).manifest.stop
    assert note.planned == PLANNED and note.used == stopped[1].stopping.used
    assert note.reason == 'every pair is settled' and note.margin == 0.5


def test_the_looks_are_in_files_table_and_page(stopped, capsys):
    root, ranking = stopped
    run = RunFolder.existing(root)
    looks = record_from_json(Stopping, run.read_json('stopping.json'))
    assert looks == ranking.stopping == read_ranking(run).stopping
    page = (root / 'report.html').read_text()
    assert 'id="stopping"' in page and 'anytime-valid' in page
    RankSystems.main(run_dir=root, plan='0.5')
    lines = capsys.readouterr().out
    assert 'Stopped after' in lines and 'a run with --stop' in lines


def test_the_same_command_again_plays_nothing(stopped):
    root, _ = stopped
    before = files_of(root)
    EvaluateSystems.main(**options(root.parent), **STOP)
    assert files_of(root) == before


class Killed(Exception):
    pass


def test_an_interrupted_run_decides_the_same(tmp_path, stopped, monkeypatch):
    def killed(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(blocks, 'write_stopping', killed)
        with pytest.raises(Killed):
            EvaluateSystems.main(**options(tmp_path), **STOP)
    lost = sorted(tmp_path.glob('run/dialogues/*/*.jsonl'))[-1]
    lost.unlink()
    EvaluateSystems.main(**options(tmp_path), **STOP)
    files, before = files_of(tmp_path / 'run'), files_of(stopped[0])
    assert files.keys() == before.keys()
    # the manifest names the protocol's file, which lies elsewhere
    assert [n for n in files if files[n] != before[n]] == ['manifest.json']


@pytest.fixture
def copied(stopped, tmp_path):
    shutil.copytree(stopped[0], tmp_path / 'run')
    return tmp_path


def test_a_plain_command_lets_a_stopped_run_grow(copied):
    ranking = EvaluateSystems.main(**options(copied), check_sample=0)
    assert ranking.standings['Overall'][0].n_openers == PLANNED
    assert ranking.stopping.used < PLANNED


@pytest.mark.parametrize(
    'change, named',
    [
        ({'margin': None}, '--margin'),
        ({'config': None}, '--config'),
        ({'stop_dimension': 'Overal'}, 'Overall'),
        ({'rule': 'tournament'}, 'tournament'),
        ({'num_dialogues': 10**6}, 'openers'),
    ],
)
def test_it_refuses_what_it_cannot_work_with(copied, change, named):
    with user_error(named):
        EvaluateSystems.main(**{**options(copied), **STOP, **change})


def test_the_decisions_are_worked_out_from_the_scores(copied, stopped):
    (copied / 'run' / 'stopping.json').unlink()
    RankSystems.main(run_dir=copied / 'run')
    ranking = read_ranking(RunFolder.existing(copied / 'run'))
    assert ranking.stopping == stopped[1].stopping


@pytest.mark.parametrize('used', [-3, 0, 10**9])
def test_a_note_that_fits_no_look_does_no_harm(copied, used):
    run = RunFolder.existing(copied / 'run')
    run.record_stop(run.manifest.stop.model_copy(update={'used': used}))
    ranking = RankSystems.main(run_dir=copied / 'run')
    assert ranking.stopping.used == len(run.openers)


def test_one_target_needs_no_stop(tmp_path):
    keys = {'roster': {'targets': TARGETS[:1], 'partners': PARTNER}}
    with user_error('two targets'):
        EvaluateSystems.main(**options(tmp_path, **keys), **STOP)


def test_other_scores_were_not_looked_at(copied):
    ScoreDialogues.main(run_dir=copied / 'run', scorer='distinct', check_sample=0)
    ranking = RankSystems.main(run_dir=copied / 'run', scores='distinct')
    assert ranking.stopping is None


def test_a_published_pack_of_a_stopped_run_is_right(copied, capsys):
    pack = copied / 'run.zip'
    PublishRun.main(run_dir=copied / 'run', out=str(pack))
    VerifyRun.main(str(pack))
    assert 'wrong' not in capsys.readouterr().out
    assert 'stopping.json' in files_in(pack)


@pytest.mark.parametrize('value', ['x', '0', '-1', 'nan', 'inf'])
def test_a_plan_needs_a_difference(stopped, value):
    with user_error('--plan'):
        RankSystems.main(run_dir=stopped[0], plan=value)
