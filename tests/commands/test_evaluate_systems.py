"""
The main job as a user runs it: one command, again, extended, refused; with exit codes
that say whether it was done, and a manifest that somebody has changed.
"""

import contextlib
import io
import shutil

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.publish_run import PublishRun
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.commands.verify_run import VerifyRun
from parlai_ext.core import UserError
from parlai_ext.core.records import record_from_json
from parlai_ext.ranking.stopping_rule import Stopping
from parlai_ext.results.ranking import read_ranking, to_json
from parlai_ext.stopping import run as blocks
from parlai_ext.stopping.looks import stopping_lines
from parlai_ext.store import RunFolder
from tests.collect.test_preflight import ECHO, GOOD, protocol, stub
from tests.support.interrupted import interrupted
from tests.support.mutations import MORE_OTHERS, mutations
from tests.support.published_runs import SYSTEMS, files_in
from tests.support.small_run import SMALL, files_of, small_config
from tests.support.store_samples import save, whole_run
from tests.support.user_error import user_error
from tests.support.written import json_in, on_one_line


@pytest.fixture(scope='module')
def finished(module_folder):
    config = small_config(module_folder)

    def evaluated(**more):
        given = {'config': config, 'run_dir': module_folder / 'run', **SMALL, **more}
        return EvaluateSystems.main(**given)

    return module_folder / 'run', evaluated, evaluated()


def test_ranking_json_has_the_documented_shape(finished):
    run, _, ranking = finished
    written = json_in(run / 'ranking.json')
    assert written == {**to_json(ranking), 'checksum': written['checksum']}
    keys = {'schema', 'signature', 'protocol', 'dimensions', 'baselines'}
    assert keys <= set(written)
    dimensions = 'Fluency Specificity Sensibleness Overall'
    assert set(written['dimensions']) == set(dimensions.split())
    columns = 'system rank rank_low rank_high score low high low_fixed high_fixed'
    columns += ' n_dialogues n_unscored n_openers n_partners'  # 2 openers: no `group`
    for rows in (*written['dimensions'].values(), *written['baselines'].values()):
        assert {frozenset(row) for row in rows} == {frozenset(columns.split())}


def test_the_same_command_again_changes_no_byte(finished):
    run, evaluated, _ = finished
    before = files_of(run)
    evaluated()
    assert files_of(run) == before


@pytest.mark.parametrize(
    'change, named',
    [
        ({'num_dialogues': 1}, 'num_dialogues'),
        ({'num_turns': 8, 'dry_run': True}, 'num_turns: 6 → 8'),
        ({'config': None, 'num_dialogues': None}, '--seed needs --config'),
    ],
)
def test_a_changed_setting_is_refused_by_name(finished, change, named):
    _, evaluated, _ = finished
    with user_error(named):
        evaluated(**change)


def test_added_targets_need_no_protocol_file_and_leave_the_others_alone(finished):
    run, _, _ = finished
    before = RunFolder.existing(run).manifest
    kept = {n: b for n, b in files_of(run).items() if n.endswith('.jsonl')}
    draws = 'draws=zoo:mini/step-150/model,inference=topk,topk=5'
    ranking = EvaluateSystems.main(
        run_dir=run,
        check_sample=SMALL['check_sample'],
        add_target=['floor-echo=agent:repeat_query', draws],
    )
    assert kept and kept.items() <= files_of(run).items()
    names = {one.system for one in ranking.standings['Overall']}
    assert {'floor-echo', 'draws'} < names and len(names) == 4
    manifest = RunFolder.existing(run).manifest
    # targets are no part of the signature
    assert manifest.signature == before.signature
    assert manifest.targets['draws'].shard_size == 2


def test_dry_run_counts_and_writes_nothing(tmp_path):
    config = small_config(tmp_path)
    about = {'config': config, 'run_dir': tmp_path / 'run', **SMALL}
    found = EvaluateSystems.main(**about, dry_run=True)
    # 2 targets x 2 partners x 2 dialogues; 4 made utterances each, 2 of them judged
    counts = found.utterances_to_generate, found.utterances_to_score
    assert (found.dialogues, *counts) == (8, 32, 16)
    assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('num', [998, 10**12])
def test_dry_run_refuses_more_dialogues_than_there_are_openers(num):
    # ext:smalltalk has 1,000, of which 3 repeat others
    with user_error(f'--num-dialogues.* {num}'):
        EvaluateSystems.main(config='demo', num_dialogues=num, dry_run=True)


def test_a_run_that_is_not_there_does_not_go_on(tmp_path):
    run = tmp_path / 'mistyped'
    with user_error(f'--config .*there is no run in {run}'):
        EvaluateSystems.main(run_dir=run)


PLANNED = 60
TARGETS = [{'name': name, 'opt': SYSTEMS[name]} for name in ('salad', 'generic')]
PARTNER = [{'name': 'partner', 'opt': SYSTEMS['calm']}]
STOP = {'stop': 'when-ranked', 'margin': 0.5, 'block_openers': 10, 'check_sample': 0}


def options(folder, **keys):
    made = {'num_dialogues': PLANNED, 'num_turns': 5, 'scorer': {'name': 'length'}}
    made['ranking'] = {'bootstraps': 20}
    return protocol(folder, TARGETS, PARTNER, **{**made, **keys})


def evaluated(folder, /, keys=(), **change):
    """
    Evaluate with a stop, and return the ranking.

    :param keys: of the protocol; other options are those of the command.
    """
    return EvaluateSystems.main(**options(folder, **dict(keys)) | STOP | change)


@pytest.fixture(scope='module')
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp('stopped')
    return folder / 'run', evaluated(folder)


