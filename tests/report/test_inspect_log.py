"""
A run as logs of inspect_ai: they say what the run says, and come back by our import.
"""

import json
from pathlib import Path

import pytest

from parlai_ext.commands.report_run import ReportRun
from parlai_ext.data.imported_dialogues import ImportRules, read_imports
from parlai_ext.results.ranking import write_ranking
from tests.report.test_report_reader import means
from tests.support.report_example import example_ranking, example_run
from tests.support.store_samples import files_under


@pytest.fixture
def run(tmp_path):
    run = example_run(tmp_path / 'r')
    write_ranking(run, example_ranking())
    return run


def logs_of(run, folder):
    ReportRun.main(run_dir=run.root, inspect=str(folder))
    texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    return {log['eval']['model']: log for log in map(json.loads, texts)}


def test_a_log_for_each_target_has_its_dialogues_scores_and_intervals(run, tmp_path):
    logs = logs_of(run, tmp_path / 'logs')
    assert set(logs) == {'alpha', 'beta'}
    dialogues = {one.id: one for one in run.iter_dialogues()}
    mean_of = means(run, 'Overall')
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


def test_the_same_run_gives_the_same_logs_and_they_are_imported(run, tmp_path):
    first, again = tmp_path / 'logs', tmp_path / 'again'
    assert logs_of(run, first) == logs_of(run, again)
    assert files_under(first) == files_under(again)
    imports = read_imports(sorted(first.iterdir()), 'inspect', ImportRules())
    back = [tuple(turn.text for turn in one.turns) for one in imports.dialogues]
    assert sorted(back) == sorted(one.texts for one in run.iter_dialogues())
    assert {'alpha', 'beta'} <= set(imports.names)


def test_the_fields_without_a_default_in_inspect_ai_are_there(run, tmp_path):
    log = logs_of(run, tmp_path / 'logs')['alpha']
    score = log['results']['scores'][0]
    needed = (
        (log['eval'], {'created', 'task', 'dataset', 'model', 'config'}),
        (log['samples'][0], {'id', 'epoch', 'input', 'target'}),
        (log['samples'][0]['scores']['Overall'], {'value'}),
        (score, {'name', 'scorer'}),
        (score['metrics']['score'], {'name', 'value'}),
    )
    assert all(fields <= set(record) for record, fields in needed)
