"""
The main job as a user runs it: one command, again, extended, refused.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.results.ranking import to_json
from tests.support.small_run import SMALL, files_of, small_config
from tests.support.user_error import user_error


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    home = tmp_path_factory.mktemp('run')
    config = small_config(home)

    def evaluated(**more):
        given = {'config': config, 'run_dir': home / 'run', **SMALL, **more}
        return EvaluateSystems.main(**given)

    return home / 'run', evaluated, evaluated()


def test_ranking_json_has_the_documented_shape(finished):
    run, _, ranking = finished
    written = json.loads((run / 'ranking.json').read_text())
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


@pytest.mark.parametrize('key, value', [('seed', 9), ('num_dialogues', 1)])
def test_a_changed_setting_is_refused_by_name(finished, key, value):
    run, evaluated, _ = finished
    with user_error(key):
        evaluated(**{key: value})


def test_an_added_target_leaves_the_others_alone(finished, tmp_path):
    run, evaluated, _ = finished
    before = files_of(run)
    ranking = evaluated(add_target=['floor-echo=agent:repeat_query'])
    after = files_of(run)
    kept = {n for n in before if n.startswith(('dialogues/', 'scores/'))}
    kept -= {n for n in before if n.endswith('/judge_check.json')}  # checked anew
    assert kept and all(after[n] == before[n] for n in kept)
    names = {one.system for one in ranking.standings['Overall']}
    assert 'floor-echo' in names and len(names) == 3


def test_a_run_goes_on_without_its_protocol_file(finished):
    run, _, _ = finished
    before = files_of(run)
    EvaluateSystems.main(run_dir=run, check_sample=SMALL['check_sample'])
    after = files_of(run)
    kept = {n for n in before if n.startswith(('dialogues/', 'scores/'))}
    assert all(after[n] == before[n] for n in kept)
    with user_error('--seed needs --config'):
        EvaluateSystems.main(run_dir=run, seed=3)


def test_a_target_that_samples_can_be_added(finished):
    run, _, _ = finished
    before = files_of(run)
    EvaluateSystems.main(
        run_dir=run,
        check_sample=SMALL['check_sample'],
        add_target=['draws=zoo:mini/step-150/model,inference=topk,topk=5'],
    )
    after = files_of(run)
    assert all(after[n] == before[n] for n in before if n.startswith('dialogues/'))
    manifest = json.loads(after['manifest.json'])
    # targets are no part of the signature
    assert manifest['signature'] == json.loads(before['manifest.json'])['signature']
    assert manifest['targets']['draws']['shard_size'] == 2


def test_a_wrong_option_of_a_target_leaves_the_run_as_it_was(finished):
    run, _, _ = finished
    before = files_of(run)
    with user_error('typo.*inferenc'):
        EvaluateSystems.main(
            run_dir=run,
            add_target=['typo=zoo:mini/step-150/model,inferenc=beam'],
        )
    assert files_of(run) == before


def test_dry_run_refuses_what_the_run_would_refuse(finished):
    run, evaluated, _ = finished
    with user_error('num_turns: 12 → 8'):
        evaluated(num_turns=8, dry_run=True)


def test_dry_run_counts_and_writes_nothing(tmp_path):
    config = small_config(tmp_path)
    found = EvaluateSystems.main(
        config=config, run_dir=tmp_path / 'run', dry_run=True, **SMALL
    )
    # 2 targets x 2 partners x 2 dialogues; 10 made utterances each, 5 of them judged
    assert found.dialogues == 8
    assert found.utterances_to_generate == 80
    assert found.utterances_to_score == 40
    assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('num', [998, 10**12])
def test_dry_run_refuses_more_dialogues_than_there_are_openers(num):
    # ext:smalltalk has 1,000, of which 3 repeat others
    with user_error('num[-_]dialogues'):
        EvaluateSystems.main(config='demo', num_dialogues=num, dry_run=True)


def test_a_run_that_is_not_there_does_not_go_on(tmp_path):
    run = str(tmp_path / 'mistyped')
    with user_error(f'--config .*there is no run in {run}'):
        EvaluateSystems.main(run_dir=run)


def test_a_retriever_does_not_begin_with_warnings(tmp_path):
    # ParlAI's of candidates that are as they should be, and torch's of ParlAI
    config = small_config(tmp_path, targets=1, partners=1)
    assert 'retrieval' in Path(config).read_text()
    words = f'collect_dialogues --config {config} --run-dir {tmp_path}/run'
    words += ' --num-dialogues 1 --num-turns 4'
    done = subprocess.run(
        [sys.executable, '-m', 'parlai_ext', *words.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'collect: ' in done.stderr
    assert 'warning' not in done.stderr.lower()
