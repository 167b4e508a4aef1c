"""
A run that is reported: by `report_run`, in logs of inspect_ai and by `show_dialogue`;
and ranked only where the judge's check passed, if that is required.
"""

import json
import re
import shutil
import unicodedata
from pathlib import Path

import pytest

from parlai_ext.commands import show_dialogue
from parlai_ext.commands.command import run_directly
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.show_dialogue import ShowDialogue
from parlai_ext.core import content_id
from parlai_ext.data.imported_dialogues import ImportRules, read_imports
from parlai_ext.judge_check.record import write_check
from parlai_ext.results.ranking import read_ranking, write_ranking
from parlai_ext.view import number
from tests.report.test_report_reader import OTHER, means, word_counts
from tests.support.check_example import FAILS, PASSES, example_check
from tests.support.report_example import SCORER, example_ranking, example_run
from tests.support.store_samples import files_under
from tests.support.user_error import user_error


@pytest.fixture
def run(tmp_path):
    return example_run(tmp_path / 'r')


def test_a_run_that_is_not_ranked_is_told_a_command_that_can_be_typed(tmp_path):
    run = example_run(tmp_path / 'my run')
    with user_error(f"rank it first: parlai rank_systems --run-dir '{run.root}'"):
        ReportRun.main('--run-dir', str(run.root))


def test_rankings_of_other_scorers_alone_need_no_option_or_a_choice(
    run, tmp_path, printed
):
    # as in imported dialogues, which were not scored by the protocol's scorer
    about = {'config': {'name': 'length'}}
    run.write_json(f'scores/{run.scores(SCORER).root.name}/scorer.json', about)
    write_ranking(run, example_ranking(), f'rankings/{content_id(SCORER)}/')
    ReportRun.main(run_dir=run.root)
    assert f'#?scorer={content_id(SCORER)}' in printed()
    two = example_run(tmp_path / 'two', more_scores={OTHER: word_counts})
    for signature in (SCORER, OTHER):
        two.write_json(f'scores/{two.scores(signature).root.name}/scorer.json', about)
    with user_error('--scores: not given; choose one of'):
        ReportRun.main(run_dir=two.root)


# A run as logs of inspect_ai: they say what the run says, and come back by our
# import.


@pytest.fixture
def ranked_run(tmp_path):
    ranked_run = example_run(tmp_path / 'r')
    write_ranking(ranked_run, example_ranking())
    return ranked_run


def logs_of(ranked_run, folder):
    ReportRun.main(run_dir=ranked_run.root, inspect=str(folder))
    texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    return {log['eval']['model']: log for log in map(json.loads, texts)}


def test_a_log_for_each_target_has_its_dialogues_scores_and_intervals(
    ranked_run, tmp_path
):
    logs = logs_of(ranked_run, tmp_path / 'logs')
    assert set(logs) == {'alpha', 'beta'}
    dialogues = {one.id: one for one in ranked_run.iter_dialogues()}
    mean_of = means(ranked_run, 'Overall')
    for standing in example_ranking().standings['Overall']:
        log = logs[standing.system]
        for sample in log['samples']:
            dialogue, messages = dialogues[sample['id']], sample['messages']
            partner = sample['metadata']['partner']
            roles = {'assistant': standing.system, 'user': partner}
            turns = [(roles[one['role']], one['content']) for one in messages]
            assert turns == [(one.speaker, one.text) for one in dialogue.utterances]
            # what the target broke off has no mean
            mean = sample['scores'].get('Overall', {}).get('value')
            assert mean == mean_of[dialogue.id]
            assert (mean is None) is (dialogue.ended_by == standing.system)
        [overall] = [s for s in log['results']['scores'] if s['name'] == 'Overall']
        for key in ('score', 'low', 'high', 'rank'):
            assert overall['metrics'][key]['value'] == getattr(standing, key)
        assert overall['unscored_samples'] == standing.n_unscored