def test_it_stops_as_soon_as_every_pair_is_settled(stopped):
    root, ranking = stopped
    run, stopping = RunFolder.existing(root), ranking.stopping
    assert stopping.is_settled and stopping.used < PLANNED
    assert len(run.openers) == stopping.used == len(list(run.iter_dialogues())) / 2
    assert all(look.n_open for look in stopping.looks[:-1])
    longer = max(ranking.standings['Overall'], key=lambda standing: standing.score)
    assert stopping.pairs[0].first == longer.system
    note = run.manifest.stop
    assert (note.planned, note.used, note.margin) == (PLANNED, stopping.used, 0.5)
    assert note.reason == 'every pair is settled'


def test_the_looks_are_in_files_table_and_page(stopped, printed):
    root, ranking = stopped
    run = RunFolder.existing(root)
    looks = record_from_json(Stopping, run.read_json('stopping.json'))
    assert looks == ranking.stopping == read_ranking(run).stopping
    page = (root / 'report.html').read_text()
    assert 'id="stopping"' in page and 'anytime-valid' in page
    RankSystems.main(run_dir=root, plan='0.5')
    lines = printed()
    assert 'Stopped after' in lines and 'a run with --stop' in lines


def test_an_interrupted_run_decides_the_same(tmp_path, stopped):
    with interrupted(blocks, 'write_stopping'):
        evaluated(tmp_path)
    sorted(tmp_path.glob('run/dialogues/*/*.jsonl'))[-1].unlink()
    evaluated(tmp_path)
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
    stopping = ranking.stopping
    assert stopping.used < PLANNED == stopping.used + stopping.n_later
    said = on_one_line(' '.join(stopping_lines(stopping)))
    assert f'{stopping.n_later} more openers' in said


@pytest.mark.parametrize(
    'change, named',
    [
        ({'stop': None}, '--margin'),
        ({'config': None}, '--config'),
        ({'rule': 'tournament'}, 'tournament'),
        ({'num_dialogues': 10**6}, 'openers'),
    ],
)
def test_it_refuses_what_it_cannot_work_with(copied, change, named):
    with user_error(named):
        evaluated(copied, **change)


@pytest.mark.parametrize('trial', [{'dry_run': True}, {'pilot': True}, {}])
@pytest.mark.parametrize(
    'change, named',
    [({'margin': None}, '--margin M'), ({'stop_dimension': 'Overal'}, 'Overall')],
)
def test_it_is_refused_before_the_first_dialogue(tmp_path, change, named, trial):
    with user_error(named):
        evaluated(tmp_path, **change, **trial)
    assert not (tmp_path / 'run').exists()


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
        evaluated(tmp_path, keys)


def test_other_scores_were_not_looked_at(copied):
    ScoreDialogues.main(run_dir=copied / 'run', scorer='distinct', check_sample=0)
    ranking = RankSystems.main(run_dir=copied / 'run', scores='distinct')
    assert ranking.stopping is None


def test_a_published_pack_of_a_stopped_run_is_right(copied, printed):
    pack = copied / 'run.zip'
    PublishRun.main(run_dir=copied / 'run', out=str(pack))
    VerifyRun.main(str(pack))
    assert 'wrong' not in printed()
    assert 'stopping.json' in files_in(pack)


@pytest.mark.parametrize('value', ['x', '0', '-1', 'nan', 'inf'])
def test_a_plan_needs_a_difference(stopped, value):
    with user_error('--plan'):
        RankSystems.main(run_dir=stopped[0], plan=value)


# A command that did not do what it was asked for says why, and its exit code is not
# 0.

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


# Whatever somebody wrote into a manifest, with a checksum that fits, the commands
# that read a run either do their work or refuse it in one line.

READERS = {
    'open': RunFolder.existing,
    'rank': lambda run: RankSystems.main(run_dir=run, bootstraps=25),
    'report': lambda run: ReportRun.main(run_dir=run),
    'go on': lambda run: CollectDialogues.main(run_dir=run, dry_run=True),
    'score': lambda run: ScoreDialogues.main(run_dir=run, check_sample=4),
    'evaluate': lambda run: EvaluateSystems.main(run_dir=run, dry_run=True),
}


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp('one_partner')
    config = small_config(folder, partners=1)
    EvaluateSystems.main(config=config, run_dir=folder / 'run', **SMALL)
    return folder / 'run'


def problems(run, work, changes, readers=READERS):
    """
    Return what commands raise, but for `UserError`, over each change of the manifest.
    """
    found = {}
    for change, manifest in changes:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(run, work)
        try:
            save(work, manifest)
        except ValueError:  # nothing that JSON could hold
            continue
        for name in ('open', *readers):
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    READERS[name](str(work))
            except UserError as error:
                assert '\n' not in str(error), change
                if name == 'open':
                    break  # as each command does, with the same line
            except Exception as error:
                found[f'{name}: {change}'] = f'{type(error).__name__}: {error!s:.200}'
    return found


def changes_of(run):
    return list(mutations(RunFolder.existing(run).manifest.to_json(), MORE_OTHERS))


def test_some_changes_of_a_manifest_are_read_or_refused(tmp_path):
    run = tmp_path / 'run'
    whole_run(run)  # without models
    changes = changes_of(run)
    some = changes[:: len(changes) // 25]
    assert problems(run, tmp_path / 'work', some, ('rank', 'go on')) == {}


@pytest.mark.slow
@pytest.mark.parametrize('part', range(8))
def test_no_change_of_a_manifest_ends_in_a_traceback(part, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some changes are relative paths
    assert problems(run, tmp_path / 'work', changes_of(run)[part::8]) == {}
