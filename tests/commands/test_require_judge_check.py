"""
A failed check leaves exit code 0, unless a check is required.
"""

import pytest

from parlai_ext.commands.command import run_directly
from parlai_ext.judge_check.record import write_check
from parlai_ext.results.ranking import read_ranking
from tests.support.check_example import FAILS, PASSES, example_check
from tests.support.report_example import SCORER, example_run


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