def test_the_same_run_gives_the_same_logs_and_they_are_imported(ranked_run, tmp_path):
    first, again = tmp_path / 'logs', tmp_path / 'again'
    assert logs_of(ranked_run, first) == logs_of(ranked_run, again)
    assert files_under(first) == files_under(again)
    imports = read_imports(sorted(first.iterdir()), 'inspect', ImportRules())
    back = [tuple(turn.text for turn in one.turns) for one in imports.dialogues]
    assert sorted(back) == sorted(one.texts for one in ranked_run.iter_dialogues())
    assert {'alpha', 'beta'} <= set(imports.names)


def test_the_fields_without_a_default_in_inspect_ai_are_there(ranked_run, tmp_path):
    log = logs_of(ranked_run, tmp_path / 'logs')['alpha']
    score = log['results']['scores'][0]
    needed = (
        (log['eval'], {'created', 'task', 'dataset', 'model', 'config'}),
        (log['samples'][0], {'id', 'epoch', 'input', 'target'}),
        (log['samples'][0]['scores']['Overall'], {'value'}),
        (score, {'name', 'scorer'}),
        (score['metrics']['score'], {'name', 'value'}),
    )
    assert all(fields <= set(record) for record, fields in needed)


# A dialogue in the terminal, by `show_dialogue`.

HIDDEN = 'a\x1b[31m\u202eb\rc\nd\x00\x85'


def shown(run, printed, wanted, **options):
    dialogue = ShowDialogue.main(run_dir=run.root, dialogue_id=wanted, **options)
    return dialogue, printed()


def scores_of(run, id):
    read = run.scores(SCORER).scored_dialogues()
    return next(scored.scores for dialogue, scored in read if dialogue.id == id)


def finished(run):
    return next(d for d in run.iter_dialogues() if d.ended_by is None)


def test_every_turn_is_there_with_its_scores(run, printed):
    one = finished(run)
    dialogue, text = shown(run, printed, one.id)
    assert dialogue == one
    parts = re.split(r'\n\n(?=\d+  )', text)
    assert len(parts) == 1 + len(one.utterances)
    scores = scores_of(run, one.id)
    for k, (part, turn) in enumerate(zip(parts[1:], one.utterances, strict=True)):
        assert part.startswith(f'{k}  {turn.speaker}') and turn.text in part
        assert (', given' in part) == turn.given
        of_turn = [s for s in scores if s.utterance_index == k]
        assert all(f'{s.dimension} {number(s.value, 3)}' in part for s in of_turn)
        assert ('→' in part) == bool(of_turn)


def test_a_dialogue_that_was_broken_off_says_why_and_has_no_score(run, printed):
    one = next(d for d in run.iter_dialogues() if d.ended_by is not None)
    _, text = shown(run, printed, one.id)
    assert f'broken off by {one.ended_by}: the reply was empty' in text
    assert '→ not scored: the reply was empty' in text and 'mean of' not in text


def test_the_beginning_of_an_id_is_enough_and_one_dimension_may_be_shown(run, printed):
    one = finished(run)
    found, text = shown(run, printed, one.id[:8], dimension='Fluency')
    assert found == one
    assert 'Fluency' in text and 'Overall' not in text


@pytest.mark.parametrize(
    'wanted, options, words',
    [
        (
            '{id}',
            {'dimension': 'Fluncy'},
            "--dimension 'Fluncy'; .* 'Fluency'",
        ),
        ('{id}', {'worst': 1}, 'ID: not with --system'),
        ('{id:.3}', {}, 'no dialogue .* 4 letters'),
        ('x{rest}', {}, "did you mean '{id}'"),
        (None, {'system': 'bta'}, "--system 'bta'; did you mean 'beta'"),
        (None, {'worst': 1, 'best': 1}, '--worst and --best: one'),
    ],
)
def test_what_cannot_be_shown_is_one_line(run, wanted, options, words):
    id = finished(run).id
    wanted = wanted and wanted.format(id=id, rest=id[1:])
    with user_error(words.replace('{id}', id)):
        listed(run, dialogue_id=wanted, **options)


