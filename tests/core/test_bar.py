"""
What a progress bar leaves in the log file of a job.
"""

from parlai_ext.core.progress import bar_of, count_reads
from parlai_ext.report.browse import read_page_dialogues
from tests.support.report_example import DIMENSIONS, SCORER, example_run


def test_a_log_file_gets_no_line_for_each_context(capsys):
    with bar_of('score', 500, True) as bar:
        add = count_reads(bar)
        for _ in range(500):
            add(1)
            bar.update(1)
    lines = capsys.readouterr().err.split('\r')
    assert [line for line in lines if '500/500' in line and '500 contexts' in line]
    assert len(lines) == 3  # before the first line, at the beginning, at the end


def test_a_run_that_is_read_at_once_shows_no_bar(capsys):
    with bar_of('rank', 5, delay=3) as bar:
        bar.update(5)
    assert capsys.readouterr().err == ''


def test_the_report_tells_of_each_dialogue_that_it_reads(tmp_path):
    run = example_run(tmp_path / 'r')
    seen = []
    count = {'on_read': lambda: seen.append(1)}
    shown = read_page_dialogues(run, SCORER, DIMENSIONS, **count)
    assert len(seen) == shown.total == sum(s.n_dialogues for s in run.dialogue_shards())
