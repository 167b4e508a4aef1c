"""
A scorer that cannot be had is found out before the first dialogue, not after the last.
"""

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.scoring.score_run import check_scorer, model_systems
from tests.support.small_run import SMALL, small_config
from tests.support.user_error import user_error

JUDGE = 'zoo:mini/judge/model'


@pytest.mark.parametrize(
    'wrong, line',
    [
        ({'judge_model_file': '/no/judge'}, 'there is no file /no/judge'),
        ({'judge_model_file': 'zoo:mini/judgee/model'}, f"did you mean '{JUDGE}'"),
        ({'followups': 'defaul'}, "did you mean 'default'"),
    ],
)
def test_nothing_is_collected_for_a_scorer_that_is_not_there(tmp_path, wrong, line):
    run = tmp_path / 'run'
    with user_error(line):
        EvaluateSystems.main(
            config=small_config(tmp_path), run_dir=run, **{**SMALL, **wrong}
        )
    assert not run.exists()


@pytest.mark.parametrize(
    'section, line',
    [
        ({'name': 'fedd'}, "unknown scorer 'fedd'; did you mean 'fed'"),
        ({'name': 'chatmatch', 'redding': 'paper'}, "did you mean 'reading'"),
    ],
)
def test_names_and_keys_are_checked_without_a_judge(section, line):
    with user_error(line):
        check_scorer(section)


def test_chatmatch_needs_no_judge_when_fluency_is_left_out():
    assert model_systems({'name': 'chatmatch', 'judge_model_file': 'none'}) == []
    [judge] = model_systems({'name': 'chatmatch'})
    assert judge.opt == {'model_file': JUDGE}


def test_another_scorer_for_dialogues_that_are_there_is_pointed_out(tmp_path):
    config, run = small_config(tmp_path), str(tmp_path / 'run')
    CollectDialogues.main(config=config, run_dir=run, num_dialogues=1, seed=0)
    with user_error('; score_dialogues judges the dialogues'):
        EvaluateSystems.main(
            config=config,
            run_dir=run,
            **{
                **SMALL,
                'num_dialogues': 1,
                'judge_model_file': 'zoo:mini/step-50/model',
            },
        )
