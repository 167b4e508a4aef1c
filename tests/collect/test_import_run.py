"""
An imported run folder: whole or absent, the same again, and fit for the other stages.
"""

import shutil
from pathlib import Path

import pytest

import parlai_ext
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import UserError
from parlai_ext.models import handle
from parlai_ext.store import RunFolder
from tests.store.test_store_resume import results, states_left
from tests.support.small_run import files_of
from tests.support.user_error import user_error
from tests.support.written import json_in, written

GAMES = {
    'A_B': 'A: hi there\nB: hello\nA: how are you ?\nB: fine\n',
    'B_A': 'B: good day\nA: what is new ?\n',
    'C_A': 'C: i like tea\nA: me too\nC: why ?\n',
    'C_C': 'C_1: i like tea\nC_2: me too\n',
}


@pytest.fixture
def games(tmp_path):
    folder = tmp_path / 'games'
    folder.mkdir()
    for name, text in GAMES.items():
        written(folder, f'{name}.txt', text)
    return folder


def imported(games, run, **options):
    return ImportDialogues.main(
        dialogues=[str(games)], run_dir=run, **{'format': None, **options}
    )


def run_of(games, **options):
    """
    Import the games into the folder beside them, and return the run.
    """
    imported(games, games.parent / 'run', **options)
    return RunFolder.existing(games.parent / 'run')


@pytest.fixture
def run(games):
    """
    The folder of a run of the games.
    """
    return run_of(games).root


def test_the_folder_holds_what_the_files_hold(games):
    run = run_of(games)
    found = {
        run.pairing(d.pairing_id).speakers: [*zip(d.speakers, d.texts, strict=True)]
        for d in run.iter_dialogues()
    }
    assert found['B', 'A'] == [('B', 'good day'), ('A', 'what is new ?')]
    assert found['C', 'C'] == [('C', 'i like tea'), ('C', 'me too')]


def test_the_same_again_changes_nothing(games, run):
    before = results(run), files_of(run)
    assert not imported(games, run).written
    assert (results(run), files_of(run)) == before


def test_where_the_files_lie_changes_no_byte(games, run, tmp_path):
    moved = shutil.copytree(games, tmp_path / 'elsewhere' / 'games')
    imported(moved, tmp_path / 'other')
    assert files_of(run) == files_of(tmp_path / 'other')


def test_other_content_is_refused_and_nothing_touched(games, run):
    before = files_of(run)
    written(games, 'A_B.txt', 'A: hi\nB: other\n')
    with user_error('content: '):
        imported(games, run)
    assert files_of(run) == before


def test_a_folder_with_something_else_is_left_alone(games, tmp_path):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'thesis.txt').write_text('mine')
    with user_error('is not empty and no run'):
        imported(games, tmp_path / 'run')
    assert files_of(tmp_path / 'run') == {'thesis.txt': b'mine'}


def test_killed_at_any_step_there_is_no_run_or_a_whole_one(
    games, tmp_path, monkeypatch
):
    imported(games, tmp_path / 'whole')
    whole = files_of(tmp_path / 'whole')
    first = tmp_path / 'home'
    ways = set()
    for home in states_left(first, lambda: imported(games, first / 'run'), monkeypatch):
        there = (home / 'run').exists()
        ways.add(there)
        assert not there or files_of(home / 'run') == whole
        imported(games, home / 'run')
        assert files_of(home / 'run') == whole
        assert [path.name for path in home.iterdir()] == ['run']
    assert ways == {False, True}


def lengths(run):
    """
    Rank the systems of a run by the words of what they said.
    """
    ScoreDialogues.main(run_dir=run.root, scorer='length', check_sample=0)
    return RankSystems.main(run_dir=run.root, scores='length', bootstraps=20)


def test_a_system_is_judged_whoever_began(games):
    ranking = lengths(run_of(games))
    # the baseline beside it measures the same here
    for rows in (ranking.standings['Overall'], ranking.baselines['mean_length']):
        found = {one.system: (one.score, one.n_dialogues) for one in rows}
        # A: 3 words a turn with B ((2 + 4) / 2), 4 with B, 2 with C; dialogues count
        # alike
        assert found['A'] == (pytest.approx((3 + 4 + 2) / 3), 3)
        # C with A: (3 + 2) / 2, with itself: both sides, (3 + 2) / 2
        assert found['C'] == (pytest.approx(2.5), 2)


def test_people_are_no_targets_and_have_no_scores(games):
    run = run_of(games, humans='A')
    assert set(run.manifest.partners) == {'A'}
    ranking = lengths(run)
    assert {one.system for one in ranking.standings['Overall']} == {'B', 'C'}
    assert 'people, not judged: A' in ranking.notes


def test_what_is_not_known_is_said(games):
    run = run_of(games)
    assert 'decoding:unknown' in run.manifest.signature
    assert 'seed:unknown' in run.manifest.signature
    assert any('decoding and seeds, is not known' in n for n in lengths(run).notes)


def test_an_empty_turn_that_is_kept_is_told_and_not_judged(games):
    written(games, 'A_B.txt', 'A: hi there\nB: \nA: how are you ?\nB: fine\n')
    ranking = lengths(run_of(games, empty_turns='keep'))
    rows = {one.system: one for one in ranking.standings['Overall']}
    # B: "fine" with A, "good day" with A
    assert rows['B'].score == pytest.approx((1 + 2) / 2)
    assert 'empty turns, which are not judged: B 1' in ranking.notes


