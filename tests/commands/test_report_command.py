import pytest

from parlai_ext.commands.report_run import ReportRun
from parlai_ext.core import content_id
from parlai_ext.results.ranking import write_ranking
from tests.report.test_report_reader import OTHER, word_counts
from tests.support.report_example import SCORER, example_ranking, example_run
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
