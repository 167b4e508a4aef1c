"""
A failed check leaves exit code 0, unless a check is required.
"""

import pytest

from parlai_ext.commands.command import run_directly
from parlai_ext.judge_check.marks import dimension_check, kind_result
from parlai_ext.judge_check.record import JudgeCheck, write_check
from parlai_ext.results.ranking import read_ranking
from tests.support.report_example import SCORER, example_run
from tests.support.user_error import exit_line

NEEDED = ('shuffled_words', 'other_dialogue', 'punctuation')


def checked_run(folder, pair):
    """
    Return a run whose judge gave these scores to original and copy, 40 times.
    """
    run = example_run(folder)
    kinds = [kind_result(kind, 'systems', [pair] * 40) for kind in NEEDED]
    checks = {name: dimension_check(name, kinds) for name in ('Overall', 'Fluency')}
    check = JudgeCheck(SCORER, 40, 0, None, 120, 0.25, checks)
    write_check(run.scores(SCORER), check)
    return run


def rank(run, *flags):
    words = ['--run-dir', str(run.root), '--bootstraps', '20', *flags]
    run_directly('rank_systems', words)
    return read_ranking(run)


def test_a_judge_that_passed_is_in_the_ranking(tmp_path):
    run = checked_run(tmp_path / 'r', (1.0, 0.0))
    ranking = rank(run, '--require-judge-check')
    assert ranking.leading_check.dimension == 'Overall'
    assert ranking.judge_check.dimensions['Fluency'].outcome == 'pass'


@pytest.mark.parametrize('checked', [True, False])
def test_a_judge_that_failed_or_has_no_check_is_refused_where_one_is_required(
    tmp_path, capsys, checked
):
    root = tmp_path / 'r'
    run = checked_run(root, (0.0, 1.0)) if checked else example_run(root)
    ranking = rank(run)
    assert ranking.leading_check.failed if checked else ranking.judge_check is None
    line = exit_line(capsys, rank, run, '--require-judge-check', code=3)
    assert '--require-judge-check' in line