def test_the_beginning_of_several_ids_names_them_and_of_none_no_id(run, monkeypatch):
    monkeypatch.setattr(show_dialogue, 'FEWEST_LETTERS', 0)
    ids = [d.id for d in run.iter_dialogues()]
    with user_error(f'8 dialogues begin with .*{ids[0]}, .* and 5 others$'):
        show_dialogue.find_dialogue(run, '')
    with user_error('the page .* 8 that there are') as error:
        listed(run, dialogue_id='zzzzzz')
    assert not any(one in str(error.value) for one in ids)


def test_a_run_without_scores_is_shown_without(run, printed):
    shutil.rmtree(run.root / 'scores')
    one = finished(run)
    _, text = shown(run, printed, one.id)
    assert one.utterances[3].text in text and '→' not in text
    with user_error('need scores'):
        listed(run, best=1)
    assert [row.score for row in listed(run)] == [None] * 8


def test_control_characters_never_reach_the_terminal(tmp_path, printed):
    run = example_run(
        tmp_path / 'r', targets=(HIDDEN, 'b'), lines=[HIDDEN], reason=HIDDEN
    )
    for one in run.iter_dialogues():
        _, text = shown(run, printed, one.id)
        bad = [c for c in text if unicodedata.category(c) in ('Cc', 'Cf', 'Cs')]
        assert set(bad) == {'\n'}
        assert 'a␛[31m⟨U+202E⟩b␍c␊d␀⟨U+0085⟩' in text


def listed(run, **options):
    return ShowDialogue.main(run_dir=run.root, **options)


def test_without_an_id_the_dialogues_are_listed_with_their_targets_means(run, printed):
    rows = listed(run)
    assert [row.id for row in rows] == [d.id for d in run.iter_dialogues()]
    lines = printed().split('\n')
    assert lines[0].split() == ['dialogue', 'system', 'with', 'Overall']
    # what was broken off has no score
    assert {row.id: row.score for row in rows} == means(run, 'Overall')
    for row, line in zip(rows, lines[1:], strict=False):
        assert line.split()[:3] == [row.id, row.system, row.partner]
    assert {row.dimension for row in listed(run, dimension='Fluency')} == {'Fluency'}


def test_the_worst_and_the_best_of_a_system(run):
    ascending = sorted((r.score, r.id) for r in listed(run) if r.score is not None)
    worst, best = listed(run, worst=3), listed(run, best=3)
    assert [(r.score, r.id) for r in worst] == ascending[:3]
    assert [r.score for r in best] == [score for score, _ in ascending[:-4:-1]]
    assert {row.system for row in listed(run, system='beta')} == {'beta'}
    # a partner is listed when it is asked for, though nothing scores it
    assert {(r.system, r.score) for r in listed(run, system='mary')} == {('mary', None)}


# A failed check leaves exit code 0, unless a check is required.


def checked_run(folder, outcome):
    """
    Return a run whose judge has this outcome on both dimensions.
    """
    run = example_run(folder)
    check = example_check(dict.fromkeys(('Overall', 'Fluency'), outcome))
    write_check(run.scores(SCORER), check)
    return run


def rank(run, *flags):
    words = ['--run-dir', str(run.root), '--bootstraps', '20', *flags]
    run_directly('rank_systems', words)
    return read_ranking(run)


def test_a_judge_that_passed_is_in_the_ranking(tmp_path):
    run = checked_run(tmp_path / 'r', PASSES)
    ranking = rank(run, '--require-judge-check')
    assert ranking.leading_check.dimension == 'Overall'
    assert ranking.judge_check.dimensions['Fluency'].outcome == 'pass'


@pytest.mark.parametrize('checked', [True, False])
def test_a_judge_that_failed_or_has_no_check_is_refused_where_one_is_required(
    tmp_path, exit_line, checked
):
    root = tmp_path / 'r'
    run = checked_run(root, FAILS) if checked else example_run(root)
    ranking = rank(run)
    assert ranking.leading_check.failed if checked else ranking.judge_check is None
    line = exit_line(rank, run, '--require-judge-check', code=3)
    assert '--require-judge-check' in line
