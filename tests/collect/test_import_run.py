"""
An imported run folder: whole or absent, the same again, and fit for the other stages;
what is left out of it is counted.
"""

import shutil
from pathlib import Path

import pytest
from parlai.scripts.self_chat import SelfChat

import parlai_ext
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import UserError
from parlai_ext.mini import SHIPPED
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


# Nothing of a file vanishes without a word: turns, instructions, keys, systems.


def chat(*roles):
    return [{'role': role, 'content': f'{role} {i}'} for i, role in enumerate(roles)]


def imported_run(folder, *paths, **options):
    return ImportDialogues.main(dialogues=[*paths], run_dir=folder / 'run', **options)


def imported_data(folder, data, name='c.jsonl', **options):
    """
    Import a new file with this content.
    """
    return imported_run(folder, written(folder, name, data), **options)


@pytest.mark.parametrize('form', [None, 'sharegpt'])
def test_messages_under_two_keys_are_refused(tmp_path, form):
    record = dict.fromkeys(('messages', 'conversations'), chat('user', 'assistant'))
    with user_error(r"c.jsonl:1: .*'messages'.*'conversations'"):
        imported_data(tmp_path, record, format=form)


def test_instructions_are_counted_those_in_the_middle_too(tmp_path, printed):
    roles = ('system', 'user', 'assistant', 'system', 'user', 'developer', 'assistant')
    both = [chat(*roles), chat('user', 'assistant')]
    report = imported_data(tmp_path, [{'messages': one} for one in both])
    # all nine messages: six turns, two of system, one of developer
    assert (report.n_utterances, report.n_no_turns) == (6, 3)
    told = printed()
    assert 'no turns, left out: developer 1, system 2 (2 after the first turn)' in told


def test_keys_of_messages_that_are_not_read_are_named_once(tmp_path, printed):
    turns = chat('user', 'assistant', 'user', 'assistant')
    turns[0]['name'] = 'Ann'
    turns[1] |= {'refusal': 'I cannot.', 'tool_calls': [], 'audio': None}
    turns[2]['name'] = 'Bob'
    imported_data(tmp_path, {'messages': turns})
    told = printed().splitlines()
    assert [line for line in told if 'not read' in line] == [
        'keys of turns that are not read: name 2, refusal 1'
    ]


def test_conversations_logged_once_a_call_are_counted(tmp_path, printed):
    roles = ('user', 'assistant') * 3
    # the second and third call hold the first; the last one is another conversation
    calls = [chat(*roles[:n]) for n in (2, 6, 4)] + [chat('user', 'assistant')[::-1]]
    imported_data(tmp_path, [{'messages': call} for call in calls])
    told = printed()
    assert 'the beginning of a longer one, whose turns are judged twice: 2 dia' in told


def test_users_who_are_judged_are_named(tmp_path, printed):
    text = 'dialogue_id,speaker,text\n1,User,hi\n1,mine,hello\n'
    imported_data(tmp_path, text, 'c.csv')
    assert 'judged as a system: User' in printed()


def test_a_name_of_nobody_is_told_beside_bad_rows(tmp_path, printed):
    text = 'dialogue_id,speaker,text\n1,Ann,hi\n1,mine,hello\n2,Bob,\n2,mine,hi\n'
    imported_data(tmp_path, text, 'c.csv', skip_bad_rows=True, humans='Amn')
    assert "--humans Amn: no speaker has this name; did you mean 'Ann'" in printed()


def test_joined_turns_are_counted(tmp_path, printed):
    turns = {'messages': chat('user', 'user', 'assistant')}
    report = imported_data(tmp_path, turns, join_turns=True)
    assert (report.n_utterances, report.n_joined) == (2, 1)
    assert 'joined with the one before: 1 turn\n' in printed()


def test_a_self_chat_of_two_models_is_of_two_systems_and_its_opener_is_given(tmp_path):
    openers, log = tmp_path / 'openers.txt', tmp_path / 'log.jsonl'
    openers.write_text('do you like tea ?')
    SelfChat.main(
        model_file=str(SHIPPED / 'step-50' / 'model'),
        partner_model_file=str(SHIPPED / 'step-1350' / 'model'),
        num_self_chats=1,
        selfchat_max_turns=3,
        outfile=log,
        display_examples=False,
        seed_messages_from_file=str(openers),
        no_cuda=True,
    )
    report = imported_run(tmp_path, log)
    names = ('TransformerGenerator_1', 'TransformerGenerator_2')
    assert report.systems == names
    # the context "Hi!", which both models read, is in the log and no turn
    assert (report.n_utterances, report.n_no_turns) == (4, 1)
    run = RunFolder.existing(tmp_path / 'run')
    assert sorted(run.manifest.targets) == list(names)
    [dialogue] = run.iter_dialogues()
    assert [turn.given for turn in dialogue.utterances] == [True, False, False, False]
    first = dialogue.utterances[0]
    assert (first.speaker, first.text) == (names[0], 'do you like tea ?')


def log(folder, name, **opt):
    """
    Write a log as ParlAI's `self_chat` does, with these options in its metadata.
    """
    acts = [[{'id': f'Generator_{k}', 'text': f'{k}'} for k in (1, 2)]]
    about = {'self_chat': True, 'opt': opt, 'speakers': [], 'version': '0.1'}
    written(folder, f'{name}.metadata', about)
    return written(folder, f'{name}.jsonl', {'dialog': acts})


@pytest.mark.parametrize(
    'opt, num_systems',
    [
        ({'model_file': 'a'}, 1),
        # one model with two sets of options is two systems
        ({'model_file': 'a', 'partner_model_file': 'a', 'partner_opt_file': 'o'}, 2),
    ],
)
def test_how_many_systems_a_self_chat_has(tmp_path, opt, num_systems):
    assert (
        len(imported_run(tmp_path, log(tmp_path, 'log', **opt)).systems) == num_systems
    )


def test_logs_of_other_partners_are_told_apart_by_file(tmp_path):
    paths = [
        log(tmp_path, name, model_file='a', partner_model_file=name) for name in 'bc'
    ]
    with user_error('--name-by-file'):
        imported_run(tmp_path, *paths)
    assert len(imported_run(tmp_path, *paths, name_by_file=True).systems) == 4


def test_a_log_that_names_no_model_is_of_no_other_model(tmp_path):
    paths = log(tmp_path, 'b', model_file='a'), log(tmp_path, 'c')
    assert imported_run(tmp_path, *paths).n_dialogues == 2


def test_names_by_file_need_files_of_different_names(tmp_path):
    text = 'A: hello\nB: hi\n'
    paths = [tmp_path / folder / 'log.txt' for folder in ('gpt', 'llama')]
    for path in paths:
        path.parent.mkdir()
        path.write_text(text)
    assert imported_run(tmp_path, tmp_path / '*' / 'log.txt').n_dialogues == 2
    files = RunFolder.existing(tmp_path / 'run').manifest.imported.files
    assert len(files) == 2
    with user_error('--name-by-file: .*gpt.*llama.*NAME@log'):
        imported_run(tmp_path, tmp_path / '*' / 'log.txt', name_by_file=True)