def test_left_out_rows_are_said_in_the_ranking(games):
    written(games, 'D_A.txt', 'D: hi\n')
    notes = lengths(run_of(games, skip_bad_rows=True)).notes
    assert any('left out at the import: 1 dialogue,' in note for note in notes)


def test_systems_cannot_talk_on_in_an_imported_run(run):
    assert CollectDialogues.main(run_dir=run).n_played == 0
    for more in ({'config': 'demo'}, {'add_target': ['a=agent:x']}, {'dry_run': True}):
        with user_error('holds imported dialogues'):
            EvaluateSystems.main(run_dir=run, **more)


def test_scored_by_the_shipped_judge_ranked_and_shown(games, tmp_path):
    run = tmp_path / 'run'
    judge = {'scorer': 'fed', 'judge_model_file': 'zoo:mini/judge/model'}
    imported(games, run, humans='B', **judge)
    at_once = shutil.copytree(run, tmp_path / 'at_once')
    EvaluateSystems.main(run_dir=at_once, no_cuda=True)
    report = ScoreDialogues.main(run_dir=run, no_cuda=True)
    # all that A and C said: 2 + 1 + 1 turns of A, 2 + 2 of C
    assert (report.n_utterances, report.n_unscored) == (8, 0)
    standings = RankSystems.main(run_dir=run).standings['Overall']
    assert {one.system for one in standings if one.score is not None} == {'A', 'C'}
    stored = (run / 'ranking.json').read_bytes()
    assert (at_once / 'ranking.json').read_bytes() == stored
    page = Path(ReportRun.main(run_dir=run)).read_text()
    assert 'what openers' in page and 'i like tea' in page


OUTSIDE = 'tests.support.outside_scorer:Similarity'


@pytest.mark.parametrize(
    'options, name',
    [
        ({'scorer': 'likelihood'}, 'likelihood'),
        ({'followups': 'default'}, 'fed'),
        ({'scorer': OUTSIDE}, OUTSIDE),
        ({'config': 'demo'}, 'fed'),
    ],
)
def test_the_scorer_of_an_import(games, tmp_path, options, name):
    assert run_of(games, **options).manifest.protocol.scorer['name'] == name


REFERRED = (
    'dialogue_id,speaker,text,given,reference\n'
    'd,P,hi,true,\nd,A,i like tea,,i like tea\n'
    'd,P,why ?,true,\nd,A,it is warm,,"because\nno, it is warm"\n'
)
WITHOUT = REFERRED.replace(',i like tea\n', ',\n')


@pytest.mark.parametrize(
    'table, options, name, told',
    [
        (REFERRED, {}, 'learned_references', '2 of 2 judged turns'),
        (WITHOUT, {}, 'learned', '1 of 2 judged'),
        (REFERRED, {'scorer': 'length'}, 'length', None),
    ],
)
def test_references_of_all_judged_turns_choose_the_default(
    tmp_path, printed, table, options, name, told
):
    run = run_of(written(tmp_path, 'x.csv', table), **options)
    assert run.manifest.protocol.scorer['name'] == name
    lines = [line for line in printed().split('\n') if 'scorer:' in line]
    assert lines == [] if told is None else told in lines[0]


def test_references_of_an_import_reach_its_scorer(tmp_path):
    run_of(written(tmp_path, 'x.csv', REFERRED), scorer='rouge_l')
    ScoreDialogues.main(run_dir=tmp_path / 'run')
    [shard] = (tmp_path / 'run' / 'scores').rglob('0*.jsonl')
    rows = json_in(shard)['scores']
    scores = [row['value'] for row in rows if row['system'] == 'A']
    # the first is its reference; the second has 3 words of 4: 2 * 1 * 3/4 / (7/4)
    assert scores == pytest.approx([1, 6 / 7])


def test_a_judged_turn_without_reference_is_named(tmp_path):
    run_of(written(tmp_path, 'x.csv', WITHOUT), scorer='rouge_l')
    with user_error(r'needs references.*dialogue d .*utterance 1'):
        ScoreDialogues.main(run_dir=tmp_path / 'run')


@pytest.mark.parametrize(
    ('options', 'key'),
    [({'scorer': 'feed'}, 'feed'), ({'scorer': 'fed', 'config': 'demo'}, '--config')],
)
def test_a_scorer_that_cannot_be_meant_is_refused(games, options, key):
    with user_error(key):
        run_of(games, **options)


def test_where_feds_judge_cannot_be_had_a_small_one_is_named(
    games, tmp_path, monkeypatch
):
    def refuse(kind, name, *how):
        raise UserError(f'{name} cannot be downloaded')

    monkeypatch.setattr(handle, 'load_judge', refuse)
    imported(games, tmp_path / 'run', scorer='fed')
    words = 'blender_9B.* cannot be.*--judge-model-file zoo:mini/judge/model'
    with user_error(words):
        ScoreDialogues.main(run_dir=tmp_path / 'run', no_cuda=True)
    with user_error(words):
        parlai_ext.score(['hi', 'hello', 'how are you ?'], 'fed', no_cuda=True)
