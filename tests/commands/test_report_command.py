import pytest

from parlai_ext.commands.report_run import ReportRun
from parlai_ext.core.nouns import content_id
from parlai_ext.results.ranking import write_ranking
from tests.report.test_report_reader import OTHER, add_word_counts
from tests.support.report_example import SCORER, example_ranking, example_run
from tests.support.user_error import user_error


def test_run_that_is_not_ranked_is_told_what_to_do_first(tmp_path):
    example_run(tmp_path / 'r')
    with user_error('rank it first: parlai rank_systems --run-dir'):
        ReportRun.main('--run-dir', str(tmp_path / 'r'))


@pytest.mark.parametrize('text', ['[]', '{"schema": 1}', '{"dimensions": {'])
def test_damaged_ranking_is_one_clear_line(tmp_path, text):
    example_run(tmp_path / 'r').write_text('ranking.json', text)
    with user_error('ranking.json is damaged'):
        ReportRun.main('--run-dir', str(tmp_path / 'r'))


def test_page_and_leaderboard_are_written_the_same_twice(tmp_path, capsys):
    run = example_run(tmp_path / 'r')
    write_ranking(run, example_ranking())
    page = ReportRun.main('--run-dir', str(run.root))
    paths = [run.root / 'report.html', run.root / 'leaderboard.csv']
    first = [path.read_bytes() for path in paths]
    assert page == paths[0] and all(first)
    ReportRun.main('--run-dir', str(run.root))
    assert [path.read_bytes() for path in paths] == first
    assert 'comes first of 2 systems' in capsys.readouterr().out


def test_rankings_of_other_scorers_alone_need_no_option_or_a_choice(tmp_path, capsys):
    # as in imported dialogues, which were not scored by the protocol's scorer
    run = example_run(tmp_path / 'r')
    about = {'config': {'name': 'length'}}
    run.write_json(f'scores/{run.scores(SCORER).root.name}/scorer.json', about)
    ranking = example_ranking()
    write_ranking(run, ranking, f'rankings/{content_id(SCORER)}/')
    ReportRun.main(run_dir=run.root)
    assert f'#?scorer={content_id(SCORER)}' in capsys.readouterr().out
    add_word_counts(run)
    run.write_json(f'scores/{run.scores(OTHER).root.name}/scorer.json', about)
    with user_error('--scores: not given; choose one of'):
        ReportRun.main(run_dir=run.root)
